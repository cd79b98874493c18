"""Nests of tensors and plain values in a file: a SHA-256, then safetensors, no pickle.

What is damaged is recognised. An optimiser's state is such a nest of dictionaries,
lists, tensors and numbers; no reader needs to know which optimiser it is.
"""

import hashlib
import json
from typing import Any

import torch
from torch import Tensor

from nopg.data.files import parse_json

_STRUCTURE, _DIGEST_BYTES = "structure", 32


def to_bytes(nest: Any) -> bytes:
    """A nest as the content of a file."""
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    structure = json.dumps(flatten(nest, tensors)).encode()
    tensors[_STRUCTURE] = torch.frombuffer(bytearray(structure), dtype=torch.uint8)
    content = save(tensors)
    return hashlib.sha256(content).digest() + content


def from_bytes(content: bytes) -> Any:
    """The nest in a file; tuples come back as lists.

    Raises:
        ValueError: If it is damaged.
    """
    from safetensors.torch import load

    digest, content = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if digest != hashlib.sha256(content).digest():
        raise ValueError("its checksum is wrong")
    tensors = load(content)
    return unflatten(parse_json(tensors[_STRUCTURE].numpy().tobytes()), tensors)


def flatten(value: Any, tensors: dict[str, Tensor], name: str = "") -> Any:
    """`value` as JSON, its tensors put into `tensors` under their paths."""
    if isinstance(value, Tensor):
        # Files hold rows one after the other. How a matrix lay in memory decides in
        # which order products add up, and so their last bits: it is kept as well.
        strides = value.stride()
        order = sorted(range(value.ndim), key=lambda axis: -strides[axis])
        tensors[name] = value.detach().cpu().permute(order).clone().contiguous()
        return {"tensor": name, "order": order}
    if isinstance(value, dict):
        return {k: flatten(v, tensors, f"{name}/{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [flatten(v, tensors, f"{name}/{i}") for i, v in enumerate(value)]
    return value


def unflatten(value: Any, tensors: dict[str, Tensor]) -> Any:
    """What `flatten` took apart; tuples come back as lists."""
    if isinstance(value, list):
        return [unflatten(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"tensor", "order"}:
        order = value["order"]
        back = sorted(range(len(order)), key=order.__getitem__)
        return tensors[value["tensor"]].permute(back)
    return {k: unflatten(v, tensors) for k, v in value.items()}
