"""Seeds and runners of the arms of a comparison."""

from __future__ import annotations

from collections import Counter

import pytest
from reproduction.arms import our_arms, runner_of, trials_of
from reproduction.experiment import Plan
from reproduction.figures import robustness
from reproduction.figures.robustness_cells import CELLS
from reproduction.registry import experiment
from reproduction.trial import Trial
from reproduction.trials.learn import run_learn
from reproduction.trials.nopg import run_nopg

from nopg.errors import ConfigError


def seeds_of(trials: list[Trial], size: int) -> dict[str, int]:
    return dict(Counter(trial.label for trial in trials if trial.size == size))


def test_all_arms_get_all_seeds_unless_they_are_named() -> None:
    arms = our_arms({}, {}, {}, (10,), range(5))
    assert {len(arm.seeds) for arm in arms} == {5}
    few = our_arms({}, {}, {}, (10,), range(5), at_most={"learn-S": 3})
    counted = {arm.name: len(arm.seeds) for arm in few}
    assert counted == {
        "NOPG-D (paper)": 5,
        "NOPG-D (defaults)": 5,
        "learn": 5,
        "NOPG-S (paper)": 5,
        "NOPG-S (defaults)": 5,
        "learn-S": 3,
    }


@pytest.mark.parametrize("preset", ["paper", "standard"])
@pytest.mark.parametrize(
    "name",
    [
        "figure2-pendulum-grid",
        "figure2-pendulum-random",
        "figure2-cart-pole",
        "figure4-mountain-car",
    ],
)
def test_three_arms_have_ten_seeds_at_every_size(name: str, preset: str) -> None:
    trials = experiment(name).trials(Plan(preset=preset))
    sizes = {t.size for t in trials if t.label in ("paper", "NOPG", "learn")}
    assert len(sizes) >= 4
    for size in sizes:
        counted = seeds_of(trials, size)
        assert counted["paper"] == counted["NOPG"] == counted["learn"] == 10


@pytest.mark.parametrize("preset", ["paper", "standard"])
def test_three_arms_have_ten_seeds_in_every_cell(preset: str) -> None:
    trials = experiment("robustness").trials(Plan(preset=preset))
    for cell in CELLS:
        here = [t for t in trials if t.task == cell.task]
        counted = seeds_of(here, cell.size)
        if here:  # recorded demonstrations are not given
            assert counted["NOPG"] == counted["learn"] == 10
            is_printed = cell.task in robustness.FIGURES
            assert counted.get("paper", 0) == (10 if is_printed else 0)


def test_robustness_and_the_figures_share_trials() -> None:
    """What both ask for is run once: the same settings to the letter."""
    plan = Plan(preset="standard")
    table = {t.work for t in experiment("robustness").trials(plan)}
    grid = experiment("figure2-pendulum-grid").trials(plan)
    shared = [t for t in grid if t.label in ("paper", "NOPG", "learn")]
    cells = {c.size for c in CELLS if c.task == "pendulum-grid"}
    assert all((t.work in table) == (t.size in cells) for t in shared)


def test_the_floor_is_an_arm_of_its_own() -> None:
    grid = experiment("figure2-pendulum-grid").trials(Plan(preset="standard"))
    lifted = [t for t in grid if t.label == "paper with floor"]
    plain = [t for t in grid if t.label == "paper"]
    assert [t.size for t in lifted] == [t.size for t in plain]
    for with_floor, without in zip(lifted, plain, strict=True):
        changed = {"half_spacing_floor": True}
        assert with_floor.settings == {**without.settings, **changed}


def test_each_arm_has_its_runner_and_others_are_refused() -> None:
    trials = trials_of("x", "cart-pole", our_arms({}, {}, {}, (5,), (0,)))
    runners = {trial.label: runner_of(trial) for trial in trials}
    assert runners == {
        "paper": run_nopg,
        "NOPG": run_nopg,
        "learn": run_learn,
        "paper, stochastic policy": run_nopg,
        "NOPG, stochastic policy": run_nopg,
        "learn, stochastic policy": run_learn,
    }
    unknown = Trial(experiment="x", task="t", method="SAC", size=1, seed=0)
    with pytest.raises(ConfigError, match="one of NOPG-D"):
        runner_of(unknown)
