"""A learned model in arrays, for the many small steps of rollouts.

A rollout takes one step after another, a handful of states at a time, and there the
calls cost more than the arithmetic. Everything that does not change is multiplied out
beforehand, so that a step is a few products of small matrices.
"""

from __future__ import annotations

import numpy as np
import torch

from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.terminations import TerminationModel
from nopg.dynamics.transition_model import PredictedStep, TransitionModel
from nopg.policies.arrays import Array


class ArrayTransitionModel:
    """`TransitionModel.step`, to rounding, in a tenth of the time for a few states."""

    def __init__(self, model: TransitionModel) -> None:
        bounds = model.bounds
        self._process = _ArrayProcess(model.process)
        self._bounds = bounds
        self._low, self._high = bounds.low.numpy(), bounds.high.numpy()
        # What saturates stays in support: no distance counts there.
        self._below, self._above = (
            ~stops.numpy() / bounds.typical_step.numpy()
            for stops in (bounds.saturation.is_low, bounds.saturation.is_high)
        )
        self._termination = None
        if model.termination is not None:
            self._termination = _ArrayTermination(model.termination)

    def step(self, states: Array, actions: Array) -> PredictedStep[Array]:
        """What the model expects of one step of m states."""
        d_s = states.shape[1]
        predicted = self._process(np.concatenate([states, actions], axis=1))
        reached = states + predicted[:, :d_s]
        after, out = self._projected(reached)
        rewards = predicted[:, d_s]
        if self._termination is None:
            never = np.zeros(len(rewards))
            return PredictedStep(reached, after, rewards, never, out, rewards)
        terminated, final = self._termination(after)
        expected = (1.0 - terminated) * rewards + final
        return PredictedStep(reached, after, expected, terminated, out, rewards)

    def _projected(self, reached: Array) -> tuple[Array, Array]:
        """States within bounds, and the probability that they are out of support."""
        after = np.minimum(np.maximum(reached, self._low), self._high)
        beyond = reached - after
        out = np.zeros(len(reached))
        if beyond.any():  # rarely
            if self._bounds.saturation.exists:
                after = self._bounds.clip(torch.from_numpy(reached)).numpy()
            beyond *= np.where(beyond < 0.0, self._below, self._above)
            out = -np.expm1(-0.5 * (beyond * beyond).sum(axis=1))
        return self._bounds.project_angles(after), out


class _ArrayProcess:
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


class _ArrayTermination:
    """`TerminationModel.predict`."""

    def __init__(self, model: TerminationModel) -> None:
        points, d = model.points.numpy(), model.points.shape[1]
        self._factor = 1.0 / (model.unit.numpy() * model.width)
        scaled = points / model.width
        # |s|^2 is the same for every point: it does not change their shares.
        self._exponent = np.empty((d + 1, len(points)))
        self._exponent[:d] = scaled.T
        self._exponent[d] = -0.5 * (scaled * scaled).sum(axis=1)
        self._values = np.stack(
            [model.is_terminal.numpy(), model.rewards.numpy()], axis=1
        )

    def __call__(self, states: Array) -> tuple[Array, Array]:
        scores = (states * self._factor) @ self._exponent[:-1] + self._exponent[-1]
        weights = _exp(scores - scores.max(axis=1, keepdims=True))
        shares = (weights @ self._values) / weights.sum(axis=1, keepdims=True)
        return shares[:, 0], shares[:, 1]


def _exp(x: Array) -> Array:
    """e^x in place; torch's does not slow down where the result is nearly 0."""
    torch.from_numpy(x).exp_()
    return x
