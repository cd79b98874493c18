"""Figure 2, left: the pendulum's swing-up from a uniform grid of single steps.

Constants are those of the appendix, "Pendulum with Uniform Dataset", tables
"Pendulum uniform grid dataset configurations" (sizes) and "NOPG configurations for
the Pendulum uniform grid experiment" (all else), unless a line says otherwise.
"""

from __future__ import annotations

from typing import Any

from reproduction.arms import FEW_SEEDS, Arm, our_arms, runner_of, trials_of
from reproduction.experiment import Experiment, PaperCurve, Plan
from reproduction.trial import FLOOR, Trial
from reproduction.trials.learn import QUICK, SMOKE

NAME = "figure2-pendulum-grid"

GAMMA = 0.97  # discount factor
SIZES = (200, 450, 800, 1250, 1800, 3200)  # 10, 15, 20, 25, 30 and 40 squared, twice
PAPER: dict[str, Any] = {
    "state_factor": 1.0,  # state h_factor, 1.0 for each dimension
    "action_factor": 50.0,  # action h_factor
    "learning_rate": 1e-2,  # with Adam
    "policy_samples": 15,  # N_pi, NOPG-S
    "max_std": 1.0,  # sigma = sigmoid(g)
    "n_updates": 1500,  # policy updates
}
WITH_FLOOR: dict[str, Any] = {
    # Not in the paper: cross-validation leaves velocities a tenth of the grid's step.
    "half_spacing_floor": True
}
DDPG_OFFLINE: dict[str, Any] = {
    # Table "Pendulum random data", DDPG offline: the paper shows none on the grid.
    "actor_learning_rate": 1e-2,
    "critic_learning_rate": 1e-2,
    "tau": 1e-3,
    "n_updates": 2000,
}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "sizes": SIZES,
        "seeds": 10,
        "settings": {"n_evaluations": 15},
        "NOPG": {},
        "learn": {},
    },
    "quick": {
        "sizes": (200, 450),
        "seeds": 2,
        "settings": {"n_updates": 300, "n_evaluations": 5},
        "NOPG": {"n_updates": 300, "n_evaluations": 5},
        "learn": QUICK,
    },
    "smoke": {
        "sizes": (50,),
        "seeds": 1,
        "settings": {"n_updates": 4, "n_evaluations": 2},
        "NOPG": {"n_updates": 4, "n_evaluations": 2},
        "learn": SMOKE,
    },
}
PRESETS["standard"] = PRESETS["paper"] | {"at_most": FEW_SEEDS}
PAPER_CURVES = (  # read from the source of Figure 2, left: means and 95% intervals
    PaperCurve(
        "NOPG-D",
        SIZES,
        (-3775.19, -593.70, -579.07, -579.65, -502.69, -431.93),
        (-3775.20, -595.49, -581.35, -580.75, -545.40, -433.11),
        (-3775.19, -591.90, -576.78, -578.56, -459.99, -430.75),
    ),
    PaperCurve(
        "NOPG-S",
        SIZES,
        (-3793.43, -593.14, -580.32, -582.24, -472.00, -429.95),
        (-3795.62, -596.04, -582.50, -585.11, -510.14, -431.77),
        (-3791.23, -590.24, -578.15, -579.36, -433.87, -428.14),
    ),
)


def trials(plan: Plan) -> list[Trial]:
    """`paper`, `NOPG`, `learn`, `paper` with a floor, and offline DDPG, by size."""
    preset = PRESETS[plan.preset]
    shared = {"gamma": GAMMA, **preset["settings"]}
    where = preset["sizes"], plan.seeds_or(preset["seeds"])
    nopg, few = {"gamma": GAMMA, **preset["NOPG"]}, preset.get("at_most")
    arms = [
        *our_arms(PAPER | shared, nopg, preset["learn"], *where, at_most=few),
        Arm("NOPG-D", FLOOR, PAPER | WITH_FLOOR | shared, *where),
        Arm("DDPG offline", "", DDPG_OFFLINE | shared, *where),
    ]
    return trials_of(NAME, "pendulum-grid", arms)


EXPERIMENT = Experiment(
    name=NAME,
    title="Pendulum swing-up from a uniform grid (Figure 2, left)",
    trials=trials,
    runner_of=runner_of,
    paper=PAPER_CURVES,
    levels={"optimum": -299.0},  # value iteration on a 400 x 401 grid
    solved=-600.0,  # one or two swings more than needed, and upright to the end
)
