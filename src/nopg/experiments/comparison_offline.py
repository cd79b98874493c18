"""Not in the paper: NOPG without a tuned factor against today's offline methods.

BC, TD3+BC, IQL and CQL are d3rlpy's, with its default networks and rates, scaled
observations and actions (see `nopg.baselines.d3`). All methods see the same data. Time
counts as well as return: `seconds` is what learning took, on one core.
"""

from __future__ import annotations

from typing import Any

from nopg.experiments.arms import Arm, run_arm, trials_of
from nopg.experiments.baseline_trials import OFFLINE_METHODS
from nopg.experiments.experiment import Experiment, Plan
from nopg.experiments.results import Record
from nopg.experiments.summaries import rows
from nopg.experiments.tasks import (
    Task,
    cart_pole_task,
    mountain_car_task,
    pendulum_grid_task,
    pendulum_random_task,
)
from nopg.experiments.trial import Result, Trial

NAME = "comparison-offline"

GAMMAS = {  # discount factors of the appendix
    "pendulum-grid": 0.97,
    "pendulum-random": 0.97,
    "cart-pole": 0.99,
    "mountain-car": 0.99,
}
N_UPDATES = 1500  # NOPG: the default of `NOPG.fit`
N_STEPS = 10_000  # gradient steps of the others; IQL is level from 8,000 on
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "sizes": {
            "pendulum-grid": (200, 450, 3200),
            "pendulum-random": (500, 1000, 2000),
            "cart-pole": (250, 500, 1500),
            "mountain-car": (2, 5, 10),
        },
        "seeds": 10,
        "nopg": {"n_updates": N_UPDATES, "n_evaluations": 5},
        "others": {"n_updates": N_STEPS, "n_evaluations": 10},
    },
    "quick": {
        "sizes": {"pendulum-grid": (450,), "cart-pole": (500,)},
        "seeds": 1,
        "nopg": {"n_updates": 300, "n_evaluations": 3},
        "others": {"n_updates": 200, "n_evaluations": 2},
    },
    "smoke": {
        "sizes": {"pendulum-grid": (50,)},
        "seeds": 1,
        "nopg": {"n_updates": 3, "n_evaluations": 1},
        "others": {"n_updates": 3, "n_evaluations": 1},
    },
}


def trials(plan: Plan) -> list[Trial]:
    """NOPG-D in the automatic setting and four methods of d3rlpy, on each task."""
    preset = PRESETS[plan.preset]
    seeds = plan.seeds_or(preset["seeds"])
    found: list[Trial] = []
    for task, sizes in preset["sizes"].items():
        discount = {"gamma": GAMMAS[task]}
        arms = [Arm("NOPG-D", "auto", discount | preset["nopg"], sizes, seeds)]
        arms += [
            Arm(method, "", discount | preset["others"], sizes, seeds)
            for method in OFFLINE_METHODS
        ]
        found += trials_of(NAME, task, arms)
    return found


def run(trial: Trial) -> Result:
    """One method on one task."""
    return run_arm(_task(trial.task), trial)


def analyse(records: list[Record]) -> dict[str, Any]:
    """The table in Markdown: last return and seconds, the best return in bold."""
    groups: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in rows(records):
        cell = groups.setdefault((row["task"], row["size"]), {})
        cell[row["method"]] = row
    methods = ["NOPG-D", *OFFLINE_METHODS]
    lines = [
        f"| task | size | {' | '.join(methods)} |",
        f"|---|---|{'---|' * len(methods)}",
    ]
    for (task, size), cells in groups.items():
        means = {m: row["last"][0] for m, row in cells.items() if "last" in row}
        best = max(means.values(), default=0.0)
        shown = (_cell(cells.get(method), best) for method in methods)
        lines.append(f"| {task} | {size} | {' | '.join(shown)} |")
    return {"markdown": "\n".join(lines)}


def _cell(row: dict[str, Any] | None, best: float) -> str:
    if row is None or "last" not in row:
        return ""
    mean = row["last"][0]
    text = f"**{mean:.0f}**" if mean == best else f"{mean:.0f}"
    return f"{text} ({row['seconds']:.0f} s)"


def _task(name: str) -> Task:
    tasks = {
        "pendulum-grid": pendulum_grid_task,
        "pendulum-random": pendulum_random_task,
        "cart-pole": cart_pole_task,
        "mountain-car": mountain_car_task,
    }
    return tasks[name]()


EXPERIMENT = Experiment(
    name=NAME,
    title="NOPG without a tuned factor against today's offline methods",
    module="comparison_offline",
    trials=trials,
    run=run,
    chart="comparison",
    analyse=analyse,
)
