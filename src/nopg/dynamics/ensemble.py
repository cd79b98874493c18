"""Two models of one log, and whether they still hold after ten steps.

A model can be right for one step and wrong for ten: its errors add up, carry it off the
paths that the log has seen, and there it is a guess that a search exploits. So where
the system is noisy the log is replayed, from some of its states with its own actions:
several length scales and noises are tried on some episodes and compared by replaying
the others. A system without noise is followed closely by its model, and left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.dynamics.hyperparameters import FREE, SMOOTHER, HyperparameterLimits
from nopg.dynamics.noise import ProcessNoise, noise_draws
from nopg.dynamics.transition_model import (
    ArrayTransitionModel,
    TransitionModel,
    regression_actions,
)
from nopg.policies.arrays import Array

Names = NDArray[Any]
"""Of the episode that each row belongs to, (n,)."""
N_STEPS = 10
"""Steps of a replay."""
MAX_REPLAYS = 200
"""Replays at most, spread over the log."""
MORE_THAN_NOISE = 1.5
"""Error over what noise explains, from which episodes differ by more than that."""
N_PATHS = 8
"""Noisy paths that a replay is the mean of."""
CHOICES = (FREE, *SMOOTHER)
BETTER = 0.9
"""Error over that of the first choice, from which another is taken."""
HELD_OUT = 5
"""One episode in so many is held out to compare them."""


class Replays(NamedTuple):
    """Parts of episodes, to be predicted from their first state and their actions."""

    states: Array  # (B, T + 1, d_s)
    actions: Array  # (B, T, d_a)

    @classmethod
    def of(
        cls, states: Array, actions: Array, next_states: Array, episodes: Names
    ) -> Replays | None:
        """From n rows, those of an episode in order; None if none is long enough."""
        n = len(states)
        follows = np.zeros(n, dtype=bool)
        follows[1:] = (next_states[:-1] == states[1:]).all(axis=1)
        follows[1:] &= episodes[1:] == episodes[:-1]
        breaks = np.cumsum(~follows)  # the same number in rows without a break
        first = np.arange(max(0, n - N_STEPS + 1))
        first = first[breaks[first] == breaks[first + N_STEPS - 1]]
        if not len(first):
            return None
        first = first[:: -(-len(first) // MAX_REPLAYS)]
        rows = first[:, None] + np.arange(N_STEPS)
        path = np.concatenate([states[rows], next_states[rows[:, -1:]]], axis=1)
        return cls(path, actions[rows])

    def error(self, model: TransitionModel, deviation: Array) -> float:
        """Root mean square error of the last state, in deviations, (d_s,).

        Of the mean over noisy paths: a model that only holds on the log's own paths is
        carried off them.
        """
        missed = self._last(model).mean(axis=0) - self.states[:, -1]
        return _size(missed[:, : len(deviation)] / deviation)

    def scatter(self, model: TransitionModel, deviation: Array) -> float:
        """The same that the model expects because of noise."""
        scattered = self._last(model).std(axis=0)
        return _size(scattered[:, : len(deviation)] / deviation)

    def _last(self, model: TransitionModel) -> Array:
        """Last predicted states of noisy paths, (P, B, d_s)."""
        n_steps, (n_replays, _, d_s) = self.actions.shape[1], self.states.shape
        n_all = N_PATHS * n_replays
        draws = noise_draws(n_steps, n_all, d_s, np.random.default_rng(0))
        steps, here = ArrayTransitionModel(model), self.states[:, 0]
        here = np.tile(here, (N_PATHS, 1))
        for t in range(n_steps):
            actions = np.tile(self.actions[:, t], (N_PATHS, 1))
            here = steps.step(here, actions, draws[t]).next_states
        return here.reshape(N_PATHS, n_replays, d_s)


def fit_ensemble(
    data: Dataset, generator: np.random.Generator
) -> tuple[TransitionModel, TransitionModel]:
    """Two models of one data set, so that no policy need fool only one.

    One of all the data and one of a random four fifths of them, with hyperparameters
    and inducing points of its own, so that its errors are not quite those of the first.
    """
    columns = _columns(data)
    n_seen = max(2, 4 * len(data) // 5)
    part = torch.as_tensor(generator.permutation(len(data))[:n_seen])
    seen = [column[part] for column in columns]
    past = data.history
    whole = TransitionModel.fit(*columns, generator=generator, history=past)
    limits, whole = replayed(whole, columns, data.episodes)
    return whole, TransitionModel.fit(
        *seen, generator=generator, like=whole, limits=limits, history=past
    )


def replayed(
    model: TransitionModel, columns: Sequence[Tensor], episodes: Names | None
) -> tuple[HyperparameterLimits, TransitionModel]:
    """Limits of length scales and noise with which replays stay with the log.

    And the model of all the data within them, from the hyperparameters compared. Where
    replays err by more than its noise explains, episodes differ by more than the rows
    of one show, and the noise is that of errors at held-out episodes.

    Args:
        model: Of all the data, without limits.
        columns: States, actions, rewards, next states and terminations.
        episodes: Names of the episodes, (n,), None if rows are in no order.
    """
    if model.noise is None or episodes is None or len(np.unique(episodes)) < 2:
        return FREE, model
    names = np.unique(episodes)
    states, actions, _, following, _ = (column.numpy() for column in columns)
    n_present = model.process.linear.shape[1] - 1  # the past is copied
    deviation = np.maximum(states[:, :n_present].std(axis=0), 1e-12)
    is_other = np.isin(episodes, names[HELD_OUT // 2 % len(names) :: HELD_OUT])
    others = Replays.of(*(x[is_other] for x in (states, actions, following, episodes)))
    if others is None:
        return FREE, model
    rows = torch.from_numpy(is_other)
    some = [column[~rows] for column in columns]
    past = model.history
    fitted = [
        TransitionModel.fit(
            *some, generator=np.random.default_rng(0), limits=limits, history=past
        )
        for limits in CHOICES
    ]
    errors = np.array([others.error(one, deviation) for one in fitted])
    best = int(errors.argmin())
    if errors[best] > BETTER * errors[0]:
        best = 0
    chosen = fitted[best]
    noise = chosen.noise if best else model.noise
    if errors[best] > MORE_THAN_NOISE * others.scatter(chosen, deviation):
        noise = _noise_at(chosen, *(column[rows] for column in columns))
    if best == 0:
        return FREE, replace(model, noise=noise)
    like = replace(chosen, bounds=model.bounds, rewards=model.rewards, noise=noise)
    generator, limits = np.random.default_rng(0), CHOICES[best]
    return limits, TransitionModel.fit(
        *columns, generator=generator, like=like, limits=limits, history=past
    )


def _noise_at(
    model: TransitionModel, states: Tensor, actions: Tensor, *rest: Tensor
) -> ProcessNoise | None:
    """Noise of the errors at rows that the model has not seen."""
    following, n_present = rest[1], model.process.linear.shape[1] - 1
    errors = (following - model.step(states, actions).reached)[:, :n_present]
    is_free = ~model.bounds.are_saturated(following)
    inputs = torch.cat([states, actions], dim=1)
    spread = (following - states)[:, :n_present].std(dim=0, correction=0)
    return ProcessNoise.fit(inputs[is_free], errors[is_free], spread)


def _size(errors: Array) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def _columns(data: Dataset) -> tuple[Tensor, ...]:
    return (
        torch.tensor(data.observations).double(),
        regression_actions(data),
        torch.tensor(data.rewards).double(),
        torch.tensor(data.next_observations).double(),
        torch.tensor(data.terminations).double(),
    )
