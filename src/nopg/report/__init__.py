"""One page a person would rather look at than read: what was learned, from what.

`write_report(policy, "report.html")` makes a single HTML file that needs no network.
"""

from nopg.report.page import write_report

__all__ = ["write_report"]
