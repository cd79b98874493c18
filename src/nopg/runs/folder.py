"""A run folder: what it holds, and how each thing is read.

    run.json        settings, bandwidths, versions, command; written once
    data.npz        the transitions that are learned from
    history.jsonl   one line per update
    checkpoints/    the newest two states of training
    status.json     how training ended, once it has
    policy.nopg     the policy, once training has ended
    evaluation.json what `nopg evaluate` measured
    .lock           held by the process that writes

`nopg learn` makes no updates: its runs have neither history nor checkpoints.
Everything but the history is written whole or not at all. A folder may
come from somebody else: no link in it is followed, and nothing in it is believed.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import nn

from nopg.algorithms.nopg.ascent import TrainingState
from nopg.algorithms.nopg.nopg import NOPG
from nopg.data.dataset import Dataset
from nopg.data.fingerprint import fingerprint
from nopg.data.spaces import space_from_json
from nopg.errors import DataError, RunError
from nopg.fitted.history import History
from nopg.fitted.load import load
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.storage import bandwidths_from_json
from nopg.runs.checkpoint import checkpoints, read_checkpoint, step_of
from nopg.runs.history_file import read_history
from nopg.runs.ownership import require_vacant
from nopg.runs.plain_files import read_json, require_plain, write_json
from nopg.runs.run_config import RunConfig

DONE = ("finished", "converged")
"""How a training ends that has nothing left to do."""


class RunFolder:
    """One run on the disk.

    Args:
        path: The folder; see `RunFolder.open` and `RunFolder.create`.
        config: What its `run.json` says.
    """

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path = path
        self.config = config

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """The run in an existing folder.

        Raises:
            RunError: If there is none, or it is of another format.
        """
        path = Path(path)
        if not (path / "run.json").exists():
            raise RunError(
                f"`{path}` must be the folder of a run, it has no run.json; make one "
                "with nopg fit DATA --out FOLDER, or name a .nopg file."
            )
        found = read_json(path / "run.json")
        return cls(path, RunConfig.from_json(found, path / "run.json"))

    @classmethod
    def create(cls, path: Path, config: RunConfig, data: Dataset) -> RunFolder:
        """A new run; its `run.json` comes last, so that a folder with one is whole."""
        require_vacant(path)
        data.save(path / "data.npz")
        write_json(path / "run.json", asdict(config))
        return cls(path, config)

    def finish(self, policy: FittedPolicy) -> None:
        """Write the policy, and then how it was learned."""
        policy.save(self.path / "policy.nopg")
        history = policy.history or History()
        status = {
            "stopped": history.stopped,
            "updates": len(history),
            "seconds": history.updates[-1].seconds if len(history) else 0.0,
            "ended": _now(),
        }
        if policy.history is not None:
            objective = policy.kernel.objective()
            status |= {
                "objective": float(objective),
                "certificate": objective.certificate,
            }
        write_json(self.path / "status.json", status)

    def data(self) -> Dataset:
        """The transitions, checked against their fingerprint.

        Raises:
            RunError: If they are missing, damaged or others.
        """
        path = self.path / "data.npz"
        require_plain(path)
        try:
            data = Dataset.load(path)
        except DataError as error:
            raise RunError(str(error)) from None
        if fingerprint(data) != self.config.data["sha256"]:
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
        if (type(found.get("stopped")), type(found.get("updates"))) != (str, int):
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

    def policy(
        self, policy: nn.Module | None = None, device: str = "cpu"
    ) -> FittedPolicy:
        """The policy as trained so far: from its file, or a newer checkpoint.

        Args:
            policy: For runs with a module of your own: one of the same architecture.
            device: Where the policy shall live.

        Raises:
            RunError: If there has been no checkpoint yet.
        """
        path = self.path / "policy.nopg"
        updates = self.status().get("updates", -1)
        newest = checkpoints(self.checkpoints)
        if path.exists() and (not newest or step_of(newest[0]) <= updates):
            require_plain(path)
            fitted = load(path, policy, device)
            if self.config.algorithm == "NOPG":
                fitted.history = self.history()
            return fitted
        state = self.state()
        if state is None:
            raise RunError(
                f"`{self.path}` must have a policy, it has none yet: training stopped "
                f"before its first checkpoint; run nopg fit --resume {self.path}."
            )
        fitted = self.prepared(policy, device).fitted
        try:
            fitted.policy.load_state_dict(state.policy)
        except (RuntimeError, TypeError, AttributeError) as error:
            raise RunError(
                f"`{self.checkpoints}` must fit the run's policy, it does not "
                f"({str(error).splitlines()[0]}); is `policy` another one?"
            ) from None
        fitted.history = state.history
        fitted.history.stopped = "interrupted"
        return fitted

    def prepared(
        self, policy: nn.Module | None = None, device: str | None = None
    ) -> NOPG:
        """NOPG with the run's settings, data and bandwidths, and a fresh policy."""
        settings = dict(self.config.settings)
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
            bandwidths=bandwidths_from_json(self.config.bandwidths),
            action_space=space_from_json(self.config.action_space),
            **settings,
        )
        model.prepare(self.data(), self.config.initial_states)
        return model

    def evaluations(self) -> list[dict[str, Any]]:
        """What `nopg evaluate` measured, in the order it was run; see `Evaluation`.

        Raises:
            RunError: If the file is damaged.
        """
        path = self.path / "evaluation.json"
        found = read_json(path).get("evaluations") if path.exists() else []
        if not isinstance(found, list) or not all(isinstance(e, dict) for e in found):
            raise RunError(
                f"`{path}` must list evaluations, it does not; it is damaged, and may "
                "be removed."
            )
        return found

    def keep_evaluation(self, evaluation: dict[str, Any]) -> Path:
        """Add an evaluation of the present policy."""
        path = self.path / "evaluation.json"
        made = {"updates": len(self.history()), "created": _now(), **evaluation}
        write_json(path, {"evaluations": [*self.evaluations(), made]})
        return path

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
