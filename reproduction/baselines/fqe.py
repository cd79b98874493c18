"""Fitted Q evaluation of d3rlpy: a network's estimate of the same policy's return.

Network, rate, batch and target interval are d3rlpy's defaults. As for the other methods
of d3rlpy (see `d3`) transitions become episodes of their own, observations are
standardised and actions scaled; rewards are scaled by the largest return they allow, so
that the network starts with targets of the right size on every task.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nopg.data import Dataset
from nopg.errors import DataError
from reproduction.baselines.quiet import import_quietly
from reproduction.envs.base import FloatArray


def fqe_value(
    data: Dataset, policy: nn.Module, states: FloatArray, *, gamma: float, n_updates: int, seed: int
) -> FloatArray:
    """V(s) = Q(s, pi(s)) of a deterministic policy by fitted Q evaluation, (m,).

    Args:
        data: Transitions with continuous actions.
        policy: States (m, d_s) to actions (m, d_a), in float64.
        states: Where the value is asked for, (m, d_s).
        gamma: Discount factor.
        n_updates: Gradient steps.
        seed: Seed of initial weights and batches.

    Raises:
        MissingExtraError: If d3rlpy is not installed.
        DataError: If the actions are discrete.
    """
    if data.is_discrete:
        raise DataError(
            "Fitted Q evaluation is set up for continuous actions here, got discrete "
            "labels; pass actions.astype(float) if they are continuous."
        )
    d3rlpy = import_quietly("d3rlpy", "offline-baselines")
    ope = import_quietly("d3rlpy.ope", "offline-baselines")
    d3rlpy.seed(seed)
    largest = float(np.abs(data.rewards).max()) / (1.0 - gamma) or 1.0
    target = _Target(policy, data)
    evaluator = ope.FQE(
        algo=target,
        config=ope.FQEConfig(
            gamma=gamma,
            observation_scaler=d3rlpy.preprocessing.StandardObservationScaler(
                mean=target.mean.numpy(), std=target.std.numpy()
            ),
            action_scaler=d3rlpy.preprocessing.MinMaxActionScaler(
                minimum=target.low.numpy(), maximum=target.high.numpy()
            ),
            reward_scaler=d3rlpy.preprocessing.MultiplyRewardScaler(1.0 / largest),
        ),
        device="cpu:0",
    )
    evaluator.create_impl((data.observations.shape[1],), data.actions.shape[1])
    buffer = _as_buffer(data)
    for _ in range(n_updates):
        evaluator.update(buffer.sample_transition_batch(evaluator.batch_size))
    with torch.no_grad():
        actions = policy(torch.as_tensor(states)).numpy()
    values = evaluator.predict_value(states.astype(np.float32), actions.astype(np.float32))
    return np.asarray(values, dtype=np.float64) * largest


class _Target:
    """The policy as d3rlpy asks for it: scaled observations in, scaled actions out."""

    def __init__(self, policy: nn.Module, data: Dataset) -> None:
        def tensor(array: Any) -> Tensor:
            return torch.as_tensor(np.asarray(array, dtype=np.float64))

        std = data.observations.std(axis=0)
        self.policy = policy
        self.mean = tensor(data.observations.mean(axis=0))
        self.std = tensor(np.where(std > 0.0, std, 1.0))
        self.low, self.high = (tensor(end(data.actions, axis=0)) for end in (np.min, np.max))

    @property
    def impl(self) -> _Target:
        """What d3rlpy calls the implementation: this object."""
        return self

    def predict_best_action(self, scaled: Tensor) -> Tensor:
        """The policy's actions at scaled observations, scaled to [-1, 1]."""
        with torch.no_grad():
            states = scaled.double() * self.std + self.mean
            actions: Tensor = self.policy(states)
        within = (actions - self.low) / (self.high - self.low)
        return (2.0 * within - 1.0).to(scaled)


def _as_buffer(data: Dataset) -> Any:
    """The transitions as a d3rlpy buffer: an episode each, none lost, none joined.

    A terminated transition is an episode of one row. Any other is an episode of two
    rows cut by a time limit, the second of which only holds the next state.
    """
    d3rlpy = import_quietly("d3rlpy", "offline-baselines")
    episodes = []
    for i in range(len(data)):
        ends = bool(data.terminations[i])
        states = data.observations[i : i + 1]
        if not ends:
            states = np.concatenate([states, data.next_observations[i : i + 1]])
        n = len(states)
        episodes.append(
            d3rlpy.dataset.Episode(
                observations=states.astype(np.float32),
                actions=np.repeat(data.actions[i : i + 1], n, 0).astype(np.float32),
                rewards=np.full((n, 1), data.rewards[i], dtype=np.float32),
                terminated=ends,
            )
        )
    with contextlib.redirect_stdout(io.StringIO()):  # it announces what it found
        return d3rlpy.dataset.ReplayBuffer(
            d3rlpy.dataset.InfiniteBuffer(),
            episodes=episodes,
            action_space=d3rlpy.ActionSpace.CONTINUOUS,
            action_size=data.actions.shape[1],
        )
