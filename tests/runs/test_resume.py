"""A run that was cut and continued is the run that was not, bit by bit."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nopg
from nopg.cli.swing_up import BOTTOM
from nopg.errors import PolicyFileError, RunError
from nopg.runs import Monitoring, resume, start
from nopg.runs.folder import CHECKPOINT, RunFolder, read_checkpoint
from tests.runs.tiny import LARGER, QUICK, SMALL, PowerCut, begin, bits, carry_on, discrete_data

CASES: dict[str, dict[str, Any]] = {
    "dense": {},
    "iterated from the last q and mu": {"data": LARGER},
    "drawn actions": {"policy": "stochastic", "policy_samples": 3},
    "drawn next states": {"next_state_samples": 2},
    "single precision": {"dtype": "float32", "data": LARGER},
    "constant rate": {"schedule": "constant"},
    "discrete": {"policy": "discrete", "data": discrete_data(), "bandwidths": "auto"},
}


@pytest.mark.parametrize("case", CASES)
def test_cut_twice_and_continued_is_uncut(case: str, tmp_path: Path) -> None:
    given = CASES[case]
    begin(tmp_path / "whole", **dict(given))
    with pytest.raises(PowerCut):
        begin(tmp_path / "cut", cut=5, **dict(given))
    with pytest.raises(PowerCut):
        carry_on(tmp_path / "cut", cut=8)
    carry_on(tmp_path / "cut")
    assert bits(tmp_path / "cut") == bits(tmp_path / "whole")


@pytest.mark.parametrize("kind", ["kept", "renewed often"])
@pytest.mark.parametrize("cut", [3, 4, 8, 9])
def test_the_coarse_inverse_is_kept(
    cut: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger problems carry one from update to update, and renew it now and then."""
    monkeypatch.setattr("nopg.bellman.problem.WORTHWHILE", len(LARGER))
    if kind == "renewed often":  # it is worth nothing, and can be had at any time
        monkeypatch.setattr("nopg.linalg.coarse.PER_ENTRY", 1e9)
    begin(tmp_path / "whole", data=LARGER)
    with pytest.raises(PowerCut):
        begin(tmp_path / "cut", cut=cut, data=LARGER)
    state = RunFolder.open(tmp_path / "cut").state()
    if cut >= 4:
        assert state is not None
        is_renewed = state.ascent["fewest"] == math.inf
        assert ("core" in state.ascent["start"]) == (not is_renewed)
        assert kind == "renewed often" or not is_renewed
    carry_on(tmp_path / "cut")
    assert bits(tmp_path / "cut") == bits(tmp_path / "whole")


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 12])
def test_any_moment_will_do(cut: int, tmp_path: Path) -> None:
    begin(tmp_path / "whole")
    with pytest.raises(PowerCut):
        begin(tmp_path / "cut", cut=cut)
    carry_on(tmp_path / "cut")
    assert bits(tmp_path / "cut") == bits(tmp_path / "whole")


def test_a_checkpoint_holds_nothing_that_is_not_needed(tmp_path: Path) -> None:
    """Without the last q and mu, or Adam's moments, the tests above would fail."""
    begin(tmp_path / "whole", data=LARGER)
    with pytest.raises(PowerCut):
        begin(tmp_path / "cut", cut=5, data=LARGER)
    run = RunFolder.open(tmp_path / "cut")
    state = run.state()
    assert state is not None
    optimiser = state.ascent["optimiser"] | {"step": 0}
    for change in ({"start": None}, {"optimiser": optimiser}):
        model = run.prepared()
        changed = replace(state, ascent=state.ascent | change)
        model.training(12, changed).run(progress=False)
        found = model.fitted.policy.state_dict().items()
        weights = {k: v.numpy().tobytes() for k, v in found}
        assert weights != bits(tmp_path / "whole")[0]


def test_ones_own_module_goes_on(tmp_path: Path) -> None:
    def module() -> torch.nn.Module:
        layer = torch.nn.Linear(3, 1, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.fill_(0.1)
            layer.bias.zero_()
        return layer

    models = []
    for name in ("whole", "cut"):
        cut = 7 if name == "cut" else None
        try:
            begin(tmp_path / name, cut=cut, policy=module())
        except PowerCut:
            with pytest.raises(PolicyFileError, match="policy=YourModule"):
                carry_on(tmp_path / name)
            carry_on(tmp_path / name, policy=module())
        models.append(RunFolder.open(tmp_path / name).policy(policy=module()))
    states = SMALL.observations
    assert np.array_equal(models[0].predict(states)[0], models[1].predict(states)[0])


def test_finished_runs_are_refused(tmp_path: Path) -> None:
    begin(tmp_path / "a")
    with pytest.raises(RunError, match="all 12 are done"):
        carry_on(tmp_path / "a")
    with pytest.raises(RunError, match="--resume"):
        begin(tmp_path / "a")


def test_a_killed_process_is_continued_to_the_same_bits(tmp_path: Path) -> None:
    program = """
import sys, pathlib
sys.path.insert(0, sys.argv[2])
from tests.runs.tiny import *
LONG = Monitoring(checkpoint_every=20, progress=False)
start(sys.argv[1], nopg.NOPG(**QUICK), SMALL, [BOTTOM], n_updates=100_000,
      monitoring=LONG)
"""
    root = str(Path(__file__).parents[2])
    words = [sys.executable, "-c", program, str(tmp_path / "a"), root]
    with subprocess.Popen(words, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
        limit = time.monotonic() + 600
        while time.monotonic() < limit:
            if (tmp_path / "a" / CHECKPOINT).exists():
                history, _ = read_checkpoint(tmp_path / "a")
                if len(history) > 50:
                    break
            time.sleep(0.05)
        with pytest.raises(nopg.NopgError, match="must have one writer"):
            resume(tmp_path / "a")
        process.send_signal(signal.SIGKILL)
    run = RunFolder.open(tmp_path / "a")
    state = run.state()
    assert state is not None
    assert state.step >= 40
    # As many updates in one go: the schedule looks at their total, so keep it.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model = nopg.NOPG(**QUICK)
    model.fit(
        SMALL,
        [BOTTOM],
        n_updates=100_000,
        callback=lambda m, update: update.step < state.step,
        progress=False,
    )
    torch.set_num_threads(threads)
    for name, value in model.fitted.policy.state_dict().items():
        assert torch.equal(value, state.policy[name]), name


def test_a_second_run_in_the_folder_is_refused_in_process(tmp_path: Path) -> None:
    seen = []

    def intrude(policy: nopg.FittedPolicy) -> float:
        with pytest.raises(nopg.NopgError, match="must have one writer") as caught:
            resume(tmp_path / "a")
        seen.append(str(caught.value))
        return 0.0

    start(
        tmp_path / "a",
        nopg.NOPG(**QUICK),
        SMALL,
        [[-1.0, 0.0, 0.0]],
        n_updates=1,
        monitoring=Monitoring(evaluators={"x": intrude}, progress=False),
    )
    assert seen
    assert "\n" not in seen[0]
