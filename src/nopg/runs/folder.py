"""A run folder: what it holds, and how each thing is read.

run.json              settings, versions, command; written once
initial.nopg          the untrained policy and its transitions
training.checkpoint   where training stood last, and its updates so far
status.json           how training ended, once it has
policy.nopg           the policy, once training has ended; all there is of `learn`
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from nopg.algorithms.nopg.ascent import TrainingState
from nopg.algorithms.nopg.nopg import NOPG
from nopg.data.files import exclusive, write_atomically
from nopg.data.io.metadata import fingerprint
from nopg.errors import RunError
from nopg.fitted.history import History, Update
from nopg.fitted.load import load
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.storage import from_bytes, to_bytes
from nopg.runs.run_config import RunConfig, read_file, read_json, reading, require_plain, write_json

CHECKPOINT = "training.checkpoint"
MAX_BYTES = 2**34  # most bytes a checkpoint may have: 16 GiB
# Fields of an update that are numbers, int or float.
_NUMBERS = {f.name: f.type for f in fields(Update) if f.name != "evaluations"}
LITTER = tuple(f".{n}.*.tmp" for n in ("run.json", "*.nopg", "status.json", CHECKPOINT))


@dataclass(frozen=True)
class RunFolder:
    """One run on the disk; see `RunFolder.open`."""

    path: Path
    config: RunConfig  # what its `run.json` says

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The run in an existing folder."""
        path = Path(path)
        if not (path / "run.json").exists():
            raise RunError(
                f"`{path}` must be the folder of a run, it has no run.json; make one "
                "with nopg fit DATA --out FOLDER, or name a .nopg file."
            )
        return cls(path, RunConfig.read(path / "run.json"))

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> Self:
        """A new run; what it begins with must be there, so that it is whole."""
        require_vacant(path)
        write_json(path / "run.json", asdict(config))
        return cls(path, config)

    def finish(self, policy: FittedPolicy) -> None:
        """Write the policy, and then how it was learned."""
        policy.save(self.path / "policy.nopg")
        history = policy.history or History()
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        status = {"stopped": history.stopped, "updates": len(history), "ended": ended}
        write_json(self.path / "status.json", status)

    def history(self) -> History:
        """The updates so far, and why training ended if it has."""
        history, _ = read_checkpoint(self.path)
        history.stopped = self.status().get("stopped", "interrupted")
        return history

    def status(self) -> dict[str, Any]:
        """How training last ended: `stopped`, `updates`, `ended`; or nothing."""
        if not (path := self.path / "status.json").exists():
            return {}
        found = read_json(path)
        with reading(path, "a note of how training ended"):
            if (type(found["stopped"]), type(found["updates"])) != (str, int):
                raise TypeError("it is no note of ours")
        return found

    @property
    def is_done(self) -> bool:
        """Whether training has nothing left to do."""
        return self.status().get("stopped") == "finished"

    def state(self) -> TrainingState | None:
        """Where training stood at its checkpoint; None before the first."""
        return read_checkpoint(self.path)[1]

    def policy(self, policy: nn.Module | None = None) -> FittedPolicy:
        """The policy as trained so far: from its file, or a newer checkpoint.

        Args:
            policy: For runs with a module of your own: one of the same architecture.
        """
        history = self.history()
        is_newer = len(history) > self.status().get("updates", -1)
        if (self.path / "policy.nopg").exists() and not is_newer:
            fitted = self._stored("policy.nopg", policy)
            if self.config.algorithm == "NOPG":
                fitted.history = history
            return fitted
        if (state := self.state()) is None:
            raise RunError(
                f"`{self.path}` must have a policy, it has none yet: training stopped "
                f"before its first checkpoint; run nopg fit --resume {self.path}."
            )
        fitted = self._stored("initial.nopg", policy)
        with reading(self.path / CHECKPOINT, "of the run's policy"):
            fitted.policy.load_state_dict(state.policy)
        fitted.history = state.history
        return fitted

    def prepared(self, policy: nn.Module | None = None) -> NOPG:
        """NOPG with the run's settings, data, bandwidths and first policy."""
        base = self._stored("initial.nopg", policy)
        if base.data is None or fingerprint(base.data) != self.config.data_sha256:
            raise RunError(
                f"`{self.path / 'initial.nopg'}` must hold the transitions this run "
                "began with, their SHA-256 is another one; put the file back."
            )
        settings = dict(self.config.settings)
        with reading(self.path / "run.json", "a record of how the run is trained"):
            kind = settings.pop("policy")
            settings |= {"bandwidths": base.bandwidths, "action_space": base.action_space}
            model = NOPG(kind if policy is None else policy, **settings)
        fitted = model.prepare(base.data, base.initial_states)
        fitted.policy.load_state_dict(base.policy.state_dict())
        return model

    def _stored(self, name: str, policy: nn.Module | None) -> FittedPolicy:
        require_plain(self.path / name)
        return load(self.path / name, policy)


@dataclass(frozen=True)
class Run:
    """A fitted policy and what is known of how it came to be."""

    policy: FittedPolicy  # with its data and, after `fit`, its history
    name: str  # what to call the run
    config: RunConfig | None = None  # what `run.json` says; None for a policy outside a run folder
    status: Mapping[str, Any] = field(default_factory=dict)  # how training ended, where it has

    @property
    def origin(self) -> dict[str, Any]:
        """When and how the policy was made, for people."""
        if self.config is None:
            return {}
        facts = {"command": self.config.command, "created": self.config.created}
        return {**self.config.versions, **facts, **self.status}


def read_run(path: str | Path) -> Run:
    """Read a run folder, or a policy file.

    Args:
        path: A folder that `nopg learn` or `nopg fit` wrote, or a `.nopg` file.
    """
    path = Path(path)
    if path.name == "policy.nopg" and (path.parent / "run.json").exists():
        path = path.parent  # the policy of a run brings its history along
    name = path.resolve().name.removesuffix(".nopg") or "run"
    if not path.is_dir():
        return Run(load(path), name)
    run = RunFolder.open(path)
    return Run(run.policy(), name, run.config, run.status())


def require_vacant(path: Path) -> None:
    """Check that nothing would be lost by beginning a run in `path`."""
    if (path / "run.json").exists() or (path / "policy.nopg").exists():
        raise RunError(
            f"`{path}` must be a new folder, it already holds a run; choose another "
            f"name, or continue that one with nopg fit --resume {path}."
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the run folder `path` for writing; litter of killed processes is removed."""
    with exclusive(path / ".lock", str(path), "writer"):
        for file in (file for pattern in LITTER for file in path.glob(pattern)):
            with suppress(OSError):
                file.unlink()
        yield


def write_checkpoint(folder: Path, history: History, state: TrainingState | None) -> None:
    """Keep the updates so far, and where training stands if it can be resumed."""
    names = ("policy", "ascent", "draws")
    parts = {
        "updates": torch.tensor([history[n] for n in _NUMBERS], dtype=torch.float64),  # (fields, n)
        "evaluations": {str(u.step): u.evaluations for u in history if u.evaluations},
        "state": None if state is None else {name: getattr(state, name) for name in names},
    }
    write_atomically(folder / CHECKPOINT, lambda stream: stream.write(to_bytes(parts)))


def read_checkpoint(folder: Path) -> tuple[History, TrainingState | None]:
    """The updates of a run, and the state after the last one if there is any."""
    if not (path := folder / CHECKPOINT).exists():
        return History(), None
    with reading(path, "a checkpoint of this run"):
        parts = from_bytes(read_file(path, MAX_BYTES))
        history = History(_updates(parts["updates"].tolist(), parts["evaluations"]))
        if parts["state"] is None:
            return history, None
        state = TrainingState(**parts["state"], history=History(history.updates, "interrupted"))
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
