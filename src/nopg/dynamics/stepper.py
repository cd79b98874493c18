"""The learned system in arrays, for the many small steps of imagined paths.

A path is followed one step after another, a handful of states at a time, and there the
calls cost more than the arithmetic. Everything that does not change is multiplied out
beforehand, so that a step is a few products of small matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.terminations import EndVote
from nopg.dynamics.transition_model import TransitionModel

Array = NDArray[np.float64]


class ArrayStep(NamedTuple):
    """As `nopg.dynamics.transition_model.Step`, in arrays."""

    reached: Array  # (m, d_s)
    next_states: Array  # (m, d_s)
    rewards: Array  # (m,)
    ends: Array  # (m,)
    lost: Array  # (m,)
    live: Array  # (m,)


class Stepper:
    """`TransitionModel.step`, to rounding, in a tenth of the time for a few states."""

    def __init__(self, model: TransitionModel) -> None:
        box = model.box
        self._regression = _Regression(model.process)
        self._box = box
        self._low, self._high = box.low.numpy(), box.high.numpy()
        # What a wall stops is not lost: no distance counts there.
        self._below, self._above = (
            ~is_wall.numpy() / box.pace.numpy()
            for is_wall in (box.walls.is_low, box.walls.is_high)
        )
        self._ends = None if model.ends is None else _Vote(model.ends)

    def step(self, states: Array, actions: Array) -> ArrayStep:
        """What the model expects of one step of m states."""
        d_s = states.shape[1]
        predicted = self._regression(np.concatenate([states, actions], axis=1))
        reached = states + predicted[:, :d_s]
        following, lost = self._settled(reached)
        live = predicted[:, d_s]
        if self._ends is None:
            return ArrayStep(reached, following, live, np.zeros(len(live)), lost, live)
        ends, final = self._ends(following)
        rewards = (1.0 - ends) * live + final
        return ArrayStep(reached, following, rewards, ends, lost, live)

    def _settled(self, reached: Array) -> tuple[Array, Array]:
        """Where steps end, and the probability that they are lost: see `Box`."""
        following = np.minimum(np.maximum(reached, self._low), self._high)
        beyond = reached - following
        lost = np.zeros(len(reached))
        if beyond.any():  # rarely
            if self._box.walls.are_there:
                following = self._box.confine(torch.from_numpy(reached)).numpy()
            beyond *= np.where(beyond < 0.0, self._below, self._above)
            lost = -np.expm1(-0.5 * (beyond * beyond).sum(axis=1))
        return self._box.angles.settle_array(following), lost


class _Regression:
    """Mean of a Gaussian process: kernels of (z^2, z, 1), and a linear part."""

    def __init__(self, process: GaussianProcess) -> None:
        n_curved, m = process.weights.shape
        d, q = len(process.centre), process.linear.shape[1]
        self._centre = process.centre.numpy()
        self._factor = 1.0 / process.spread.numpy()
        self._exponent = process.exponent.numpy()
        self._weights = np.zeros((n_curved * m, q))
        for i, target in enumerate(process.curved.tolist()):
            self._weights[i * m : (i + 1) * m, target] = process.weights[i].numpy()
        self._linear = np.zeros((2 * d + 1, q))
        self._linear[d : 2 * d] = process.linear[1:].numpy()
        self._linear[-1] = process.linear[0].numpy()

    def __call__(self, inputs: Array) -> Array:
        d = inputs.shape[1]
        features = np.ones((len(inputs), 2 * d + 1))
        z = np.multiply(inputs - self._centre, self._factor, out=features[:, d : 2 * d])
        np.multiply(z, z, out=features[:, :d])
        kernels = _exp(features @ self._exponent)
        predicted: Array = kernels @ self._weights
        predicted += features @ self._linear
        return predicted


class _Vote:
    """Share of ends among the neighbours of a state, as `EndVote.vote`."""

    def __init__(self, vote: EndVote) -> None:
        points, d = vote.points.numpy(), vote.points.shape[1]
        self._factor = 1.0 / (vote.unit.numpy() * vote.width)
        scaled = points / vote.width
        # |s|^2 is the same for every voter: it does not change who wins.
        self._exponent = np.empty((d + 1, len(points)))
        self._exponent[:d] = scaled.T
        self._exponent[d] = -0.5 * (scaled * scaled).sum(axis=1)
        self._values = np.stack([vote.is_end.numpy(), vote.rewards.numpy()], axis=1)

    def __call__(self, states: Array) -> tuple[Array, Array]:
        scores = (states * self._factor) @ self._exponent[:-1] + self._exponent[-1]
        weights = _exp(scores - scores.max(axis=1, keepdims=True))
        shares = (weights @ self._values) / weights.sum(axis=1, keepdims=True)
        return shares[:, 0], shares[:, 1]


def _exp(x: Array) -> Array:
    """e^x in place; torch's does not slow down where the result is nearly 0."""
    torch.from_numpy(x).exp_()
    return x
