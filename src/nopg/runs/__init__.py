"""Run folders: training that can be stopped, continued, evaluated and shown."""

from nopg.runs.folder import RunFolder
from nopg.runs.train import resume, start

__all__ = ["RunFolder", "resume", "start"]
