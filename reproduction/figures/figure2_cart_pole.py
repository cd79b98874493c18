"""Figure 2, centre-right: the cart-pole kept upright, from a random agent's episodes.

Constants are those of the appendix, table "Algorithms configurations for the CartPole
random data experiment", unless a line says otherwise. The plot itself is missing from
the paper's source, so there is no curve to draw over; its claim is that a return of
10^4, all there is to earn in 10^4 steps, is reached with an order of magnitude less
data than the baselines need.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from reproduction.arms import FEW_SEEDS, Arm, our_arms, runner_of, trials_of
from reproduction.experiment import Experiment, Plan
from reproduction.figures.sample_efficiency import smallest_sizes
from reproduction.trial import Trial
from reproduction.trials.ddpg import ONLINE
from reproduction.trials.learn import QUICK, SMOKE

NAME = "figure2-cart-pole"

GAMMA = 0.99  # discount factor, of every method
NOPG_SIZES = (100, 250, 500, 1000, 1500, 2500, 3000, 5000, 6000, 8000, 10_000)
OFFLINE_SIZES = (
    100, 500, 1000, 2000, 3500, 5000, 8000, 10_000, 15_000, 20_000, 25_000,
)  # fmt: skip  # DDPG offline and PWIS
PAPER: dict[str, Any] = {
    "state_factor": 1.0,  # state h_factor, 1.0 for each dimension
    "action_factor": 20.0,  # action h_factor
    "learning_rate": 1e-2,  # with Adam; printed as ". 10^-2", its factor is lost
    "policy_samples": 10,  # N_pi, NOPG-S
    "max_std": 1.0,  # sigma = sigmoid(g)
    "n_updates": 2000,  # policy updates
}
DDPG_OFFLINE: dict[str, Any] = {
    "actor_learning_rate": 1e-2,
    "critic_learning_rate": 1e-2,
    "tau": 1e-3,  # soft update
    "n_updates": 2000,  # policy updates
}
PWIS: dict[str, Any] = {"learning_rate": 1e-3, "max_std": 1.0, "n_updates": 2000}
DDPG_ONLINE: dict[str, Any] = {
    "actor_learning_rate": 1e-3,
    "critic_learning_rate": 1e-2,
    "tau": 1e-3,  # soft update
    "rollout_steps": 1000,  # rollout steps
    "noise_std": 0.2,  # not given; the default of OpenAI Baselines, adaptive there
}
ONLINE_STEPS = 200_000  # policy updates, one for each step here
ONLINE_SEEDS = 5
ONLINE_STANDARD = 50_000  # twice the largest data set; the first part of such a run
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "nopg": NOPG_SIZES,
        "offline": OFFLINE_SIZES,
        "online": ONLINE_STEPS,
        "seeds": 10,
        "settings": {"n_evaluations": 10},  # 100,000 steps each
        "NOPG": {},
        "learn": {},
        "online_settings": {"report_every": 2000},
    },
    "quick": {
        "nopg": (250, 500),
        "offline": (500, 1000),
        "online": 4000,
        "seeds": 1,
        "settings": {"n_updates": 200, "n_evaluations": 5},
        "NOPG": {"n_updates": 200, "n_evaluations": 5},
        "learn": QUICK,
        "online_settings": {"report_every": 2000},
    },
    "smoke": {
        "nopg": (60,),
        "offline": (60,),
        "online": 100,
        "seeds": 1,
        "settings": {"n_updates": 4, "n_evaluations": 2},
        "NOPG": {"n_updates": 4, "n_evaluations": 2},
        "learn": SMOKE,
        "online_settings": {"report_every": 50, "rollout_steps": 50},
    },
}
PRESETS["standard"] = PRESETS["paper"] | {
    "nopg": (100, 250, 500, 1000, 1500, 2500, 5000),
    "at_most": FEW_SEEDS,
    "offline": (500, 2000, 5000, 10_000, 25_000),
    "online": ONLINE_STANDARD,
}
SOLVED = 9900.0


def trials(plan: Plan) -> list[Trial]:
    """`paper`, `NOPG`, `learn`, PWIS and DDPG offline by size, and DDPG online."""
    preset = PRESETS[plan.preset]
    shared = {"gamma": GAMMA, **preset["settings"]}
    seeds = plan.seeds_or(preset["seeds"])
    online = DDPG_ONLINE | {"gamma": GAMMA, **preset["online_settings"]}
    arms = [
        *our_arms(
            PAPER | shared,
            {"gamma": GAMMA, **preset["NOPG"]},
            preset["learn"],
            preset["nopg"],
            seeds,
            at_most=preset.get("at_most"),
        ),
        Arm("PWIS", "", PWIS | shared, preset["offline"], seeds),
        Arm("DDPG offline", "", DDPG_OFFLINE | shared, preset["offline"], seeds),
        Arm(ONLINE, "", online, (preset["online"],), seeds[:ONLINE_SEEDS]),
    ]
    return trials_of(NAME, "cart-pole", arms)


EXPERIMENT = Experiment(
    name=NAME,
    title="Cart-pole stabilisation from a random agent (Figure 2, centre-right)",
    trials=trials,
    runner_of=runner_of,
    levels={"optimum": 10_000.0},  # cos(0) for 10^4 steps
    solved=SOLVED,
    analyse=partial(smallest_sizes, solved=SOLVED),
)
