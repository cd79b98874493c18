"""The swing-up pendulum as the paper sets it: grid data, start at the bottom.

Appendix, "Pendulum with Uniform Dataset": theta in [-pi, pi], velocity in [-8, 8],
torque in {-2, 2}, gamma 0.97, 500 steps from the bottom at rest.
"""

import math
from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.envs.pendulum import Pendulum, pendulum_grid
from nopg.envs.rollouts import Rollout, rollout

GAMMA = 0.97
BOTTOM = (-1.0, 0.0, 0.0)
"""Observation (cos, sin, velocity) of the pendulum hanging at rest."""
N_STEPS = 500
HANGING = -4935.0  # return of doing nothing for 500 steps: 500 times -pi^2
PAPER_450 = -594.0  # mean return of NOPG-D with 450 samples, Figure 2 of the paper
OPTIMUM = -299.0  # about the best return possible, by value iteration on a fine grid


def grid_dataset(n_angles: int = 15, n_velocities: int = 15) -> Dataset:
    """The paper's uniform data set; 15 x 15 x 2 gives its 450 samples."""
    env = Pendulum()
    grid = pendulum_grid(n_angles, n_velocities, 2)
    return Dataset(
        *grid,
        observation_names=env.observation_names,
        action_names=env.action_names,
        observation_space=env.observation_space,
        action_space=env.action_space,
    )


def swing_up(policy: Any, n_steps: int = N_STEPS) -> Rollout:
    """Let `policy` act on the pendulum of Gymnasium, from the bottom at rest."""
    env = Pendulum()
    starts = env.reset_states(1, np.random.default_rng(0))
    return rollout(env, lambda seen: policy.predict(seen)[0], starts, n_steps)


def upright_after(path: Rollout) -> int | None:
    """Steps until the pendulum stays within 0.2 rad of upright; None if never."""
    angles = path.states[0, :, 0]
    wrapped = (angles + math.pi) % (2 * math.pi) - math.pi
    away = np.nonzero(np.abs(wrapped) > 0.2)[0]
    last = int(away[-1]) + 1 if len(away) else 0
    return last if last < len(angles) - 50 else None
