"""Sign-off beside the truth: tables of made-up results, plants against tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reproduction.figures.sign_off_tables import sign_off_tables
from reproduction.results import Record
from reproduction.tasks.two_tanks import HORIZON, Pid, TwoTanks
from reproduction.trial import Trial
from reproduction.trials.plants import discounted, plant_of


def estimate(true: float, low: float, high: float, **more: Any) -> dict[str, Any]:
    ends = {"true": true, "low": low, "high": high, "known": bool(low == low)}
    against = {"low": -1.0, "high": 1.0, "worse": 0.5, "known": True}
    return ends | {"against": against} | more


def record(estimates: list[dict[str, Any]]) -> Record:
    trial = Trial(experiment="coverage", task="t", method="sign-off", size=1, seed=0)
    result = {"estimates": estimates, "sign_off_seconds": 1.0, "learn_seconds": 4.0}
    return Record(trial, "code", "run", result)


def test_intervals_and_comparisons_are_counted() -> None:
    better = {"low": 0.5, "high": 9.0, "worse": 0.01, "known": True}
    unknown = {"low": np.nan, "high": np.nan, "worse": np.nan, "known": False}
    found = [
        estimate(0.0, -0.1, 0.1, log=better | {"true": 3.0}, verdict="go"),
        estimate(10.0, 10.2, 10.4, log=better | {"true": -3.0}, verdict="go"),
        estimate(5.0, 0.0, 9.0, log=unknown | {"true": 4.0}, verdict="stop"),
        estimate(-9.0, np.nan, np.nan),
    ]
    tables = sign_off_tables([record(found)])
    (row,) = [row for row in tables["sign_off"] if row["task"] == "all"]
    assert (row["policies"], row["known"], row["held"]) == (4, 3, "66.7%")
    assert (row["narrow"], row["narrow_held"]) == (2, "50.0%")
    low, high = np.quantile([0.0, 10.0, 5.0, -9.0], [0.1, 0.9])
    # Of four widths, one of them endless, the middle lies between 0.2 and 9.
    expected = 0.5 * (0.2 + 9.0) / (high - low)
    assert row["median_width"] == pytest.approx(expected, abs=1e-3)
    (log,) = [row for row in tables["compare"] if row["against"] == "the log"]
    assert (log["said_better"], log["of_these_worse"]) == (2, "50.0%")
    assert (log["truly_better"], log["of_these_recognised"]) == (2, "50.0%")
    assert tables["verdicts"] == {"go": {"better": 1, "worse": 1}, "stop": {"better": 1}}
    # One of three loses 3 where 4 are to be gained, and is not stopped.
    assert [row["lose"] for row in tables["stopped"]] == [0.1, 0.3, 0.5]
    assert all(row["stopped"] == "0.0%" for row in tables["stopped"])
    assert sign_off_tables([]) == {}


@pytest.mark.parametrize("delay", [0, 3])
def test_a_plant_does_what_its_task_does(delay: int) -> None:
    plant, tanks = plant_of(f"tanks-{delay}"), TwoTanks(delay)
    pid = Pid((1.0, 0.02, 0.0))
    states = plant.starts(400, np.random.default_rng(0))
    found = discounted(plant, pid, states, HORIZON, np.random.default_rng(1))
    log = tanks.log(400, HORIZON, 5)
    returns = log.rewards.reshape(400, HORIZON) @ plant.gamma ** np.arange(HORIZON)
    error = np.hypot(found.std(), returns.std()) / np.sqrt(400)
    # The log explores a little, which costs little.
    assert abs(found.mean() - returns.mean()) < 3.0 * error + 0.05 * abs(found.mean())


def test_plants_of_the_paper_and_in_gusts() -> None:
    for task in ("cart-pole", "lqr", "double-integrator", "cliff-fresh"):
        plant = plant_of(task)
        states = plant.starts(5, np.random.default_rng(0))
        seen = plant.observe(states)
        actions = np.zeros((5, len(plant.action_space.low)))
        step = plant.step(states, actions, np.random.default_rng(1))
        assert step.next_states.shape == states.shape
        assert seen.shape[0] == step.rewards.shape[0] == 5
