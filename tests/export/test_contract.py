"""What stands beside every export."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import nopg
from nopg.data.io.metadata import fingerprint
from nopg.export import export_policy
from nopg.export.exporting import SUFFIXES


@pytest.mark.parametrize("format", sorted(SUFFIXES))
def test_every_format_has_a_contract(format: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    levels, flows = rng.uniform(0, 2, size=(60, 2)), rng.uniform(0, 5, size=(60, 1))
    data = nopg.Dataset(
        levels,
        flows,
        -levels[:, 0],
        levels * 0.9,
        np.zeros(60, dtype=bool),
        observation_names=("level [m]", "rate (m/s)"),
        action_names=("valve",),
        sample_time=0.25,
    )
    policy = nopg.NOPG(hidden=(4,), search_start=False).fit(
        data, levels[:1], n_updates=1, progress=False
    )
    path = tmp_path / f"policy{SUFFIXES[format]}"
    if format == "numpy":
        policy.verdict()
    done = export_policy(policy, path)
    assert done.contract == tmp_path / f"{path.name}.contract.json"
    found = json.loads(done.contract.read_text())
    assert found["format"] == format
    assert found["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [o["unit"] for o in found["observations"]] == ["m", "m/s"]
    seen = [levels[:, 0].min(), levels[:, 0].max()]
    assert found["observations"][0]["seen"] == pytest.approx(seen)
    (action,) = found["actions"]
    space = policy.action_space
    assert (action["name"], action["unit"]) == ("valve", None)
    limits = [space.low[0], space.high[0]]  # type: ignore[attr-defined]
    assert [action["low"], action["high"]] == pytest.approx(limits)
    assert found["sample_time"] == 0.25
    assert found["data"] == {"rows": 60, "sha256": fingerprint(data)}
    expected = asdict(policy.verdict()) if format == "numpy" else None
    assert found["verdict"] == expected
    assert found["n_states"] == 10_000
    assert (found["guard"] is not None) == (format in ("c", "js"))
