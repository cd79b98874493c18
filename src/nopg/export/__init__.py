"""Policies for other programs: C, JavaScript, ONNX and plain numpy."""

from nopg.export.exporting import Exported, export_policy

__all__ = ["Exported", "export_policy"]
