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

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from nopg.algorithms.nopg.ascent import TrainingState
from nopg.algorithms.nopg.nopg import NOPG
from nopg.data.dataset import Dataset
from nopg.data.fingerprint import fingerprint
from nopg.data.spaces import space_from_json
from nopg.errors import RunError
from nopg.fitted.history import History
from nopg.fitted.load import load
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.storage import bandwidths_from_json
from nopg.runs.checkpoint import checkpoints, read_checkpoint, step_of
from nopg.runs.history_file import read_history
from nopg.runs.ownership import require_vacant
from nopg.runs.plain_files import read_json, reading, require_plain, write_json
from nopg.runs.run_config import RunConfig, now

DONE = ("finished", "converged")
"""How a training ends that has nothing left to do."""


@dataclass(frozen=True)
class RunFolder:
    """One run on the disk; see `RunFolder.open`.

    Attributes:
        path: The folder.
        config: What its `run.json` says.
    """

    path: Path
    config: RunConfig

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
        return cls(path, RunConfig.read(path / "run.json"))

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
        status = {"stopped": history.stopped, "updates": len(history), "ended": now()}
        write_json(self.path / "status.json", status)

    def data(self) -> Dataset:
        """The transitions, checked against their fingerprint.

        Raises:
            NopgError: If they are missing, damaged or others.
        """
        path = self.path / "data.npz"
        require_plain(path)
        data = Dataset.load(path)
        if fingerprint(data) != self.config.data_sha256:
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
        """How training last ended: `stopped`, `updates`, `ended`; or nothing.

        Raises:
            RunError: If the file is damaged.
        """
        path = self.path / "status.json"
        if not path.exists():
            return {}
        found = read_json(path)
        with reading(path, "a note of how training ended"):
            if (type(found["stopped"]), type(found["updates"])) != (str, int):
                raise TypeError("it is no note of ours")
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
        found = checkpoints(self.checkpoints)
        history = self.history() if found else History()
        for path in found:
            try:
                return read_checkpoint(path, history)
            except RunError:
                if path == found[-1]:
                    raise
        return None

    def policy(self, policy: nn.Module | None = None) -> FittedPolicy:
        """The policy as trained so far: from its file, or a newer checkpoint.

        Args:
            policy: For runs with a module of your own: one of the same architecture.

        Raises:
            RunError: If there has been no checkpoint yet.
        """
        path = self.path / "policy.nopg"
        updates = self.status().get("updates", -1)
        newest = checkpoints(self.checkpoints)
        if path.exists() and (not newest or step_of(newest[0]) <= updates):
            require_plain(path)
            fitted = load(path, policy)
            if self.config.algorithm == "NOPG":
                fitted.history = self.history()
            return fitted
        state = self.state()
        if state is None:
            raise RunError(
                f"`{self.path}` must have a policy, it has none yet: training stopped "
                f"before its first checkpoint; run nopg fit --resume {self.path}."
            )
        fitted = self.prepared(policy, device="cpu").fitted
        with reading(self.checkpoints, "of the run's policy"):
            fitted.policy.load_state_dict(state.policy)
        fitted.history = state.history
        return fitted

    def prepared(
        self, policy: nn.Module | None = None, device: str | None = None
    ) -> NOPG:
        """NOPG with the run's settings, data and bandwidths, and a fresh policy."""
        config = self.config
        if config.settings.get("policy") == "custom" and policy is None:
            raise RunError(
                f"`{self.path}` trains a module of your own, whose code no file holds; "
                "pass it: policy=YourModule()."
            )
        given = {"policy": policy, "device": device}
        given = {name: value for name, value in given.items() if value is not None}
        with reading(self.path / "run.json", "a record of how the run is trained"):
            model = NOPG(
                bandwidths=bandwidths_from_json(config.bandwidths),
                action_space=space_from_json(config.action_space),
                **(config.settings | given),
            )
        model.prepare(self.data(), self.config.initial_states)
        return model

    def evaluations(self) -> list[dict[str, Any]]:
        """What `nopg evaluate` measured, in the order it was run; see `Evaluation`.

        Raises:
            RunError: If the file is damaged.
        """
        path = self.path / "evaluation.json"
        if not path.exists():
            return []
        with reading(path, "a list of evaluations"):
            return [dict(each) for each in read_json(path)["evaluations"]]

    def keep_evaluation(self, evaluation: dict[str, Any]) -> Path:
        """Add an evaluation of the present policy."""
        path = self.path / "evaluation.json"
        made = {"updates": len(self.history()), "created": now(), **evaluation}
        write_json(path, {"evaluations": [*self.evaluations(), made]})
        return path

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"


@dataclass(frozen=True)
class Run:
    """A fitted policy and what is known of how it came to be.

    Attributes:
        policy: The policy, with its data and, after `fit`, its history.
        name: What to call the run.
        config: What `run.json` says; None for a policy outside a run folder.
        status: What `status.json` says of how training ended.
        evaluations: What `nopg evaluate` measured, in the order it was run.
    """

    policy: FittedPolicy
    name: str
    config: RunConfig | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    evaluations: tuple[Mapping[str, Any], ...] = ()

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

    Raises:
        RunError: If a file of the folder is damaged, a link, or too large.
        PolicyFileError: If the policy's file is damaged.
    """
    path = Path(path)
    if path.name == "policy.nopg" and (path.parent / "run.json").exists():
        path = path.parent  # the policy of a run brings its history along
    name = path.resolve().name.removesuffix(".nopg") or "run"
    if not path.is_dir():
        return Run(load(path), name)
    run = RunFolder.open(path)
    evaluations = tuple(run.evaluations())
    return Run(run.policy(), name, run.config, run.status(), evaluations)
