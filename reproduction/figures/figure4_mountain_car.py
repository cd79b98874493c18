"""Figure 4: out of the valley faster than the operator whose driving was recorded.

Constants are those of the appendix, "Mountain Car with Human Demonstrator", table
"NOPG configurations for the MountainCar experiment", unless a line says otherwise.

The demonstrations are the ten *scripted* ones of this package, made by a documented
slow operator and not by a human; `--data FILE` takes recorded ones. Whatever rewards
they were recorded with, a step is worth -1, as in the paper.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from nopg.errors import DataError
from reproduction.arms import FEW_SEEDS, Arm, our_arms, runner_of, trials_of
from reproduction.experiment import Experiment, PaperCurve, Plan
from reproduction.results import Record
from reproduction.tasks.continuous import RECORDED_CAR, SCRIPTED_CAR
from reproduction.trial import SAMPLED, Trial
from reproduction.trials.demonstrations import DEMONSTRATION, run_demonstrations
from reproduction.trials.learn import QUICK, SMOKE

NAME = "figure4-mountain-car"

PAPER: dict[str, Any] = {
    "state_factor": 1.0,  # state h_factor, 1.0 for both dimensions
    "action_factor": 50.0,  # action h_factor
    "learning_rate": 1e-2,  # with Adam
    "policy_samples": 15,  # N_pi, NOPG-S
    "max_std": 1.0,  # sigma = sigmoid(g)
    "n_updates": 1500,  # policy updates
}
SAMPLES: dict[str, Any] = {
    # The appendix has N_phi = 1, the mean; the authors' release draws this many.
    "next_state_samples": 15
}
SAMPLED_SEEDS = 3  # fifteen times the rows
GAMMA = 0.99  # discount factor
SIZES = tuple(range(1, 11))  # x axis of Figure 4: number of demonstrations
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "sizes": SIZES,
        "seeds": 10,
        "settings": {"n_evaluations": 15},
        "NOPG": {},
        "sampled": (2,),
        "learn": {},
    },
    "quick": {
        "sizes": (1, 2),
        "seeds": 1,
        "settings": {"n_updates": 100, "n_evaluations": 4},
        "NOPG": {"n_updates": 100, "n_evaluations": 4},
        "sampled": (),
        "learn": QUICK,
    },
    "smoke": {
        "sizes": (1,),
        "seeds": 1,
        "settings": {"n_updates": 3, "n_evaluations": 1},
        "NOPG": {"n_updates": 3, "n_evaluations": 1},
        "sampled": (1,),
        "learn": SMOKE,
    },
}
PRESETS["standard"] = PRESETS["paper"] | {"sizes": (1, 2, 5, 10), "at_most": FEW_SEEDS}
PAPER_CURVES = (  # read from the source of Figure 4, left: means and 95% intervals
    PaperCurve(
        "NOPG-D",
        SIZES,
        (-274.2, -101.0, -114.4, -106.7, -77.0, -82.8, -86.1, -79.0, -96.0, -86.2),
        (-390.0, -118.4, -128.7, -119.4, -82.8, -90.4, -95.4, -85.9, -96.8, -93.5),
        (-158.4, -83.6, -100.1, -94.0, -71.2, -75.2, -76.8, -72.1, -95.2, -78.9),
    ),
    PaperCurve(
        "NOPG-S",
        SIZES,
        (-283.2, -95.4, -98.1, -96.6, -99.2, -86.1, -84.9, -91.7, -84.7, -83.4),
        (-411.0, -109.5, -102.2, -110.4, -115.7, -93.4, -93.3, -98.2, -93.3, -92.3),
        (-155.5, -81.4, -94.0, -82.7, -82.7, -78.8, -76.4, -85.1, -76.0, -74.6),
    ),
)


def trials(plan: Plan) -> list[Trial]:
    """`paper`, `NOPG` and `learn` by number of demonstrations."""
    preset = PRESETS[plan.preset]
    task, source = SCRIPTED_CAR, {}
    if plan.data_file is not None:
        task, source = RECORDED_CAR, recorded(plan.data_file)
    paper = {**PAPER, "gamma": GAMMA, **preset["settings"]}
    sampled = {**paper, **SAMPLES, **source}
    seeds = plan.seeds_or(preset["seeds"])
    arms = [
        *our_arms(
            paper,
            {"gamma": GAMMA, **preset["NOPG"]},
            preset["learn"],
            preset["sizes"],
            seeds,
            source,
            preset.get("at_most"),
        ),
        Arm("NOPG-D", SAMPLED, sampled, preset["sampled"], seeds[:SAMPLED_SEEDS]),
    ]
    found = trials_of(NAME, task, arms, plan.data_file)
    shown = Trial(
        experiment=NAME,
        task=task,
        method=DEMONSTRATION,
        size=0,
        seed=0,
        settings=source,
        data_file=plan.data_file,
    )
    return [shown, *found]


def analyse(records: list[Record]) -> dict[str, Any]:
    """What the operator needed, and the worst seed of each arm with most data."""
    most = max(record.trial.size for record in records)
    worst: dict[str, float] = {}
    for record in records:
        if record.trial.size == most and "last" in record.result:
            label = record.trial.label
            worst[label] = min(worst.get(label, 0.0), record.result["last"])
    shown = [r.result for r in records if r.trial.method == DEMONSTRATION]
    lengths = shown[0]["lengths"] if shown else []
    mean = -float(np.mean(lengths)) if lengths else None
    return {"operator": mean, f"worst of {most} demonstrations": worst}


def recorded(data_file: str) -> dict[str, Any]:
    """What tells results of a file of demonstrations apart, wherever it lies."""
    try:
        hashed = hashlib.sha256(Path(data_file).read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise DataError(
            f"`--data` must be a readable file, got {data_file} ({error.strerror}); check the path."
        ) from None
    return {"data": "recorded", "sha256": hashed}


EXPERIMENT = Experiment(
    name=NAME,
    title="Mountain car from demonstrations (Figure 4)",
    trials=trials,
    runner_of=lambda trial: (
        run_demonstrations if trial.method == DEMONSTRATION else runner_of(trial)
    ),
    chart="demonstrations",
    paper=PAPER_CURVES,
    # "human" is the paper's operator; the optimum is bang-bang, 65 to 67 steps.
    levels={"optimum": -66.0, "paper's human": -434.1},
    solved=-120.0,
    analyse=analyse,
    x_label="demonstrations",
    takes_data=True,
)
