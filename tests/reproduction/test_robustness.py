"""The table of success rates: from records whose outcome is known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reproduction.experiment import Plan
from reproduction.figures import (
    comparison_offline,
    figure2_pendulum_grid,
    figure4_mountain_car,
    robustness,
)
from reproduction.figures.robustness import trials
from reproduction.figures.robustness_cells import CELLS, EVERY_CELL
from reproduction.figures.robustness_tables import entries, success_table
from reproduction.results import Record
from reproduction.trial import Trial
from reproduction.trials.learn import LEARN

PAPER = Plan(preset="paper")


@pytest.fixture
def human(tmp_path: Path) -> str:
    file = tmp_path / "driven.npz"
    file.write_bytes(b"read only when a trial is run")
    return str(file)


def record(trial: Trial, last: float | None, seconds: float = 1.0) -> Record:
    return Record(trial, "code", "run", {"last": last, "seconds": seconds})


def of_cell(task: str, size: int, plan: Plan = PAPER) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for trial in trials(plan):
        if (trial.task, trial.size) == (task, size):
            found.setdefault(trial.label, []).append(trial)
    return found


def test_every_cell_has_its_arms_and_seeds(human: str) -> None:
    arms = of_cell("pendulum-grid", 450)
    counted = {label: len(group) for label, group in arms.items()}
    assert counted == {"paper": 10, "NOPG": 10, "learn": 10, "IQL": 3}
    labels = {label: len(group) for label, group in of_cell("CartPole-v1", 1000).items()}
    assert labels == {"NOPG": 10, "learn": 10, "DiscreteCQL": 3}
    assert len({(t.task, t.size) for t in trials(PAPER)}) == 15
    with_human = Plan(preset="paper", data_file=human)
    assert len({(t.task, t.size) for t in trials(with_human)}) == 18 == len(CELLS)
    recorded = of_cell("mountain-car-recorded", 2, with_human)
    assert all(
        t.settings["data"] == "recorded" and t.data_file == human
        for group in recorded.values()
        for t in group
    )
    assert all(
        t.data_file is None
        for group in of_cell("mountain-car", 2, with_human).values()
        for t in group
    )


def test_learn_is_the_same_in_every_cell() -> None:
    learn = [t for t in trials(PAPER) if t.method == "learn"]
    assert {tuple(t.settings.items()) for t in learn} == {(("gamma", 0.99),)}
    assert dict(LEARN) == {"gamma": 0.99}


def test_trials_of_the_figures_are_not_run_again() -> None:
    """The same work as the figures', so that results are shared."""
    ours = {t.work for t in trials(PAPER) if t.label in ("paper", "learn")}
    grid = {t.work for t in figure2_pendulum_grid.trials(PAPER)}
    car = {t.work for t in figure4_mountain_car.trials(PAPER)}
    assert len(ours & grid) == 5 * 10 * 2  # sizes, seeds, arms
    assert len(ours & car) == 3 * 10 * 2
    iql = {t.work for t in trials(PAPER) if t.method == "IQL"}
    offline = {t.work for t in comparison_offline.trials(PAPER)}
    assert len(iql & offline) == 11 * 3  # cells in both, seeds


def fabricated() -> list[Record]:
    """Two cells: 450 on the grid from -450, the pole from 450."""
    grid, pole = of_cell("pendulum-grid", 450), of_cell("CartPole-v1", 1000)
    found: list[Record] = []
    for seed, trial in enumerate(grid["learn"]):
        found.append(record(trial, -449.0 if seed else -451.0, 2.0 + seed))
    found += [record(t, -450.0, 8.0) for t in grid["paper"]]
    found += [record(t, None, 65.0) for t in grid["IQL"][:1]]
    found += [record(t, -400.0, 65.0) for t in grid["IQL"][1:]]
    found += [record(t, 500.0, 4.0) for t in pole["learn"][:7]]
    found += [record(t, 20.0, 4.0) for t in pole["learn"][7:]]
    found += [record(t, 100.0, 10.0) for t in pole["DiscreteCQL"]]
    return found


def test_the_table_says_what_came_out() -> None:
    found = success_table(fabricated(), EVERY_CELL)
    lines = found["markdown"].splitlines()
    assert lines[2] == (
        "| pendulum-grid | 450 | -450 | 10/10, mean -450, worst -450, 8 s |  | "
        "9/10, mean -449, worst -451, 6 s | 2/3, mean -400, worst -400, 65 s | 10 |"
    )
    assert lines[3] == (
        "| CartPole-v1 | 1000 | 450 |  |  | 7/10, mean 356, worst 20, 4 s | "
        "DiscreteCQL 0/3, mean 100, worst 100, 10 s | 2.5 |"
    )
    learn = found["totals"]["learn"]
    assert (learn["successes"], learn["trials"], learn["share"]) == (16, 20, 0.8)
    assert (learn["worst_cell"], learn["worst"]) == ("CartPole-v1 1000", "7/10")
    assert learn["under_8_of_10"] == ["CartPole-v1 1000"]
    assert "NOPG" not in found["totals"]
    versus = found["against_iql"]
    assert versus["time_ratio"] == {"pendulum-grid 450": 10.0, "CartPole-v1 1000": 2.5}
    assert versus["ahead"] == ["CartPole-v1 1000"]
    assert "**learn**: 16 of 20 (80.0%) over 2 cells" in found["markdown"]
    assert "2.5 times in CartPole-v1 1000, the least" in found["markdown"]


def test_a_return_at_the_mark_counts_and_just_below_does_not() -> None:
    trial = of_cell("cart-pole", 500)["learn"][0]
    pair = [record(trial, 9900.0), record(replace(trial, seed=1), 9899.9)]
    ((_, row),) = entries(pair, EVERY_CELL).items()
    assert (row["learn"].n_successes, row["learn"].n_seeds) == (1, 2)


def test_nothing_but_baselines_gives_a_table_too() -> None:
    alone = [r for r in fabricated() if r.trial.method == "IQL"]
    found = success_table(alone, EVERY_CELL)
    assert found["against_iql"] == {}
    assert set(found["totals"]) == {"IQL"}


def test_the_picture_has_a_panel_per_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    from reproduction.outcomes import Outcome
    from reproduction.pictures import robustness as view

    seen: list[Any] = []

    def save(drawn: Any, path: Path) -> Path:
        seen.append(drawn)
        return path

    monkeypatch.setattr(view, "save", save)
    records = fabricated()
    view.robustness(Outcome(robustness.EXPERIMENT, tmp_path, records, 0, {}), tmp_path / "p.png")
    titles = [axis.get_title() for axis in seen[0].axes]
    assert titles == ["paper\n10 of 10", "learn\n16 of 20", "IQL, DiscreteCQL\n2 of 6"]
    dots = [len(c.get_offsets()) for axis in seen[0].axes for c in axis.collections]
    assert dots == [10, 10, 10, 2, 3]  # one per seed that has a policy


def test_standard_has_fewer_seeds_of_other_methods() -> None:
    counted = {
        label: len(group)
        for label, group in of_cell("pendulum-grid", 450, Plan(preset="standard")).items()
    }
    assert counted == {"paper": 10, "NOPG": 10, "learn": 10, "IQL": 3}
