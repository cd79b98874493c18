"""Nests of tensors and numbers come back as they were, down to their layout."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from nopg.errors import RunError
from nopg.fitted.history import History, Update
from nopg.fitted.storage import flatten, unflatten
from nopg.runs.folder import CHECKPOINT, read_checkpoint, write_checkpoint


def test_what_goes_in_comes_out() -> None:
    nest: dict[str, Any] = {
        "step": 3,
        "inner": {"mean": torch.arange(3.0), "rate": float("inf"), "flag": True},
        "list": [None, "word", torch.zeros(2, 0), torch.tensor(1.5)],
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "turned": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    }
    tensors: dict[str, torch.Tensor] = {}
    structure = json.loads(json.dumps(flatten(nest, tensors)))
    assert all(tensor.is_contiguous() for tensor in tensors.values())
    found = unflatten(structure, tensors)
    assert list(found) == list(nest)
    assert torch.equal(found["inner"].pop("mean"), torch.arange(3.0))
    assert found["inner"] == {"rate": float("inf"), "flag": True}
    assert found["list"][:2] == [None, "word"]
    for name in ("transposed", "turned"):
        assert torch.equal(found[name], nest[name])
        assert found[name].stride() == nest[name].stride()


STATE = {"policy": {}, "ascent": {"step": 0}, "draws": 0}
NONE = {"tensor": "none", "order": [0, 1]}  # eight columns of no update
EMPTY: dict[str, Any] = {"updates": NONE, "evaluations": {}, "state": None}


@pytest.mark.parametrize(
    "structure",
    [
        {"tensor": "gone", "order": []},
        {"tensor": "t", "order": [0]},
        {"tensor": "t", "order": [0, 7, 3]},
        {"tensor": "t", "order": 5},
        EMPTY | {"state": STATE | {"ascent": {"step": 1e400}}},
        EMPTY | {"state": STATE | {"ascent": {"step": 4}}},
        EMPTY | {"state": STATE | {"ascent": []}},
        EMPTY | {"state": {"ascent": {"step": 0}}},
        EMPTY | {"state": [1]},
        EMPTY | {"updates": {"tensor": "t", "order": [0, 1]}},
        EMPTY | {"updates": [[1.0]]},
        EMPTY | {"updates": 5},
        {"state": STATE},
        [1],
        5,
    ],
)
def test_a_foreign_structure_under_a_good_checksum_is_refused(
    structure: object, tmp_path: Path
) -> None:
    text = bytearray(json.dumps(structure).encode())
    words = torch.frombuffer(text, dtype=torch.uint8)
    content = save({"t": torch.zeros(2, 3), "none": torch.zeros(8, 0), "structure": words})
    (tmp_path / CHECKPOINT).write_bytes(hashlib.sha256(content).digest() + content)
    with pytest.raises(RunError, match="must be a checkpoint of this run"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("steps", [(2,), (1, 3), (1, 1)])
def test_updates_that_are_missing_are_noticed(steps: tuple[int, ...], tmp_path: Path) -> None:
    made = [Update(step, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0) for step in steps]
    write_checkpoint(tmp_path, History(made), None)
    with pytest.raises(RunError, match="updates are missing"):
        read_checkpoint(tmp_path)


def test_updates_come_back_as_they_were(tmp_path: Path) -> None:
    first = Update(1, float("nan"), 0.1, 0.25, 1e-3, 7, 0, 1.5, {"J": -3.0})
    made = [first, Update(2, -1e300, 0.5, 0.25, 1e-3, 2**40, 1, 2.5)]
    write_checkpoint(tmp_path, History(made), None)
    history, state = read_checkpoint(tmp_path)
    assert state is None
    assert repr(history.updates) == repr(made)  # NaN equals nothing


@pytest.mark.parametrize("evaluations", [{"J": "high"}, {"J": None}, {"J": [1.0]}])
def test_results_that_are_no_numbers_are_noticed(
    evaluations: dict[str, Any], tmp_path: Path
) -> None:
    update = Update(1, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0, evaluations)
    write_checkpoint(tmp_path, History([update]), None)
    with pytest.raises(RunError, match="must be a checkpoint of this run"):
        read_checkpoint(tmp_path)


def test_a_structure_nested_without_end_is_refused(tmp_path: Path) -> None:
    text = bytearray(b"[" * 100_000)
    content = save({"structure": torch.frombuffer(text, dtype=torch.uint8)})
    (tmp_path / CHECKPOINT).write_bytes(hashlib.sha256(content).digest() + content)
    with pytest.raises(RunError, match="must be a checkpoint of this run"):
        read_checkpoint(tmp_path)
