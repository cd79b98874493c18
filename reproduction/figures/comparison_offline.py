"""Not in the paper: `nopg.learn` against today's offline methods.

BC, TD3+BC, IQL and CQL are d3rlpy's, with its default networks and rates, scaled
observations and actions (see `reproduction.baselines.d3`). All methods see the same
data. Time counts as well as return: `seconds` is what learning took, on one core.
"""

from __future__ import annotations

from typing import Any

from reproduction.arms import Arm, runner_of, trials_of
from reproduction.baselines.d3 import METHODS
from reproduction.experiment import Experiment, Plan
from reproduction.results import Record
from reproduction.summaries import rows
from reproduction.trial import Trial
from reproduction.trials.learn import LEARN, QUICK, SMOKE

NAME = "comparison-offline"

GAMMAS = {  # discount factors of the appendix; `learn` has 0.99 on every task
    "pendulum-grid": 0.97,
    "pendulum-random": 0.97,
    "cart-pole": 0.99,
    "mountain-car": 0.99,
}
SIZES = {
    "pendulum-grid": (200, 450, 3200),
    "pendulum-random": (1000, 2000, 5000),
    "cart-pole": (500, 1500, 5000),
    "mountain-car": (2, 5, 10),
}
OTHERS: dict[str, Any] = {
    "n_updates": 10_000,  # gradient steps; IQL is level from 8,000 on
    "n_evaluations": 10,
}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "sizes": SIZES,
        "seeds": 10,
        "learn": {},
        "others": OTHERS,
        "other_seeds": dict.fromkeys(METHODS, 10),
    },
    "standard": {
        "sizes": SIZES,
        "seeds": 10,
        "learn": {},
        "others": OTHERS,
        "other_seeds": dict.fromkeys(METHODS, 3) | {"CQL": 1},
        "CQL": {"n_updates": 3000},  # a step takes eight times as long as one of IQL
    },
    "quick": {
        "sizes": {"pendulum-grid": (450,), "cart-pole": (500,)},
        "seeds": 1,
        "learn": QUICK,
        "others": {"n_updates": 200, "n_evaluations": 2},
        "other_seeds": dict.fromkeys(METHODS, 1),
    },
    "smoke": {
        "sizes": {"pendulum-grid": (50,)},
        "seeds": 1,
        "learn": SMOKE,
        "others": {"n_updates": 3, "n_evaluations": 1},
        "other_seeds": dict.fromkeys(METHODS, 1),
    },
}


def trials(plan: Plan) -> list[Trial]:
    """`nopg.learn` and four methods of d3rlpy, on each task."""
    preset = PRESETS[plan.preset]
    found: list[Trial] = []
    for task, sizes in preset["sizes"].items():
        discount = {"gamma": GAMMAS[task]}
        seeds = plan.seeds_or(preset["seeds"])
        arms = [Arm("learn", "", {**LEARN, **preset["learn"]}, sizes, seeds)]
        for method in METHODS:
            settings = discount | preset["others"] | preset.get(method, {})
            seeds = plan.seeds_or(preset["other_seeds"][method])
            arms.append(Arm(method, "", settings, sizes, seeds))
        found += trials_of(NAME, task, arms)
    return found


def analyse(records: list[Record]) -> dict[str, Any]:
    """The table in Markdown: last return and seconds, the best return in bold.

    What each method was given stands below it.
    """
    groups: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in rows(records):
        cell = groups.setdefault((row["task"], row["size"]), {})
        cell[row["method"]] = row
    methods = ["learn", *METHODS]
    lines = [f"| task | size | {' | '.join(methods)} |", f"|---|---|{'---|' * len(methods)}"]
    for (task, size), cells in groups.items():
        means = {m: row["last"][0] for m, row in cells.items() if "last" in row}
        best = max(means.values(), default=0.0)
        shown = (_cell(cells.get(method), best) for method in methods)
        lines.append(f"| {task} | {size} | {' | '.join(shown)} |")
    given = "; ".join(_given(method, records) for method in methods)
    return {"markdown": "\n".join([*lines, "", given + "."])}


def _given(method: str, records: list[Record]) -> str:
    """Seeds and updates a method had, such as "IQL: 3 seeds, 10,000 updates".

    `nopg.learn` decides itself how many it makes.
    """
    trials = [r.trial for r in records if r.trial.method == method]
    if not trials:
        return f"{method}: not run"
    n_seeds = len({trial.seed for trial in trials})
    had = f"{method}: {n_seeds} seed{'s' * (n_seeds > 1)}"
    n_updates = max(trial.settings.get("n_updates", 0) for trial in trials)
    return f"{had}, {n_updates:,} updates" if n_updates else had


def _cell(row: dict[str, Any] | None, best: float) -> str:
    if row is None or "last" not in row:
        return ""
    mean = row["last"][0]
    is_best = round(mean) == round(best)  # as far as the table shows
    text = f"**{mean:.0f}**" if is_best else f"{mean:.0f}"
    return f"{text} ({row['seconds']:.0f} s)"


EXPERIMENT = Experiment(
    name=NAME,
    title="nopg.learn against today's offline methods",
    trials=trials,
    runner_of=runner_of,
    chart="comparison",
    analyse=analyse,
)
