"""Nested dictionaries of tensors and numbers as flat tensors and JSON, and back.

An optimiser's state is such a nest. Written this way it needs no pickle, and no
knowledge of which optimiser it is.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

MAX_DEPTH = 16


def flatten(value: Any, tensors: dict[str, Tensor], name: str = "") -> Any:
    """`value` as JSON, its tensors put into `tensors` under their paths.

    Raises:
        TypeError: If there is something else in it.
    """
    if isinstance(value, Tensor):
        # Files hold rows one after the other. How a matrix lay in memory decides in
        # which order products add up, and so their last bits: it is kept as well.
        strides = value.stride()
        order = sorted(range(value.ndim), key=lambda axis: -strides[axis])
        tensors[name] = value.detach().cpu().permute(order).clone().contiguous()
        return {"tensor": name, "order": order}
    if isinstance(value, dict):  # as pairs: JSON would turn the key 0 into "0"
        pairs = [[k, flatten(v, tensors, f"{name}/{k}")] for k, v in value.items()]
        if not all(isinstance(key, str | int) for key in value):
            raise TypeError(f"{name} has keys other than text and numbers")
        return {"pairs": pairs}
    if isinstance(value, list | tuple):
        return [flatten(v, tensors, f"{name}/{i}") for i, v in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, not a tensor or a number")


def unflatten(value: Any, tensors: dict[str, Tensor], depth: int = MAX_DEPTH) -> Any:
    """What `flatten` took apart; tuples come back as lists.

    Raises:
        KeyError, TypeError, ValueError: If `value` is not what `flatten` returns.
    """
    if depth < 0:
        raise ValueError(f"values are nested more than {MAX_DEPTH} deep")
    if isinstance(value, list):
        return [unflatten(v, tensors, depth - 1) for v in value]
    if isinstance(value, dict):
        if "tensor" in value:
            order = value["order"]
            back = sorted(range(len(order)), key=order.__getitem__)
            return _permuted(tensors[value["tensor"]], back)
        return {k: unflatten(v, tensors, depth - 1) for k, v in value["pairs"]}
    return value


def _permuted(tensor: Tensor, axes: list[int]) -> Tensor:
    if tensor.ndim != len(axes):
        raise ValueError(f"a tensor of {tensor.ndim} axes has {len(axes)} in its order")
    return tensor.permute(axes)
