"""Models drawn from the posterior of a learned one, to be followed for many steps.

A predictive deviation says how wrong one step may be. What it comes to after a hundred
steps depends on how errors go together: a regression that is too low here is too low
beside here as well. So whole functions are drawn, and a rollout keeps to one of them:

    f(x) = a phi(x)' v + k(x)' (w + a W' e - K^-1 a phi(Z)' v),   v, e ~ N(0, 1),

with w the weights of the mean, W its whitening factor, Z the inducing inputs and phi
random Fourier features of the kernel (decoupled sampling, Wilson et al., 2020). Near
the data f is what they say, far from them any function of the prior.
"""

from __future__ import annotations

import numpy as np
import torch

from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.policies.arrays import Array

N_FEATURES = 192
"""Fourier features of each kernel: far from the data a draw is right to one in ten."""


def drawn_models(
    model: TransitionModel, n_draws: int, generator: np.random.Generator
) -> ArrayTransitionModel:
    """So many models at once: a batch of states is shared among them in equal parts.

    The first part of every batch is stepped by the first draw, and so on.
    """
    return ArrayTransitionModel(model, _DrawnProcess(model.process, n_draws, generator))


class _DrawnProcess:
    """Functions drawn from the posterior of a process, as arrays."""

    def __init__(
        self, process: GaussianProcess, n_draws: int, generator: np.random.Generator
    ) -> None:
        (n_curved, m), d = process.weights.shape, len(process.centre)
        self._centre = process.centre.numpy()
        self._factor = 1.0 / process.spread.numpy()
        self._exponent = process.exponent.numpy()
        self._linear = process.linear.numpy()
        # Fourier features sqrt(2 / D) cos(z' frequencies + phase), (d, c D) and (c D,).
        scales = process.inverse_scales.numpy()  # (c, d)
        drawn = generator.standard_normal((n_curved, N_FEATURES, d)) * scales[:, None]
        self._frequencies = drawn.reshape(-1, d).T
        self._phases = generator.uniform(0.0, 2.0 * np.pi, n_curved * N_FEATURES)
        n_targets = self._linear.shape[1]
        shape = (n_draws, n_curved, m + N_FEATURES, n_targets)
        self._weights = np.zeros(shape)
        at_inducing = self._features(process.inducing.numpy())
        for i, target in enumerate(process.curved.tolist()):
            amplitude = float(process.amplitude[target])
            first, second = (factor[i].numpy() for factor in process.whitening)
            prior = generator.standard_normal((N_FEATURES, n_draws))
            columns = slice(i * N_FEATURES, (i + 1) * N_FEATURES)
            expected = first.T @ (first @ (at_inducing[:, columns] @ prior))
            noise = second.T @ generator.standard_normal((m, n_draws))
            moved = amplitude * (noise - expected)  # (m, S)
            mean = process.weights[i].numpy()
            self._weights[:, i, :m, target] = mean + moved.T
            self._weights[:, i, m:, target] = amplitude * prior.T
        kernels = self._weights[:, :, :m].reshape(n_draws, -1, n_targets)
        waves = self._weights[:, :, m:].reshape(n_draws, -1, n_targets)
        self._weights = np.concatenate([kernels, waves], axis=1)  # (S, c (m + D), q)

    def __call__(self, inputs: Array) -> Array:
        z = (inputs - self._centre) * self._factor
        squares = np.concatenate([z * z, z, np.ones((len(z), 1))], axis=1)
        kernels = squares @ self._exponent
        torch.from_numpy(kernels).exp_()
        features = np.concatenate([kernels, self._features(z)], axis=1)
        n_draws = len(self._weights)
        parts = features.reshape(n_draws, len(z) // n_draws, -1) @ self._weights
        curved = parts.reshape(len(inputs), -1)
        return np.asarray(curved + self._linear[0] + z @ self._linear[1:])

    def _features(self, z: Array) -> Array:
        """Fourier features of all kernels, (m, c D)."""
        angles = z @ self._frequencies + self._phases
        torch.from_numpy(angles).cos_()
        return np.asarray(np.sqrt(2.0 / N_FEATURES) * angles)
