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
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.dynamics.hyperparameters import (
    FREE,
    SMOOTH,
    SMOOTH_NOISY,
    HyperparameterLimits,
)
from nopg.dynamics.noise import ProcessNoise
from nopg.dynamics.transition_model import (
    ArrayTransitionModel,
    TransitionModel,
    regression_actions,
)
from nopg.policies.arrays import Array

N_STEPS = 10
"""Steps of a replay."""
MAX_REPLAYS = 200
"""Replays at most, spread over the log."""
MORE_THAN_NOISE = 1.5
"""Error over what noise explains, from which episodes differ by more than that."""
CHOICES = (FREE, SMOOTH, SMOOTH_NOISY)
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
        cls,
        states: Array,
        actions: Array,
        next_states: Array,
        episodes: NDArray[np.int64],
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
        """Root mean square error of the last state, in deviations, (d_s,)."""
        errors = self._last(model) - self.states[:, -1]
        return _size(errors[:, : len(deviation)] / deviation)

    def scatter(self, model: TransitionModel, deviation: Array) -> float:
        """The same that the model expects because of noise."""
        if model.noise is None:
            return 0.0
        shape = (self.actions.shape[1], len(self.states), self.states.shape[2])
        draws = np.random.default_rng(0).standard_normal(shape)
        errors = self._last(model, draws) - self._last(model)
        return _size(errors[:, : len(deviation)] / deviation)

    def _last(self, model: TransitionModel, draws: Array | None = None) -> Array:
        """Last predicted states, (B, d_s)."""
        steps, here = ArrayTransitionModel(model), self.states[:, 0]
        for t in range(self.actions.shape[1]):
            gusts = None if draws is None else draws[t]
            here = steps.step(here, self.actions[:, t], gusts).next_states
        return here


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
    limits, noise = replayed(whole, columns, data.episodes)  # nothing without noise
    if limits != FREE:
        whole = TransitionModel.fit(
            *columns, generator=generator, limits=limits, history=past
        )
    whole = replace(whole, noise=noise)
    return whole, TransitionModel.fit(
        *seen, generator=generator, like=whole, limits=limits, history=past
    )


def replayed(
    model: TransitionModel,
    columns: Sequence[Tensor],
    episodes: NDArray[np.int64] | None,
) -> tuple[HyperparameterLimits, ProcessNoise | None]:
    """Limits of length scales and noise with which replays stay with the log.

    And the noise: where replays err by more than it explains, episodes differ by more
    than the rows of one show, and it is learned from the errors at held-out episodes.

    Args:
        model: Of all the data, without limits.
        columns: States, actions, rewards, next states and terminations.
        episodes: Names of the episodes, (n,), None if rows are in no order.
    """
    if model.noise is None or episodes is None or len(np.unique(episodes)) < 2:
        return FREE, model.noise
    names = np.unique(episodes)
    states, actions, _, following, _ = (column.numpy() for column in columns)
    n_present = model.process.linear.shape[1] - 1  # the past is copied
    deviation = np.maximum(states[:, :n_present].std(axis=0), 1e-12)
    is_other = np.isin(episodes, names[HELD_OUT // 2 % len(names) :: HELD_OUT])
    others = Replays.of(
        states[is_other], actions[is_other], following[is_other], episodes[is_other]
    )
    if others is None:
        return FREE, model.noise
    rows = torch.from_numpy(is_other)
    some = [column[~rows] for column in columns]
    fitted = [
        TransitionModel.fit(
            *some,
            generator=np.random.default_rng(0),
            limits=limits,
            history=model.history,
        )
        for limits in CHOICES
    ]
    errors = np.array([others.error(one, deviation) for one in fitted])
    best = int(errors.argmin())
    if errors[best] > BETTER * errors[0]:
        best = 0
    if errors[best] <= MORE_THAN_NOISE * others.scatter(fitted[best], deviation):
        return CHOICES[best], fitted[best].noise if best else model.noise
    return CHOICES[best], _noise_at(fitted[best], *(column[rows] for column in columns))


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
