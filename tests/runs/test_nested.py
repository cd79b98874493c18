"""Nests of tensors and numbers come back as they were, down to their layout."""

from __future__ import annotations

import json

import pytest
import torch

from nopg.runs.nested import flatten, unflatten


def test_what_goes_in_comes_out() -> None:
    nest = {
        "step": 3,
        0: {"mean": torch.arange(3.0), "rate": float("inf"), "flag": True},
        "list": [None, "word", torch.zeros(2, 0), torch.tensor(1.5)],
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "turned": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    }
    tensors: dict[str, torch.Tensor] = {}
    words = json.loads(json.dumps(flatten(nest, tensors)))
    assert all(tensor.is_contiguous() for tensor in tensors.values())
    found = unflatten(words, tensors)
    assert list(found) == list(nest)
    assert torch.equal(found[0].pop("mean"), torch.arange(3.0))
    assert found[0] == {"rate": float("inf"), "flag": True}
    for name in ("transposed", "turned"):
        assert torch.equal(found[name], nest[name])  # type: ignore[arg-type]
        assert found[name].stride() == nest[name].stride()  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [object(), {"x": b"bytes"}, {(1, 2): 3}])
def test_other_things_are_refused(value: object) -> None:
    with pytest.raises(TypeError):
        flatten(value, {})


@pytest.mark.parametrize(
    "words",
    [
        {"tensor": "gone", "order": []},
        {"tensor": "t", "order": [0]},
        {"tensor": "t", "order": [0, 7]},
        {"tensor": "t"},
        {"pairs": [1]},
        {},
    ],
)
def test_damaged_words_are_refused(words: object) -> None:
    tensors = {"t": torch.zeros(2, 3)}
    try:
        found = unflatten(words, tensors)
    except (KeyError, TypeError, ValueError):
        return
    assert torch.equal(found, torch.zeros(2, 3))  # an order that is one all the same


def test_depth_is_limited() -> None:
    nest: object = 1
    for _ in range(100):
        nest = [nest]
    with pytest.raises(ValueError, match="deep"):
        unflatten(nest, {})
