"""One page a person would rather look at than read: what was learned, from what.

`write_report(read_run(path), out)` makes a single HTML file that needs no network.
"""

from nopg.report.page import write_report
from nopg.report.read import Run, read_run

__all__ = ["Run", "read_run", "write_report"]
