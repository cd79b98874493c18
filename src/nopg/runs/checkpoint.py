"""Checkpoints: all of a training's state in one file, whole or not there.

A file holds tensors and JSON (safetensors, no pickle) and the SHA-256 of both, so
that a damaged one is told from a good one and the one before it is taken instead.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from nopg.algorithms.nopg.states import TrainingState
from nopg.data.files import write_atomically
from nopg.errors import RunError
from nopg.fitted.history import History
from nopg.runs.nested import flatten, unflatten
from nopg.runs.plain_files import read_plain

FORMAT = 1
KEPT = 2
"""Checkpoints kept: the newest, and one in case its disk block goes bad."""
MAX_BYTES = 2**34
"""Most bytes a checkpoint may have: 16 GiB."""

_NAME = re.compile(r"step-(\d{9})\.safetensors")


def write_checkpoint(folder: Path, state: TrainingState) -> Path:
    """Write the state and remove all but the newest `KEPT` checkpoints.

    The history is not in it: the run's history file must be on the disk before.
    """
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    about = flatten(
        {"policy": state.policy, "ascend": state.ascend, "draws": state.draws}, tensors
    )
    words = json.dumps({"format": FORMAT, "step": state.step, "state": about})
    metadata = {"nopg": words, "sha256": _digest(words, tensors)}
    content = save(tensors, metadata=metadata)
    path = folder / f"step-{state.step:09d}.safetensors"
    write_atomically(path, lambda stream: stream.write(content))
    for old in checkpoints(folder)[KEPT:]:
        with suppress(OSError):
            old.unlink()
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Files of complete checkpoints, newest first; by step, clocks may lie."""
    try:
        found = [file for file in folder.iterdir() if _NAME.fullmatch(file.name)]
    except OSError:
        return []
    return sorted(found, key=lambda file: file.name, reverse=True)


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    matched = _NAME.fullmatch(path.name)
    assert matched is not None
    return int(matched[1])


def read_checkpoint(path: Path, history: History) -> TrainingState:
    """The state a checkpoint holds, with the updates of `history` that led to it.

    Raises:
        RunError: If the file is damaged, foreign, or the history is shorter.
    """
    try:
        about, tensors = _read(path)
        state = unflatten(about["state"], tensors)
        step = int(state["ascend"]["step"])
        if step != step_of(path):
            raise ValueError(f"it is of step {step}")
        if len(history) < step:
            raise ValueError(f"the history ends at step {len(history)}")
        return TrainingState(
            policy={str(k): _tensor(v) for k, v in state["policy"].items()},
            ascend=state["ascend"],
            draws=_tensor(state["draws"]),
            history=History(history.updates[:step]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RunError(
            f"`{path}` must be a checkpoint of this run, reading it failed ({error}); "
            "it is damaged or of another program."
        ) from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = read_plain(path, MAX_BYTES)
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    metadata = _metadata(content)
    words = metadata["nopg"]
    if metadata["sha256"] != _digest(words, tensors):
        raise ValueError("its checksum is wrong")
    about = json.loads(words)
    if about["format"] != FORMAT:
        raise ValueError(f"it is of format {about['format']}, not {FORMAT}")
    return about, tensors


def _metadata(content: bytes) -> dict[str, str]:
    """The words in a safetensors file: 8 bytes of length, then JSON."""
    length = int.from_bytes(content[:8], "little")
    found = json.loads(content[8 : 8 + length])["__metadata__"]
    return {str(k): str(v) for k, v in found.items()}


def _digest(words: str, tensors: dict[str, Tensor]) -> str:
    total = hashlib.sha256(words.encode())
    for name in sorted(tensors):
        array = tensors[name].numpy()
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"a tensor is a {type(value).__name__}")
    return value
