"""Seeds and runners of the arms of a comparison."""

from __future__ import annotations

from collections import Counter

import pytest
from reproduction.arms import our_arms, runner_of, trials_of
from reproduction.experiment import Plan
from reproduction.figures import figure2_cart_pole, figure2_pendulum_grid
from reproduction.trial import Trial
from reproduction.trials.learn import run_learn
from reproduction.trials.nopg import run_nopg

from nopg.errors import ConfigError


def seeds_of(trials: list[Trial], size: int) -> dict[str, int]:
    return dict(Counter(trial.label for trial in trials if trial.size == size))


def test_all_arms_get_all_seeds_unless_they_are_named() -> None:
    arms = our_arms({}, {}, (10,), range(5))
    assert {len(arm.seeds) for arm in arms} == {5}
    few = our_arms({}, {}, (10,), range(5), at_most={"learn-S": 3, "NOPG-S (paper)": 2})
    counted = {arm.name: len(arm.seeds) for arm in few}
    assert counted == {
        "NOPG-D (paper)": 5,
        "learn": 5,
        "NOPG-S (paper)": 2,
        "learn-S": 3,
    }


def test_standard_has_ten_seeds_of_learn() -> None:
    standard, paper = Plan(preset="standard"), Plan(preset="paper")
    on_grid = seeds_of(figure2_pendulum_grid.trials(standard), 450)
    assert on_grid["learn"] == on_grid["paper"] == 10
    cart = seeds_of(figure2_cart_pole.trials(standard), 500)
    assert cart["learn"] == cart["PWIS"] == 10
    assert cart["paper"] == cart["learn, stochastic policy"] == 3
    assert set(seeds_of(figure2_cart_pole.trials(paper), 500).values()) == {10}


def test_each_arm_has_its_runner_and_others_are_refused() -> None:
    trials = trials_of("x", "cart-pole", our_arms({}, {}, (5,), (0,)))
    runners = {trial.label: runner_of(trial) for trial in trials}
    assert runners == {
        "paper": run_nopg,
        "learn": run_learn,
        "paper, stochastic policy": run_nopg,
        "learn, stochastic policy": run_learn,
    }
    unknown = Trial(experiment="x", task="t", method="SAC", size=1, seed=0)
    with pytest.raises(ConfigError, match="one of NOPG-D"):
        runner_of(unknown)
