"""What a killed training goes on from: its state and its history, in one file.

Written whole or not at all: the SHA-256 of what follows, then tensors and JSON
(safetensors, no pickle). A damaged one is recognised.
"""

from dataclasses import asdict
from pathlib import Path

from nopg.algorithms.nopg.ascent import TrainingState
from nopg.data.files import write_atomically
from nopg.fitted.history import History, Update
from nopg.fitted.tensor_file import from_bytes, to_bytes
from nopg.runs.run_config import checked, read_plain, reading

CHECKPOINT = "training.checkpoint"
MAX_BYTES = 2**34  # most bytes a checkpoint may have: 16 GiB


def write_checkpoint(
    folder: Path, history: History, state: TrainingState | None
) -> None:
    """Keep the updates so far, and where training stands if it can be resumed."""
    names = ("policy", "ascent", "draws")
    where = None if state is None else {name: getattr(state, name) for name in names}
    updates = [asdict(update) for update in history]
    content = to_bytes({"history": updates, "state": where})
    write_atomically(folder / CHECKPOINT, lambda stream: stream.write(content))


def read_checkpoint(folder: Path) -> tuple[History, TrainingState | None]:
    """The updates of a run, and the state after the last one if there is any."""
    path = folder / CHECKPOINT
    content = read_plain(path, MAX_BYTES)
    with reading(path, "a checkpoint of this run"):
        parts = from_bytes(content)
        history = History([checked(Update, one) for one in parts["history"]])
        if history["step"] != [*range(1, len(history) + 1)]:
            raise ValueError("updates are missing")
        for update in history:
            sum(update.evaluations.values(), 0.0)  # fails unless all are numbers
        if parts["state"] is None:
            return history, None
        so_far = History(history.updates, "interrupted")
        state = TrainingState(**parts["state"], history=so_far)
        if state.step != len(history):
            raise ValueError(f"it is of step {state.step}")
        return history, state
