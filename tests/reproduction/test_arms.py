"""Seeds and runners of the arms of a comparison."""

from __future__ import annotations

from collections import Counter

import pytest
from reproduction.arms import nopg_arms, runner_of, trials_of
from reproduction.experiment import Plan
from reproduction.trial import Trial
from reproduction.trials.learn import run_learn
from reproduction.trials.nopg import run_nopg

from nopg.errors import ConfigError
from reproduction import figure2_cart_pole, figure2_pendulum_grid


def seeds_of(trials: list[Trial], size: int) -> dict[str, int]:
    return dict(Counter(trial.label for trial in trials if trial.size == size))


def test_all_arms_get_all_seeds_unless_they_are_named() -> None:
    arms = nopg_arms({}, {}, (10,), range(5))
    assert {len(arm.seeds) for arm in arms} == {5}
    few = nopg_arms({}, {}, (10,), range(5), at_most={"NOPG-S": 3, "NOPG-S (paper)": 2})
    counted = {f"{arm.method} ({arm.setting})": len(arm.seeds) for arm in few}
    assert counted == {
        "NOPG-D (paper)": 5,
        "NOPG-D (auto)": 5,
        "NOPG-S (paper)": 2,
        "NOPG-S (auto)": 3,
    }


def test_standard_has_ten_seeds_of_the_setting_without_factors() -> None:
    standard, paper = Plan(preset="standard"), Plan(preset="paper")
    on_grid = seeds_of(figure2_pendulum_grid.trials(standard), 450)
    assert on_grid["NOPG-D (auto)"] == on_grid["NOPG-D (paper)"] == 10
    cart = seeds_of(figure2_cart_pole.trials(standard), 500)
    assert cart["NOPG-D (auto)"] == cart["PWIS"] == 10
    assert cart["NOPG-D (paper)"] == cart["NOPG-S (auto)"] == 3
    assert set(seeds_of(figure2_cart_pole.trials(paper), 500).values()) == {10}


def test_each_setting_has_its_runner_and_others_are_refused() -> None:
    (auto,) = trials_of("x", "cart-pole", nopg_arms({}, {}, (5,), (0,))[1:2])
    assert runner_of(auto) is run_learn
    (paper,) = trials_of("x", "cart-pole", nopg_arms({}, {}, (5,), (0,))[:1])
    assert runner_of(paper) is run_nopg
    unknown = Trial(experiment="x", task="t", method="SAC", size=1, seed=0)
    with pytest.raises(ConfigError, match="one of NOPG-D"):
        runner_of(unknown)
