"""Policies for other programs: ONNX, torch.export and plain numpy."""

from nopg.export.exporting import Exported, export

__all__ = ["Exported", "export"]
