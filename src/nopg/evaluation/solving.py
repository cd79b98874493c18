"""Solving for what chains are worth and where they go, several of them together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nopg.bellman.solution import BellmanSolution
from nopg.evaluation.bootstrap import weighted_product
from nopg.evaluation.chains import Chain
from nopg.linalg.operators import AveragedRows
from nopg.linalg.solve import DiscountedSystem, SolverConfig, solve_columns, solve_pair

RTOL = 1e-3
"""Accuracy of replicas and models: far below the differences that are looked for."""
FEW = 256
"""Samples up to which systems are solved whole: calls cost more than numbers there."""


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
