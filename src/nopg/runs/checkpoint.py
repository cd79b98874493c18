"""What a killed training goes on from: its state and its history, in one file."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from nopg.algorithms.nopg.ascent import TrainingState
from nopg.data.files import write_atomically
from nopg.fitted.history import History, Update
from nopg.fitted.storage import from_bytes, to_bytes
from nopg.runs.run_config import read_plain, reading

CHECKPOINT = "training.checkpoint"
MAX_BYTES = 2**34  # most bytes a checkpoint may have: 16 GiB
# Fields of an update that are numbers, int or float.
_NUMBERS = {f.name: f.type for f in fields(Update) if f.name != "evaluations"}


def write_checkpoint(
    folder: Path, history: History, state: TrainingState | None
) -> None:
    """Keep the updates so far, and where training stands if it can be resumed."""
    columns = [history[name] for name in _NUMBERS]
    names = ("policy", "ascent", "draws")
    where = None if state is None else {name: getattr(state, name) for name in names}
    parts = {
        "updates": torch.tensor(columns, dtype=torch.float64),  # (fields, n)
        "evaluations": {str(u.step): u.evaluations for u in history if u.evaluations},
        "state": where,
    }
    content = to_bytes(parts)
    write_atomically(folder / CHECKPOINT, lambda stream: stream.write(content))


def read_checkpoint(folder: Path) -> tuple[History, TrainingState | None]:
    """The updates of a run, and the state after the last one if there is any."""
    path = folder / CHECKPOINT
    content = read_plain(path, MAX_BYTES)
    with reading(path, "a checkpoint of this run"):
        parts = from_bytes(content)
        history = History(_updates(parts["updates"].tolist(), parts["evaluations"]))
        if parts["state"] is None:
            return history, None
        so_far = History(history.updates, "interrupted")
        state = TrainingState(**parts["state"], history=so_far)
        if state.step != len(history):
            raise ValueError(f"it is of step {state.step}")
        return history, state


def _updates(columns: list[list[float]], evaluations: dict[str, Any]) -> list[Update]:
    found: dict[str, Any] = dict(zip(_NUMBERS, columns, strict=True))
    for name in (name for name, kind in _NUMBERS.items() if kind is int):
        found[name] = [int(value) for value in found[name]]
    if found["step"] != [*range(1, len(found["step"]) + 1)]:
        raise ValueError("updates are missing")
    results = [dict(evaluations.get(str(step), {})) for step in found["step"]]
    for result in results:
        sum(result.values(), 0.0)  # fails unless all are numbers
    return [Update(*each) for each in zip(*found.values(), results, strict=True)]
