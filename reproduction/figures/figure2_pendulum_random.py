"""Figure 2, centre-left: the pendulum's swing-up from a random agent's episodes.

Constants are those of the appendix, table "Algorithms configurations for the Pendulum
random data experiment", unless a line says otherwise. The plot itself is missing from
the paper's source, so there is no curve to draw over; its claim is "superior sample
efficiency by more than one order of magnitude".
"""

from __future__ import annotations

from functools import partial
from typing import Any

from reproduction.arms import FEW_SEEDS, Arm, our_arms, runner_of, trials_of
from reproduction.experiment import Experiment, Plan
from reproduction.figures.sample_efficiency import smallest_sizes
from reproduction.trial import SAMPLED, Trial
from reproduction.trials.ddpg import ONLINE
from reproduction.trials.learn import QUICK, SMOKE

NAME = "figure2-pendulum-random"

GAMMA = 0.97  # discount factor, of every method
NOPG_SIZES = (100, 500, 1000, 1500, 2000, 3000, 5000, 7000, 9000, 10_000)
OFFLINE_SIZES = (
    100, 500, 1000, 2000, 5000, 7500, 10_000, 12_000, 15_000, 20_000, 25_000,
)  # fmt: skip  # DDPG offline and PWIS
PAPER: dict[str, Any] = {
    "state_factor": 1.0,  # state h_factor, 1.0 for each dimension
    "action_factor": 25.0,  # action h_factor
    "learning_rate": 1e-2,  # with Adam
    "policy_samples": 10,  # N_pi, NOPG-S
    "max_std": 1.0,  # sigma = sigmoid(g)
    "n_updates": 2000,  # policy updates
}
SAMPLES: dict[str, Any] = {
    # The appendix has N_phi = 1, the mean; the authors' release draws this many.
    "next_state_samples": 20
}
DDPG_OFFLINE: dict[str, Any] = {
    "actor_learning_rate": 1e-2,
    "critic_learning_rate": 1e-2,
    "tau": 1e-3,  # soft update
    "n_updates": 2000,  # policy updates
}
PWIS: dict[str, Any] = {"learning_rate": 1e-2, "max_std": 1.0, "n_updates": 2000}
DDPG_ONLINE: dict[str, Any] = {
    "actor_learning_rate": 1e-3,
    "critic_learning_rate": 1e-2,
    "tau": 1e-3,  # soft update
    "rollout_steps": 1000,  # rollout steps
    "noise_std": 0.2,  # not given; the default of OpenAI Baselines, adaptive there
}
ONLINE_STEPS = 300_000  # policy updates, one for each step here
ONLINE_SEEDS = 5
ONLINE_STANDARD = 50_000  # twice the largest data set; the first part of such a run
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "nopg": NOPG_SIZES,
        "sampled": (1500,),  # the release's size; twenty times the rows
        "offline": OFFLINE_SIZES,
        "online": ONLINE_STEPS,
        "seeds": 10,
        "settings": {"n_evaluations": 20},
        "NOPG": {},
        "learn": {},
        "online_settings": {"report_every": 2000},
    },
    "quick": {
        "nopg": (500, 1000),
        "sampled": (),
        "offline": (500, 2000),
        "online": 4000,
        "seeds": 1,
        "settings": {"n_updates": 200, "n_evaluations": 5},
        "NOPG": {"n_updates": 200, "n_evaluations": 5},
        "learn": QUICK,
        "online_settings": {"report_every": 2000},
    },
    "smoke": {
        "nopg": (60,),
        "sampled": (60,),
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
    "nopg": (500, 1000, 1500, 2000, 3000, 5000),
    "at_most": FEW_SEEDS,
    "offline": (500, 2000, 5000, 10_000, 25_000),
    "online": ONLINE_STANDARD,
}
SOLVED = -450.0


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
        Arm("NOPG-D", SAMPLED, PAPER | SAMPLES | shared, preset["sampled"], seeds),
        Arm("PWIS", "", PWIS | shared, preset["offline"], seeds),
        Arm("DDPG offline", "", DDPG_OFFLINE | shared, preset["offline"], seeds),
        Arm(ONLINE, "", online, (preset["online"],), seeds[:ONLINE_SEEDS]),
    ]
    return trials_of(NAME, "pendulum-random", arms)


EXPERIMENT = Experiment(
    name=NAME,
    title="Pendulum swing-up from a random agent (Figure 2, centre-left)",
    trials=trials,
    runner_of=runner_of,
    levels={"optimum": -299.0},  # value iteration on a 400 x 401 grid
    solved=SOLVED,
    analyse=partial(smallest_sizes, solved=SOLVED),
)
