"""Not in the paper: machines with fast clocks, long swings and many columns.

The Qube at 200 steps a second, from ten demonstrations and from three: those of a
script, or recorded ones with `--data`. A cart-pole swing-up of our own, two poles on a
cart, the acrobot, a reaching arm and a lander, from the steps of random agents. `learn`
with its defaults, beside demonstrations and known controllers where there are any, and
IQL and TD3+BC on two of them. Every trial of `learn` holds its interval against the
simulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.arms import Arm, runner_of, trials_of
from reproduction.experiment import Experiment, Plan
from reproduction.figures.figure4_mountain_car import recorded
from reproduction.results import Record
from reproduction.tasks.discrete import ACROBOT
from reproduction.tasks.qube import RECORDED_QUBE, SCRIPTED_QUBE
from reproduction.tasks.simulated_machines import DOUBLE_PENDULUM, LANDER, REACHER, is_installed
from reproduction.tasks.swing_up import SWING_UP
from reproduction.trial import Trial
from reproduction.trials.learn import QUICK, SMOKE
from reproduction.trials.learned_machines import run_machine
from reproduction.trials.machines import CONTROLLER, CONTROLLERS, DEMONSTRATIONS, run_reference

NAME = "machines"

MACHINES: dict[str, tuple[int, ...]] = {
    SCRIPTED_QUBE: (3, 10),
    SWING_UP: (3_000,),
    DOUBLE_PENDULUM: (3_000, 10_000),
    ACROBOT: (3_000,),
    REACHER: (5_000,),
    LANDER: (5_000, 20_000),
}
"""Demonstrations of the Qube, transitions of the others."""
LEARN: dict[str, Any] = {"gamma": None}
"""How far ahead to look is left to `learn`."""
DISCOUNTS = {LANDER: 0.998}
"""Except where the task says it and no log can: an episode of the lander may take 1,000 steps, and
to hover so long costs more than a crash. All in the log crash within about a hundred."""
PEERS = {"gamma": 0.99, "n_updates": 5_000, "n_evaluations": 1}
"""Settings of IQL and TD3+BC."""
PEERS_ON = {SWING_UP: (3_000,), DOUBLE_PENDULUM: (3_000,)}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"machines": MACHINES, "seeds": 5, "learn": {}},
    "quick": {"machines": {SCRIPTED_QUBE: (3,), SWING_UP: (1_000,)}, "seeds": 1, "learn": QUICK},
    "smoke": {"machines": {SCRIPTED_QUBE: (2,)}, "seeds": 1, "learn": SMOKE},
}
PRESETS["standard"] = PRESETS["paper"]


def trials(plan: Plan) -> list[Trial]:
    """`learn`, demonstrations and known controllers, machine by machine."""
    preset, file = PRESETS[plan.preset], plan.data_file
    seeds = plan.seeds_or(preset["seeds"])
    source = {} if file is None else recorded(file)
    found = []
    for name, sizes in preset["machines"].items():
        if file is not None and name != SCRIPTED_QUBE:
            continue
        if not is_installed(name):
            print(f"{name} is left out; run pip install 'gymnasium[mujoco,box2d]'.")
            continue
        settings = {**LEARN, **preset["learn"], **source}
        settings["gamma"] = DISCOUNTS.get(name, settings["gamma"])
        arms = [Arm("learn", "", settings, sizes, seeds)]
        if name == SCRIPTED_QUBE:
            arms.append(Arm(DEMONSTRATIONS, "", source, sizes, seeds))
        if name in CONTROLLERS:
            arms.append(Arm(CONTROLLER, "", source, sizes, seeds))
        if preset["learn"] == {} and file is None:
            on = PEERS_ON.get(name, ())
            arms += [Arm(peer, "", PEERS, on, seeds) for peer in ("IQL", "TD3+BC")]
        task = name if file is None else RECORDED_QUBE
        found += trials_of(NAME, task, arms, file)
    return found


def analyse(records: list[Record]) -> dict[str, Any]:
    """Mean and worst return of every arm at every size, and how intervals did."""
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for record in records:
        trial = record.trial
        key = (trial.task, trial.size, trial.label)
        groups.setdefault(key, []).append(record.result)
    rows = []
    for (task, size, label), found in groups.items():
        returns = [one["last"] for one in found]
        row = {"task": task, "size": size, "arm": label, "seeds": len(found)}
        row["mean"] = round(float(np.mean(returns)), 2)
        row["worst"] = round(min(returns), 2)
        row["seconds"] = round(float(np.median([one["seconds"] for one in found])), 1)
        known = [one for one in found if one.get("known")]
        if known:
            row["intervals"] = len(known)
            row["held"] = sum(one["low"] <= one["true"] <= one["high"] for one in known)
            row["narrow and wrong"] = sum(map(_is_narrow_and_wrong, known))
        rows.append(row)
    return {"rows": rows}


def _is_narrow_and_wrong(found: dict[str, Any]) -> bool:
    """Whether an interval under a tenth of the range misses the truth."""
    is_narrow = found["high"] - found["low"] < 0.1 * found["range"]
    return is_narrow and not found["low"] <= found["true"] <= found["high"]


def runner(trial: Trial) -> Any:
    """What runs a trial."""
    if trial.method in (DEMONSTRATIONS, CONTROLLER):
        return run_reference
    return run_machine if trial.method == "learn" else runner_of(trial)


EXPERIMENT = Experiment(
    name=NAME,
    title="Harder machines: returns beside demonstrations and known controllers",
    trials=trials,
    runner_of=runner,
    chart="comparison",
    analyse=analyse,
    takes_data=True,
)
