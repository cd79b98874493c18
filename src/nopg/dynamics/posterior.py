"""Models drawn from the posterior of a learned one, to be followed for many steps.

What an error comes to after a hundred steps depends on how errors go together: what is too low here
is too low beside here as well. So whole functions are drawn, and a rollout keeps to one of them:

    f(x) = a phi(x)' v + k(x)' (w + a W' e - K^-1 a phi(Z)' v),   v, e ~ N(0, 1),

with w the weights of the mean, W its whitening factor, Z the inducing inputs and phi random Fourier
features of the kernel (decoupled sampling, Wilson et al., 2020). Near the data f is what they say,
far from them any function of the prior. Linear means are drawn as least squares leave them open.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.compiled import ProcessArrays
from nopg.dynamics.gaussian_process import JITTER, GaussianProcess
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel, mean_arrays
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
    drawn = _drawn_process(model.process, n_draws, generator)
    rows = (inputs[is_free].numpy(), targets[is_free].numpy())
    _draw_linear(drawn, model.process, *rows, generator)
    return ArrayTransitionModel(model, drawn)


def _drawn_process(
    process: GaussianProcess, n_draws: int, generator: np.random.Generator
) -> ProcessArrays:
    """Functions drawn from the posterior of a process, their linear means not yet."""
    mean, (n_curved, m) = mean_arrays(process), process.weights.shape
    # Fourier features sqrt(2 / D) cos(z' frequencies + phase) of all kernels, (m, c D).
    drawn = generator.standard_normal((n_curved, N_FEATURES, len(mean.centre)))
    drawn *= mean.inverse_scales[:, None]
    phases = generator.uniform(0.0, 2.0 * np.pi, (n_curved, N_FEATURES))
    angles = mean.points @ drawn.reshape(-1, len(mean.centre)).T + phases.ravel()
    torch.from_numpy(angles).cos_()
    factor = np.sqrt(2.0 / N_FEATURES)
    at_inducing = factor * angles
    weights, waves = [], np.zeros((n_draws, n_curved, N_FEATURES))
    for i, target in enumerate(mean.curved):
        amplitude = float(process.amplitude[target])
        first, second = (part[i].numpy() for part in process.whitening)
        prior = generator.standard_normal((N_FEATURES, n_draws))
        columns = slice(i * N_FEATURES, (i + 1) * N_FEATURES)
        expected = first.T @ (first @ (at_inducing[:, columns] @ prior))
        noise = second.T @ generator.standard_normal((m, n_draws))
        weights.append(process.weights[i].numpy() + (amplitude * (noise - expected)).T)  # (S, m)
        waves[:, i] = factor * (amplitude * prior.T)
    return mean._replace(
        linear=np.tile(mean.linear, (n_draws, 1, 1)),
        weights=weights,
        frequencies=drawn.swapaxes(1, 2),
        phases=phases,
        wave_weights=waves,
    )


def _draw_linear(
    drawn: ProcessArrays,
    process: GaussianProcess,
    inputs: Array,
    targets: Array,
    generator: np.random.Generator,
) -> None:
    """Draw the coefficients of the linear means, as least squares leave them open."""
    # Where there is a kernel as far as noise leaves them; near the data it makes up for what a
    # drawn mean says otherwise, if they tell it to.
    features, (d, m) = drawn.features(inputs), drawn.points.T.shape
    design = np.concatenate([features[:, -1:], features[:, d:-1]], axis=1)  # (1, z)
    errors = targets - design @ drawn.linear[0]
    precision = design.T @ design + 1e-9 * len(design) * np.eye(design.shape[1])
    every = -(-len(design) // N_ROWS)
    kernels = features[::every] @ drawn.exponent
    torch.from_numpy(kernels).exp_()
    explained = kernels.T @ design[::every] * every
    for target in range(targets.shape[1]):
        is_open = errors[:, target].std()
        if target in drawn.curved:
            is_open = float(process.noise[target])
        # Angles are inputs of the last target alone.
        k = len(precision) if target == targets.shape[1] - 1 else 1 + inputs.shape[1]
        root = np.linalg.inv(np.linalg.cholesky(precision[:k, :k])).T
        moved = is_open * generator.standard_normal((len(drawn.linear), k)) @ root.T  # (S, k)
        # A position less the last one is a speed: where inputs are bound to each other rows say
        # nothing of a slope across them, and it would carry off paths that are beside a little.
        spreads, ways = np.linalg.eigh(precision[:k, :k])
        ways = ways[:, spreads < FLAT * len(design)]
        moved -= moved @ ways @ ways.T
        drawn.linear[:, :k, target] += moved
        if target in drawn.curved and is_open > 0.0:
            i = drawn.curved.index(target)
            rows, second = slice(i * m, (i + 1) * m), process.whitening[1][i].numpy()
            ratio = (is_open / float(process.amplitude[target])) ** 2 + JITTER
            answer = second.T @ (second @ explained[rows, :k]) / ratio  # (m, k)
            drawn.weights[i][...] -= moved @ answer.T
