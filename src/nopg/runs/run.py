"""A run as one value: a fitted policy and what is known of how it came to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nopg.fitted.load import load
from nopg.fitted.policy import FittedPolicy
from nopg.runs.folder import RunFolder
from nopg.runs.run_config import RunConfig


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
        """When and from what the policy was made, for people."""
        if self.config is None:
            return {}
        facts = {"data": self.config.data.get("source"), **self.config.versions}
        facts |= {"command": self.config.command, "created": self.config.created}
        return facts | dict(self.status)


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
    folder = RunFolder.open(path)
    return Run(
        policy=folder.policy(),
        name=name,
        config=folder.config,
        status=folder.status(),
        evaluations=tuple(folder.evaluations()),
    )
