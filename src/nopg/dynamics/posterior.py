"""Models drawn from the posterior of a learned one, to be followed for many steps.

A predictive deviation says how wrong one step may be. What it comes to after a hundred steps
depends on how errors go together: a regression that is too low here is too low beside here as well.
So whole functions are drawn, and a rollout keeps to one of them:

    f(x) = a phi(x)' v + k(x)' (w + a W' e - K^-1 a phi(Z)' v),   v, e ~ N(0, 1),

with w the weights of the mean, W its whitening factor, Z the inducing inputs and phi random Fourier
features of the kernel (decoupled sampling, Wilson et al., 2020). Near the data f is what they say,
far from them any function of the prior. The coefficients of linear means are drawn as least squares
leave them open: a small error of how long a motion lasts is a large one after many steps.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.compiled import ProcessArrays
from nopg.dynamics.gaussian_process import JITTER, GaussianProcess
from nopg.dynamics.hyperparameters import with_angles
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.policies.arrays import Array

N_FEATURES = 192  # Fourier features of each kernel: its prior is right to one in ten
FLAT = 1e-6  # variance below which inputs never move in a direction
N_ROWS = 2_000  # rows that tell what a kernel makes of a linear function


def drawn_models(
    model: TransitionModel,
    columns: Sequence[Tensor],  # what it was learned from, as `model_columns` gives it
    n_draws: int,
    generator: np.random.Generator,
) -> ArrayTransitionModel:
    """So many models at once; a batch is shared among them in equal parts, in order."""
    inputs, targets = torch.cat(list(columns[:2]), dim=1), model.targets(columns)
    is_free = ~model.bounds.are_left_out(columns[3])
    process = _DrawnProcess(model.process, n_draws, generator)
    process.draw_linear(inputs[is_free].numpy(), targets[is_free].numpy(), generator)
    return ArrayTransitionModel(model, process)


class _DrawnProcess:
    """Functions drawn from the posterior of a process, as arrays."""

    def __init__(
        self, process: GaussianProcess, n_draws: int, generator: np.random.Generator
    ) -> None:
        (n_curved, m), d = process.weights.shape, len(process.centre)
        self._process = process
        self._centre, self._factor = process.centre.numpy(), 1.0 / process.spread.numpy()
        self._exponent = process.exponent.numpy()
        self._linear = np.tile(process.linear.numpy(), (n_draws, 1, 1))  # (S, 1 + d, q)
        self._curved = process.curved.tolist()
        # Fourier features sqrt(2 / D) cos(z' frequencies + phase), (d, c D) and (c D,).
        scales = process.inverse_scales.numpy()  # (c, d)
        drawn = generator.standard_normal((n_curved, N_FEATURES, d)) * scales[:, None]
        self._frequencies = drawn.reshape(-1, d).T
        self._phases = generator.uniform(0.0, 2.0 * np.pi, n_curved * N_FEATURES)
        n_targets = self._linear.shape[2]
        self._weights = np.zeros((n_draws, n_curved, m + N_FEATURES, n_targets))
        at_inducing = self._features(process.inducing.numpy())
        for i, target in enumerate(process.curved.tolist()):
            amplitude = float(process.amplitude[target])
            first, second = (factor[i].numpy() for factor in process.whitening)
            prior = generator.standard_normal((N_FEATURES, n_draws))
            columns = slice(i * N_FEATURES, (i + 1) * N_FEATURES)
            expected = first.T @ (first @ (at_inducing[:, columns] @ prior))
            noise = second.T @ generator.standard_normal((m, n_draws))
            moved = amplitude * (noise - expected)  # (m, S)
            self._weights[:, i, :m, target] = process.weights[i].numpy() + moved.T
            self._weights[:, i, m:, target] = amplitude * prior.T
        kernels = self._weights[:, :, :m].reshape(n_draws, -1, n_targets)
        waves = self._weights[:, :, m:].reshape(n_draws, -1, n_targets)
        self._weights = np.concatenate([kernels, waves], axis=1)  # (S, c (m + D), q)

    def draw_linear(self, inputs: Array, targets: Array, generator: np.random.Generator) -> None:
        """Draw the coefficients of the linear means, as least squares leave them open."""
        # Where there is a kernel as far as noise leaves them; near the data it makes up for what a
        # drawn mean says otherwise, if they tell it to.
        design, process = self._design(inputs), self._process
        errors = targets - design @ self._linear[0]
        precision = design.T @ design + 1e-9 * len(design) * np.eye(design.shape[1])
        every = -(-len(design) // N_ROWS)
        explained = self._kernels(design[::every]).T @ design[::every] * every
        for target in range(targets.shape[1]):
            is_open = errors[:, target].std()
            if target in self._curved:
                is_open = float(process.noise[target])
            # Angles are inputs of the last target alone.
            k = len(precision) if target == targets.shape[1] - 1 else 1 + inputs.shape[1]
            root = np.linalg.inv(np.linalg.cholesky(precision[:k, :k])).T
            moved = is_open * generator.standard_normal((len(self._linear), k)) @ root.T  # (S, k)
            # A position less the last one is a speed: where inputs are bound to each other rows say
            # nothing of a slope across them, and it would carry off paths that are beside a little.
            spreads, ways = np.linalg.eigh(precision[:k, :k])
            ways = ways[:, spreads < FLAT * len(design)]
            moved -= moved @ ways @ ways.T
            self._linear[:, :k, target] += moved
            if target in self._curved and is_open > 0.0:
                i, m = self._curved.index(target), len(process.inducing)
                rows, second = slice(i * m, (i + 1) * m), process.whitening[1][i].numpy()
                ratio = (is_open / float(process.amplitude[target])) ** 2 + JITTER
                answer = second.T @ (second @ explained[rows, :k]) / ratio  # (m, k)
                self._weights[:, rows, target] -= moved @ answer.T

    def arrays(self) -> ProcessArrays:
        """All that makes them up."""
        process, m = self._process, len(self._process.inducing)
        c, d = process.inverse_scales.shape
        kernels, waves = np.split(self._weights, [c * m], axis=1)
        n, factor = N_FEATURES, np.sqrt(2.0 / N_FEATURES)
        own = [waves[:, i * n : (i + 1) * n, j] for i, j in enumerate(self._curved)]
        return ProcessArrays(
            self._centre,
            self._factor,
            self._linear,
            self._curved,
            process.inducing.numpy(),
            process.inverse_scales.numpy(),
            [kernels[:, i * m : (i + 1) * m, j] for i, j in enumerate(self._curved)],
            self._frequencies.reshape(d, c, N_FEATURES).swapaxes(0, 1),
            self._phases.reshape(c, N_FEATURES),
            factor * np.reshape(own, (c, len(waves), N_FEATURES)).swapaxes(0, 1),
        )

    def __call__(self, inputs: Array) -> Array:
        design = self._design(inputs)
        z = design[:, 1:]
        kernels = self._kernels(design)
        parts = ((kernels, self._features(z)), self._weights), ((design,), self._linear)
        n_draws, found = len(self._weights), np.zeros(())
        for features, weights in parts:
            every = np.concatenate(features, axis=1)
            found = found + every.reshape(n_draws, len(z) // n_draws, -1) @ weights
        return found.reshape(len(z), -1)

    def _design(self, inputs: Array) -> Array:
        """(1, z) of inputs, (m, 1 + d)."""
        z = (with_angles(inputs, self._process.angles) - self._centre) * self._factor
        return np.concatenate([np.ones((len(z), 1)), z], axis=1)

    def _kernels(self, design: Array) -> Array:
        """Every kernel of every curved target, (m, c i)."""
        z = design[:, 1:]
        kernels = np.concatenate([z * z, z, design[:, :1]], axis=1) @ self._exponent
        torch.from_numpy(kernels).exp_()
        return np.asarray(kernels)

    def _features(self, z: Array) -> Array:
        """Fourier features of all kernels, (m, c D)."""
        angles = z @ self._frequencies + self._phases
        torch.from_numpy(angles).cos_()
        return np.asarray(np.sqrt(2.0 / N_FEATURES) * angles)
