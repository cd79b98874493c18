"""What stands beside an export, in JSON: what goes in and out, what it is from."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from nopg.data.io.metadata import fingerprint, space_to_json
from nopg.export.guard import SupportPoints
from nopg.fitted.policy import FittedPolicy

UNIT = re.compile(r"\s*[\[(]\s*([^\])]+?)\s*[\])]\s*$")  # `speed [rad/s]`
_SPOKEN = ("observations", "actions", "sample_time", "memory", "guard", "data")


def contract(
    policy: FittedPolicy,
    content: bytes,  # the file
    measured: Mapping[str, Any],  # how it was compared, and what it costs
    guard: SupportPoints | None,
    fallback: Sequence[float] | None,
) -> dict[str, Any]:
    """Everything that whoever runs the export has to know, as JSON."""
    data, memory, space = policy.data, policy.memory, policy.action_space
    has_verdict = "grounds" in policy.__dict__  # else it would take a minute
    inside: dict[str, Any] | None = None
    if guard is not None:
        inside = {
            "points": len(guard.points),
            "samples": guard.n_samples,
            "threshold": guard.threshold,
            "full_threshold": guard.full_threshold,
            "fallback": None if fallback is None else list(fallback),
        }
    return {
        "nopg": version("nopg"),
        "sha256": hashlib.sha256(content).hexdigest(),
        **measured,
        "algorithm": policy.algorithm,
        "gamma": policy.gamma,
        "observations": _observations(policy),
        "actions": _actions(policy),
        "action_space": space_to_json(space),
        "memory": None if memory is None else asdict(memory),
        "sample_time": None if data is None else data.sample_time,
        "guard": inside,
        "data": None if data is None else {"rows": len(data), "sha256": fingerprint(data)},
        "verdict": asdict(policy.verdict()) if has_verdict else None,
    }


def spoken(found: Mapping[str, Any]) -> list[str]:
    """The contract in the comment that begins a program, a line of JSON per part."""
    known = [name for name in _SPOKEN if found[name] is not None]
    lines = (f"{n}: {json.dumps(found[n], ensure_ascii=False)}" for n in known)
    return [f"A policy learned by nopg {found['nopg']} ({found['algorithm']}).", *lines]


def _observations(policy: FittedPolicy) -> list[dict[str, Any]]:
    """Name, unit and, where the data are there, the range seen of what goes in."""
    data, names = policy.data, policy.observation_names
    if data is None:
        return [_column(name) for name in names or ()]
    seen = np.stack([data.observations.min(axis=0), data.observations.max(axis=0)], axis=1)
    columns = zip(names or data.observation_names, seen.tolist(), strict=False)
    return [_column(name) | {"seen": ends} for name, ends in columns]


def _actions(policy: FittedPolicy) -> list[dict[str, Any]]:
    """Name, unit and limits of every column that comes out; of labels their names."""
    space: Any = policy.action_space
    names = None if policy.data is None else policy.data.action_names
    if not hasattr(space, "low"):
        return [_column((names or ("action",))[0]) | {"labels": int(space.n)}]
    ends = np.stack([np.ravel(space.low), np.ravel(space.high)], axis=1)  # (d_a, 2)
    limits: Any = np.where(np.isfinite(ends), ends, np.array(None)).tolist()  # JSON has no infinity
    names = names or tuple(f"action {i}" for i in range(len(limits)))
    columns = zip(names, limits, strict=True)
    return [_column(name) | {"low": low, "high": high} for name, (low, high) in columns]


def _column(name: str) -> dict[str, Any]:
    unit = UNIT.search(name)
    return {"name": name, "unit": unit[1] if unit else None}
