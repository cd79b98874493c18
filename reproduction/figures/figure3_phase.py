"""Figure 3: visitation and value over the phase plane, before and after learning.

The paper shows the pictures after 300 updates of NOPG-D on the pendulum; the size of
the data set is not given. Here it is the 15 x 15 x 2 grid with which the paper says
the task is solved. The pictures are estimates; the table holds them against what a
simulation of the same policy gives. `learn` has the discount of the others here, so
that values can be compared; they are those of its models, visitation is the kernels'.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from reproduction.arms import Arm, trials_of
from reproduction.experiment import Experiment, Plan
from reproduction.results import Record
from reproduction.trial import DEFAULTS, Trial
from reproduction.trials.learn import SMOKE
from reproduction.trials.phase import run_phase
from reproduction.trials.phase_learn import run_phase_learn

NAME = "figure3-phase"

GAMMA = 0.97  # table "NOPG configurations for the Pendulum uniform grid", as all below
PAPER: dict[str, Any] = {
    "state_factor": 1.0,
    "action_factor": 50.0,
    "learning_rate": 1e-2,
    "policy_samples": 15,
    "max_std": 1.0,
}
N_UPDATES = 300  # caption of Figure 3
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"size": 450, "seeds": 10, "n_updates": N_UPDATES, "n_points": 41, "learn": {}},
    "quick": {"size": 450, "seeds": 1, "n_updates": N_UPDATES, "n_points": 31, "learn": {}},
    "smoke": {
        "size": 50,
        "seeds": 1,
        "n_updates": 3,
        "n_points": 5,
        "learn": {**SMOKE, "gamma": GAMMA},
    },
}
PRESETS["standard"] = PRESETS["paper"]
COLUMNS = {
    "return": "return",
    "estimated": "J",
    "true": "true J",
    "value_correlation": "correlation of V",
    "value_rmse": "error of V",
    "value_spread": "spread of V",
    "upright_from": "upright from",
    "time_near_goal": "time near goal",
    "time_near_goal_simulated": "true time",
}
"""Numbers of a portrait, and what the table calls them."""
PERCENT = ("upright_from", "time_near_goal", "time_near_goal_simulated")


def trials(plan: Plan) -> list[Trial]:
    """NOPG-D in both settings, and `learn`."""
    preset = PRESETS[plan.preset]
    points = {"gamma": GAMMA, "n_points": preset["n_points"]}
    shared = {**points, "n_updates": preset["n_updates"]}
    where = (preset["size"],), plan.seeds_or(preset["seeds"])
    arms = [
        Arm("NOPG-D", "paper", PAPER | shared, *where),
        Arm("NOPG-D", DEFAULTS, shared, *where),
        Arm("learn", "", points | preset["learn"], *where),
    ]
    return trials_of(NAME, "pendulum-grid", arms)


def analyse(records: list[Record]) -> dict[str, Any]:
    """What the pictures claim and what is true, means over seeds, in Markdown."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        for when in ("before", "after"):
            if when in record.result:
                groups[record.trial.label, when].append(record.result[when])
    names = " | ".join(COLUMNS.values())
    lines = [f"| arm | seeds | {names} |", "|---" * (len(COLUMNS) + 2) + "|"]
    for label in ("paper", "NOPG", "learn"):
        for when in ("before", "after"):
            found = groups.get((label, when))
            if found:
                cells = " | ".join(_cell(name, found) for name in COLUMNS)
                lines.append(f"| `{label}`, {when} | {len(found)} | {cells} |")
    return {"markdown": "\n".join(lines)}


def _cell(name: str, found: list[dict[str, Any]]) -> str:
    numbers = [portrait[name] for portrait in found]
    mean = float(np.mean(numbers))
    if name in PERCENT:
        return f"{100.0 * mean:.0f}%"
    if name == "value_correlation":
        return f"{mean:.2f}"
    if name == "return":
        return f"{mean:.0f}, worst {min(numbers):.0f}"
    return f"{mean:.1f}"


EXPERIMENT = Experiment(
    name=NAME,
    title="Visitation and value of the pendulum before and after learning (Figure 3)",
    trials=trials,
    runner_of=lambda t: run_phase_learn if t.method == "learn" else run_phase,
    chart="phase",
    analyse=analyse,
)
