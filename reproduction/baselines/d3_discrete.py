"""Conservative Q-learning of d3rlpy for labelled actions: its IQL has none.

Networks and the weight of the conservative term are d3rlpy's defaults. Its other
defaults are those of Atari games (batches of 32, a step size of 6.25e-5, a target
network renewed every 8,000 steps): in 10,000 steps that renews the target once and
learns next to nothing. Batch and step size are therefore those of d3rlpy's IQL and CQL,
and the target is renewed every 100 steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nopg.data.dataset import Dataset
from nopg.errors import DataError
from nopg.randomness import Seed
from reproduction.baselines.d3 import Batches, observation_scaler, predicting
from reproduction.baselines.progress import Progress, in_chunks
from reproduction.baselines.quiet import import_quietly

DISCRETE_CQL = "DiscreteCQL"
BATCH_SIZE, LEARNING_RATE, RENEW_TARGET_EVERY = 256, 3e-4, 100


def train_discrete_cql(
    data: Dataset, *, gamma: float, n_updates: int, report_every: int, seed: int
) -> Iterator[Progress]:
    """Train DiscreteCQL on logged transitions.

    Args:
        data: Transitions with labelled actions, in any order.
        gamma: Discount factor.
        n_updates: Gradient steps, made exactly.
        report_every: Gradient steps between reports.
        seed: Seed of initial weights and batches.

    Raises:
        MissingExtraError: If d3rlpy is not installed.
        DataError: If the actions are continuous.
    """
    if not data.is_discrete:
        raise DataError(
            "DiscreteCQL needs integer labels as actions, got continuous ones; use CQL or IQL."
        )
    d3rlpy = import_quietly("d3rlpy", "offline-baselines")
    d3rlpy.seed(seed)
    algorithm = d3rlpy.algos.DiscreteCQLConfig(
        gamma=gamma,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        target_update_interval=RENEW_TARGET_EVERY,
        observation_scaler=observation_scaler(d3rlpy, data),
    ).create(device="cpu:0")
    algorithm.create_impl((data.observations.shape[1],), data.n_actions)
    labels = data.actions.astype(np.float32).reshape(-1, 1)
    batches = replace(Batches.of(data), actions=labels)
    generator = Seed(seed).numpy("batches")

    def learn(n_steps: int) -> None:
        for _ in range(n_steps):
            algorithm.update(batches.draw(BATCH_SIZE, generator))

    return in_chunks(learn, predicting(algorithm), n_steps=n_updates, report_every=report_every)
