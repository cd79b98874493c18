"""Demonstrations in the browser: drive an environment, keep the transitions."""

from nopg.record.recording import RecordConfig, record

__all__ = ["RecordConfig", "record"]
