"""Why the printed factors fail on the random agent's pendulum: four readings tried.

The appendix prints a factor of 1 for the state bandwidths and 25 for the torque; the
authors' released code has 10, 10 and 1 for cosine, sine and velocity, and 10 for the
torque. The release stores torques as drawn, its later data as the motor takes them,
clipped; clipped ones pile up at the limits and make their bandwidth ten times narrower.

    python -m scripts.random_pendulum_factors --size 1500 --seeds 3
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from reproduction.baselines.progress import acting
from reproduction.figures.figure2_pendulum_random import GAMMA, PAPER
from reproduction.tasks.continuous import Task, pendulum_random_task

import nopg
from nopg.errors import NopgWarning
from nopg.kernels.bandwidths import CrossValidated
from nopg.policies.build import PolicySpec
from nopg.randomness import Seed

FACTORS = {  # of cosine, sine, velocity; of the torque
    "printed": CrossValidated([1.0, 1.0, 1.0], 25.0),
    "released": CrossValidated([10.0, 10.0, 1.0], 10.0),
}


def last_return(task: Task, size: int, seed: int, factors: CrossValidated, clips: bool) -> float:
    """Return of NOPG-D's last policy, as `figure2-pendulum-random` measures it."""
    data = task.dataset(size, seed, clipped=clips)
    algorithm = nopg.NOPG(
        _policy(task, seed),
        gamma=GAMMA,
        rows="nadaraya-watson",
        bandwidths=factors,
        learning_rate=PAPER["learning_rate"],
        standardise=False,
        schedule="constant",
        # Torques as drawn lie beyond the motor's limits; the policy does not.
        action_space=_around(data.actions),
        seed=seed,
    )
    starts = task.initial_observations(seed)
    n_updates = PAPER["n_updates"]
    policy = algorithm.fit(data, starts, n_updates=n_updates, progress=False)
    return float(task.returns(acting(policy.policy), seed).mean())


def _policy(task: Task, seed: int) -> torch.nn.Module:
    low, high = (torch.as_tensor(bound) for bound in task.env.action_bounds)
    spec = PolicySpec(kind="deterministic", n_states=3, n_outputs=1, is_standardised=False)
    return spec.build(Seed(seed).torch("policy-init"), low, high)


def _around(actions: Any) -> Box:
    values = np.asarray(actions, dtype=np.float64)
    return Box(values.min(axis=0), values.max(axis=0), dtype=np.float64)


def main(arguments: Sequence[str]) -> None:
    """Print the return of every reading and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NopgWarning)
    task = pendulum_random_task()
    for name, rule in FACTORS.items():
        for clips in (True, False):
            returns = [
                last_return(task, options.size, seed, rule, clips) for seed in range(options.seeds)
            ]
            shown = ", ".join(f"{value:.0f}" for value in returns)
            torques = "clipped" if clips else "as drawn"
            sys.stdout.write(f"{name} factors, torques {torques}: {shown}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
