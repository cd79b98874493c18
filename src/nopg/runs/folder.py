"""A run folder: what it holds, and how each thing is read.

    run.json        settings, bandwidths, versions, command; written once
    data.npz        the transitions that are learned from
    history.jsonl   one line an update
    checkpoints/    the newest two states of training
    status.json     how training ended, once it has
    model.nopg      the policy, once training has ended
    evaluation.json what `nopg evaluate` found
    log.txt         what happened when, in words
    .lock           held by the process that trains

Everything but the history and the log is written whole or not at all.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import nn

from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.nopg.states import TrainingState
from nopg.data.dataset import Dataset
from nopg.errors import DataError, RunError
from nopg.fitted.history import History
from nopg.fitted.storage import load
from nopg.runs.checkpoint import checkpoints, read_checkpoint, step_of
from nopg.runs.fingerprint import fingerprint
from nopg.runs.history_file import read_history
from nopg.runs.ownership import require_vacant
from nopg.runs.plain_files import read_json, write_json
from nopg.runs.record import RunRecord

DONE = ("finished", "converged")
"""How a training ends that has nothing left to do."""


class RunFolder:
    """One run on the disk.

    Args:
        path: The folder; see `RunFolder.open` and `RunFolder.create`.
        record: What its `run.json` says.
    """

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """The run in an existing folder.

        Raises:
            RunError: If there is none.
        """
        path = Path(path)
        if not (path / "run.json").exists():
            raise RunError(
                f"`{path}` must be the folder of a run, it has no run.json; make one "
                "with nopg train DATA --out FOLDER."
            )
        found = read_json(path / "run.json")
        return cls(path, RunRecord.from_json(found, path / "run.json"))

    @classmethod
    def create(cls, path: Path, record: RunRecord, data: Dataset) -> RunFolder:
        """A new run; its `run.json` comes last, so that a folder with one is whole."""
        require_vacant(path)
        data.save(path / "data.npz")
        write_json(path / "run.json", record.to_json())
        return cls(path, record)

    def data(self) -> Dataset:
        """The transitions, checked against their fingerprint.

        Raises:
            RunError: If they are missing, damaged or others.
        """
        path = self.path / "data.npz"
        try:
            data = Dataset.load(path)
        except DataError as error:
            raise RunError(str(error)) from None
        if fingerprint(data) != self.record.data["sha256"]:
            raise RunError(
                f"`{path}` must hold the transitions this run began with, its SHA-256 "
                "is another one; put the file back."
            )
        return data

    def history(self) -> History:
        """The updates so far, and why training ended if it has."""
        path = self.path / "history.jsonl"
        history = read_history(path) if path.exists() else History()
        history.stopped = self.status().get("stopped", "interrupted")
        return history

    def status(self) -> dict[str, Any]:
        """How training last ended: `stopped`, `updates`, `objective`; or nothing.

        Raises:
            RunError: If the file is damaged.
        """
        path = self.path / "status.json"
        if not path.exists():
            return {}
        found = read_json(path)
        known = type(found.get("stopped")), type(found.get("updates"))
        if known != (str, int):
            raise RunError(
                f"`{path}` must say how training ended, it does not; it is damaged, "
                "and may be removed."
            )
        return found

    @property
    def is_done(self) -> bool:
        """Whether training has nothing left to do."""
        return self.status().get("stopped") in DONE

    def state(self) -> TrainingState | None:
        """The newest checkpoint that is whole; None before the first.

        Raises:
            RunError: If there are checkpoints and all are damaged.
        """
        problems = []
        found = checkpoints(self.checkpoints)
        history = self.history() if found else History()
        for path in found:
            try:
                return read_checkpoint(path, history)
            except RunError as error:
                problems.append(error)
        if problems:
            raise problems[0]
        return None

    def model(self, policy: nn.Module | None = None, device: str = "cpu") -> NOPG:
        """The model as trained so far: from its file, or a newer checkpoint.

        Args:
            policy: For runs with a module of your own: one of the same architecture.
            device: Where the model shall live.

        Raises:
            RunError: If there has been no checkpoint yet.
        """
        path = self.path / "model.nopg"
        updates = self.status().get("updates", -1)
        newest = checkpoints(self.checkpoints)
        if path.exists() and (not newest or step_of(newest[0]) <= updates):
            model = load(path, policy, device)
            model.history = self.history()
            return model
        state = self.state()
        if state is None:
            raise RunError(
                f"`{self.path}` must have a policy, it has none yet: training stopped "
                f"before its first checkpoint; run nopg train --resume {self.path}."
            )
        model = self.prepared(policy, device)
        try:
            model.policy.load_state_dict(state.policy)
        except RuntimeError as error:
            raise RunError(
                f"`{self.checkpoints}` must fit the run's policy, it does not "
                f"({str(error).splitlines()[0]}); is `policy` another one?"
            ) from None
        model.history = state.history
        model.history.stopped = "interrupted"
        return model

    def prepared(
        self, policy: nn.Module | None = None, device: str | None = None
    ) -> NOPG:
        """A model with the run's settings, data and bandwidths, and a fresh policy."""
        settings = dict(self.record.config)
        if device is not None:
            settings["device"] = device
        kind = settings.pop("policy")
        if kind == "custom" and policy is None:
            raise RunError(
                f"`{self.path}` trains a module of your own, whose code no file holds; "
                "pass it: policy=YourModule()."
            )
        model = NOPG(
            kind if policy is None else policy,
            bandwidths=self.record.numbers(),
            action_space=self.record.space(),
            **settings,
        )
        model.prepare(self.data(), self.record.initial_states)
        return model

    def evaluations(self) -> list[dict[str, Any]]:
        """What `nopg evaluate` found, in the order it was run; see `Evaluation`."""
        return evaluations(self.path)

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"


def evaluations(folder: Path) -> list[dict[str, Any]]:
    """What `nopg evaluate` found, in the order it was run; see `Evaluation`.

    Raises:
        RunError: If the file is damaged.
    """
    path = folder / "evaluation.json"
    if not path.exists():
        return []
    found = read_json(path).get("evaluations")
    if not isinstance(found, list) or not all(isinstance(e, dict) for e in found):
        raise RunError(f"`{path}` must list evaluations, it does not.")
    return found


def keep_evaluation(folder: Path, evaluation: dict[str, Any], updates: int) -> Path:
    """Add an evaluation of the policy in `folder` after `updates` updates."""
    path = folder / "evaluation.json"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    made = {"updates": updates, "created": now, **evaluation}
    write_json(path, {"evaluations": [*evaluations(folder), made]})
    return path
