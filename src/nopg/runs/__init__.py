"""Run folders: training that can be stopped, continued, evaluated and shown."""

from nopg.runs.fit import Monitoring, resume, start
from nopg.runs.folder import Run, RunFolder, read_run

__all__ = ["Monitoring", "Run", "RunFolder", "read_run", "resume", "start"]
