"""Demonstrations in the browser: drive an environment, keep the transitions."""

from nopg.record.config import RecordConfig
from nopg.record.run import Summary, record

__all__ = ["RecordConfig", "Summary", "record"]
