"""Demonstrations in the browser: drive an environment, keep the transitions."""

from nopg.record.recording import RecordConfig, Summary, record

__all__ = ["RecordConfig", "Summary", "record"]
