"""What is measured: the paper's pendulum grid, and random data of any size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from reproduction.envs.pendulum import Pendulum

from nopg.bellman.samples import Samples
from nopg.cli.swing_up import BOTTOM, GAMMA, grid_dataset
from nopg.data.dataset import Dataset
from nopg.kernels.bandwidths import Bandwidths
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy
from nopg.randomness import Seed

GRID_BANDWIDTHS = {
    450: Bandwidths([0.3409, 0.3202, 0.0798], [1.62]),
    800: Bandwidths([0.3018, 0.2878, 0.0699], [1.44]),
    3200: Bandwidths([0.2263, 0.2209, 0.0517], [1.09]),
}
"""What nopg.CrossValidated(action_factor=50), the paper's rule, finds on the grids."""


@dataclass(frozen=True)
class Task:
    """One problem, as both formulations get it.

    Attributes:
        name: For tables.
        samples: The transitions.
        start: The initial states, (B, d_s).
        bandwidths: Kernel bandwidths.
        kind: "deterministic" or "stochastic".
        gamma: Discount factor.
        policy_samples: Draws per state, for stochastic policies.
        learning_rate: Adam's step size, the paper's.
        rtol: Relative residual of the solves.
    """

    name: str
    samples: Samples
    start: torch.Tensor
    bandwidths: Bandwidths
    kind: str = "deterministic"
    gamma: float = GAMMA
    policy_samples: int = 15
    learning_rate: float = 1e-2
    rtol: float = 1e-4

    def policy(self, seed: int = 0) -> Policy:
        """The paper's network, the same one at every call: 50 ReLU, 2 tanh."""
        d_s, d_a = self.samples.states.shape[1], self.samples.actions.shape[1]
        spec = PolicySpec(kind=self.kind, n_states=d_s, n_outputs=d_a, is_standardised=False)
        bound = torch.full((d_a,), Pendulum.max_torque)
        policy = spec.build(Seed(seed).torch("policy-init"), -bound, bound)
        return policy.to(self.samples.states.dtype)


def grid_task(n: int, kind: str = "deterministic") -> Task:
    """The paper's uniform grid with n = 450, 800 or 3200 samples."""
    side = math.isqrt(n // 2)
    data = grid_dataset(side, side)
    samples = Samples.of(data, torch.float64, "cpu")
    start = torch.tensor([BOTTOM], dtype=torch.float64)
    return Task(f"grid {n}", samples, start, GRID_BANDWIDTHS[n], kind)


def random_task(n: int, dtype: torch.dtype, rtol: float) -> Task:
    """Steps of the pendulum from n random states with random torques.

    Bandwidths shrink with n as those of a density in three dimensions do.
    """
    generator = Seed(0).numpy("data")
    env = Pendulum()
    angles = generator.uniform(-math.pi, math.pi, n)
    states = np.column_stack([angles, generator.uniform(-8.0, 8.0, n)])
    actions = generator.uniform(-2.0, 2.0, (n, 1))
    step = env.step(states, actions)
    data = Dataset(
        env.observe(states), actions, step.rewards, env.observe(step.next_states), step.terminations
    )
    shrink = (3200 / n) ** 0.2
    bandwidths = Bandwidths([0.1 * shrink, 0.1 * shrink, 0.4 * shrink], [1.0])
    start = torch.tensor([BOTTOM], dtype=dtype)
    samples = Samples.of(data, dtype, "cpu")
    return Task(f"random {n}", samples, start, bandwidths, rtol=rtol)
