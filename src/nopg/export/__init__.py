"""Policies for other programs: ONNX, torch.export and plain numpy."""
