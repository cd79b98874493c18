"""A finished run as the report needs it, from a folder, a model file or memory.

This is the one place that knows what a run folder holds. Every file but the model
is optional, and none is trusted: numbers are checked, everything else is text.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nopg.algorithms.nopg.nopg import NOPG
from nopg.data.dataset import Dataset
from nopg.errors import DataError, PolicyFileError
from nopg.fitted.storage import load

HISTORY, MODEL = "history.jsonl", "model.nopg"
ABOUT = ("run.json", "config.json")
"""Where a folder tells more about its run; the first that exists is read."""
EVALUATION = "evaluation.json"
_MAX_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Run:
    """A trained model and what is known of its making.

    Attributes:
        model: The model, with its data.
        name: What to call the run.
        updates: One record an update, as `History.to_json_lines` writes them.
        about: What the folder tells of the run: why it stopped, versions, times.
        evaluation: What `nopg evaluate` measured, if it did.
    """

    model: NOPG
    name: str
    updates: tuple[Mapping[str, Any], ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: NOPG, name: str) -> Run:
        """The run of a model that was just fitted."""
        history = model.history
        if history is None or model.search is not None:
            return cls(model, name)  # the history of a search is of one try among many
        updates = tuple(asdict(update) for update in history)
        return cls(model, name, updates, {"stopped": history.stopped})

    @property
    def data(self) -> Dataset:
        """The transitions the model was learned from.

        Raises:
            PolicyFileError: If the model was saved without them.
        """
        data = self.model.setup.data
        if data is None:
            raise PolicyFileError(
                "A report needs the data, this model was saved without them; save it "
                "with include_data=True."
            )
        return data

    @property
    def stopped(self) -> str:
        """Why training ended, or nothing if no file tells."""
        return str(self.about.get("stopped", ""))

    def column(self, name: str) -> list[float]:
        """One number an update; not a number where the record has none."""
        return [_number(update.get(name)) for update in self.updates]

    def evaluations(self) -> dict[str, tuple[list[float], list[float]]]:
        """Steps and results of every evaluator that ran during training."""
        found: dict[str, tuple[list[float], list[float]]] = {}
        for update in self.updates:
            results = update.get("evaluations")
            for name, result in (results if isinstance(results, dict) else {}).items():
                steps, values = found.setdefault(str(name), ([], []))
                if math.isfinite(_number(result)):
                    steps.append(_number(update.get("step")))
                    values.append(_number(result))
        return {name: pair for name, pair in found.items() if pair[0]}


def read_run(path: str | Path) -> Run:
    """Read a run folder, or a model file with whatever lies beside it.

    Args:
        path: A folder that `nopg train` or `nopg demo` wrote, or a `.nopg` file.

    Raises:
        PolicyFileError: If there is no model, or a file is damaged.
    """
    path = Path(path)
    file = _model_file(path) if path.is_dir() else path
    folder = file.parent
    model = load(file)
    named = path if path.is_dir() else file.with_suffix("")
    is_alone = file.name != MODEL and not path.is_dir()
    return Run(
        model=model,
        name=named.resolve().name or "run",
        # A model file picked by name need not belong to the history beside it.
        updates=() if is_alone else _history(folder / HISTORY),
        about={} if is_alone else _about(folder),
        evaluation={} if is_alone else _json_object(folder / EVALUATION),
    )


def fingerprint(data: Dataset) -> str:
    """A SHA-256 of every array of the data: equal data, equal fingerprint."""
    digest = hashlib.sha256()
    for name in (
        "observations",
        "actions",
        "rewards",
        "next_observations",
        "terminations",
        "truncations",
    ):
        array = getattr(data, name)
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _model_file(folder: Path) -> Path:
    if (folder / MODEL).exists():
        return folder / MODEL
    found = sorted(folder.glob("*.nopg"))
    if len(found) != 1:
        raise PolicyFileError(
            f"`{folder}` must hold one model, found {len(found) or 'none'}; name the "
            "file itself, or the folder that nopg train wrote."
        )
    return found[0]


def _about(folder: Path) -> dict[str, Any]:
    for name in ABOUT:
        if (folder / name).exists():
            return _json_object(folder / name)
    return {}


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DataError(
                f"`{path}` must be a small text file, it has {path.stat().st_size:,} "
                "bytes; it does not belong to a run."
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyFileError(
            f"`{path}` must be readable text, reading it failed ({error}); remove it "
            "to make the report without."
        ) from None


def _json_object(path: Path) -> dict[str, Any]:
    text = _text(path)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PolicyFileError(
            f"`{path}` must hold one JSON object, it does not; remove it to make the "
            "report without."
        )
    return found


def _history(path: Path) -> tuple[Mapping[str, Any], ...]:
    """Every whole line; a last one cut short by a crash is left out."""
    updates = []
    lines = _text(path).splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            update = json.loads(line)
        except (ValueError, RecursionError):
            update = None
        if not isinstance(update, dict):
            if number == len(lines):
                break
            raise PolicyFileError(
                f"`{path}` must hold one JSON object a line, line {number} is none; "
                "remove the file to make the report without."
            )
        updates.append(update)
    return tuple(updates)


def _number(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else math.nan
