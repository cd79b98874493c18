"""One page a person would rather look at than read: what was learned, from what."""

from nopg.report.page import write_report

__all__ = ["write_report"]
