"""Run folders: training that can be stopped, continued, evaluated and shown."""

from nopg.runs.fit import resume, start
from nopg.runs.folder import RunFolder
from nopg.runs.progress import Monitoring
from nopg.runs.run import Run, read_run

__all__ = ["Monitoring", "Run", "RunFolder", "read_run", "resume", "start"]
