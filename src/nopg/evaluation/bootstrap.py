"""The Bayesian bootstrap, and what replicas and other chains are worth.

Each replica gives every episode (or every sample, where there are none) a weight
drawn from the exponential distribution and adds its logarithm to the column of each
of its samples. Rows are softmaxes, so a replica's product needs no matrix of its own:

    P_w x = P (w o x) / (P w),

and all replicas share one sparse product (Rubin, 1981, for the weights). This is
exact where a row is one softmax; the rows of stochastic and discrete policies average
several, and there the average is reweighted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from nopg.bellman.samples import Samples
from nopg.bellman.solution import BellmanSolution
from nopg.data.dataset import Dataset
from nopg.errors import NopgWarning
from nopg.evaluation.chains import Chain
from nopg.linalg.operators import AveragedRows, LinearOperator
from nopg.linalg.solve import DiscountedSystem, SolverConfig, solve_columns, solve_pair

N_REPLICAS = 32
"""Enough for a spread known to one part in eight."""
RTOL = 1e-3
"""Accuracy of replicas and models: far below the differences that are looked for."""
FEW = 256
"""Samples up to which systems are solved whole: calls cost more than numbers there."""


def replica_weights(
    data: Dataset, samples: Samples, generator: np.random.Generator
) -> Tensor:
    """Weights of each sample in each replica, in the order of `samples`, (n, b).

    With one episode alone the spread between episodes cannot be had: samples are
    weighted in its place, and a warning says so.
    """
    n = len(data)
    units = np.arange(n) if data.episodes is None else data.episodes
    if data.n_episodes == 1:
        warnings.warn(
            "Intervals over episodes need two or more, these data have one; its "
            "samples are resampled instead, so the interval cannot tell how much "
            "another run would have differed.",
            NopgWarning,
            stacklevel=2,
        )
        units = np.arange(n)
    _, numbers = np.unique(units, return_inverse=True)
    drawn = generator.exponential(size=(int(numbers.max()) + 1, N_REPLICAS))
    weights = torch.as_tensor(drawn[numbers]).to(samples.rewards)
    return weights if samples.order is None else weights[samples.order]


def weighted_product(
    rows: LinearOperator, weights: Tensor | None
) -> Callable[[Tensor], Tensor]:
    """X -> P_w X with one column per replica, (n, b) to (m, b); P x if unweighted."""
    if weights is None:
        return rows.matvec
    total = rows.matvec(weights).clamp(min=torch.finfo(weights.dtype).tiny)
    return lambda x: rows.matvec(weights * x) / total


def replica_values(chain: Chain, weights: Tensor, start: Tensor) -> Tensor:
    """q_w = (I - gamma P_w)^-1 r of every replica, together, (n, b)."""
    problem = chain.problem
    gamma, r = problem.config.gamma, problem.samples.rewards[:, None]
    rows = weighted_product(chain.at_next, weights)

    def product(x: Tensor) -> Tensor:
        return x - gamma * chain.continued(chain.averaged(rows(x)))

    width = weights.shape[1]
    first = start[:, None].expand(-1, width)
    return solve_columns(product, r.expand(-1, width), first, rtol=RTOL)


def model_values(
    chains: Sequence[Chain], near: BellmanSolution
) -> tuple[list[Tensor], Tensor]:
    """q = (I - gamma P)^-1 r of every chain, (n,) each, and mu of the last, (n,).

    Few samples make small matrices: one call factorises those of all chains, in
    single precision, which is more than `RTOL` asks for. `near` is the solution of a
    chain close by, where to start otherwise.
    """
    systems, last = [_system(chain) for chain in chains], chains[-1]
    r, n_initial = last.problem.samples.rewards, last.problem.initial_rows.shape[0]
    eps0 = last.at_initial.rmatvec(r.new_full((n_initial,), 1.0 / n_initial))
    if len(r) <= FEW:
        single = torch.stack([one.dense().float() for one in systems])
        lu = torch.linalg.lu_factor(single)
        rhs = r.float().expand(len(systems), -1)[..., None]
        values = torch.linalg.lu_solve(*lu, rhs)[..., 0].to(r)
        of_last = (factor[-1] for factor in lu)
        visits = torch.linalg.lu_solve(*of_last, eps0.float()[:, None], adjoint=True)
        return list(values), visits[:, 0].to(r)
    config, start = SolverConfig(rtol=RTOL), (near.q.value, near.mu.value)
    found = []
    for system in systems:
        # Where no visits are asked for none start, and no product is spent on them.
        first = eps0 if system is systems[-1] else torch.zeros_like(eps0)
        found.append(solve_pair(system, r, first, config, start, near.correction))
    return [q.value for q, _ in found], found[-1][1].value


def _system(chain: Chain) -> DiscountedSystem:
    samples, config = chain.problem.samples, chain.problem.config
    P = AveragedRows(
        chain.at_next, config.next_state_samples, samples.continuation_mask
    )
    return DiscountedSystem(P, config.gamma)
