"""The fused update, in Triton's interpreter, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import nopg
from nopg.bellman.fused import MOST_FEATURES, FusedSystem, supports
from nopg.bellman.problem import MATCHED, NADARAYA_WATSON, Problem
from nopg.bellman.rows import QueryRows
from tests.gpu.launches import DEVICE

GAMMA, STARTS = 0.6, [(1.0, 0.0, 0.1), (0.0, 1.0, -0.3)]


def problem(rows: str, n: int = 26, d_s: int = 1) -> Problem:
    """Samples on a circle with `d_s` numbers more, a few of them the last of theirs."""
    rng = np.random.default_rng(3)
    angle, more = rng.uniform(-3.0, 3.0, (2, n, 1)), rng.normal(size=(2, n, d_s))
    here, there = (np.hstack([np.cos(x), np.sin(x), y]) for x, y in zip(angle, more, strict=True))
    actions, is_last = rng.normal(size=(n, 1)), np.arange(n) % 9 == 0
    data = nopg.Dataset(here, actions, rng.normal(size=n), there, is_last)
    model = nopg.NOPG(
        bandwidths=nopg.Bandwidths([0.7, 0.7, *[0.6] * d_s], [0.8]),
        neighbours=8,
        gamma=GAMMA,
        rows=rows,
        device=DEVICE,
    )
    starts = [(*start, *[0.0] * (d_s - 1)) for start in STARTS]
    return model.prepare(data, starts).kernel.problem


def dense(of: Problem, rows: QueryRows, taken: Tensor) -> Tensor:
    """Rows as a matrix, (m, n)."""
    block = rows.blocks[0]
    assert block.columns is not None
    weights = of.row_model(rows).at(taken).blocks[0]
    return weights.new_zeros(rows.shape).scatter(1, block.columns.long(), weights)


def exact_objective(of: Problem, taken: Tensor) -> float:
    """J by a dense solve, for one action at each query, (n + b, d_a)."""
    r, live = of.samples.rewards, of.samples.continuation
    P = live[:, None] * dense(of, of.next_rows, taken[: len(r)])
    eps0 = dense(of, of.initial_rows, taken[len(r) :]).mean(dim=0)
    q = torch.linalg.solve(torch.eye(len(r)).to(P) - GAMMA * P, r)
    return float(eps0 @ q)


@pytest.mark.parametrize("rows", [MATCHED, NADARAYA_WATSON])
def test_objective_and_gradient_are_those_of_a_dense_solve(rows: str) -> None:
    pytest.importorskip("triton")
    given, n_policies = problem(rows), 2
    system = FusedSystem(given, n_policies)
    draws = torch.Generator().manual_seed(1)
    shape = (n_policies, *given.queries.shape[:1], 1)
    taken = torch.randn(shape, generator=draws, dtype=torch.float64).to(DEVICE)
    system.evaluate(taken)
    for _ in range(24):
        system.sweep()
    assert float(system.left.max()) < 1e-8
    objective, gradient = system.finish()
    for each in (given.next_rows, given.initial_rows):  # only the plain path needs it
        assert not {"actions", "pattern"} & {*vars(each)}
    for policy in range(n_policies):
        exact = exact_objective(given, taken[policy])
        assert float(objective[policy]) == pytest.approx(exact, rel=1e-9)
        for query in (2, 11, len(given.queries) - 1):
            step = torch.zeros_like(taken[policy])
            step[query] = 1e-4
            above, below = (exact_objective(given, taken[policy] + sign * step) for sign in (1, -1))
            slope = (above - below) / 2e-4
            found = float(gradient[policy, query, 0])
            assert found == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_matched_rows_of_many_features_train_unfused() -> None:
    widest = MOST_FEATURES - 2  # beside the angle and the action
    assert supports(problem(MATCHED, d_s=widest))
    assert not supports(problem(MATCHED, d_s=widest + 1))
    assert supports(problem(NADARAYA_WATSON, d_s=widest + 1))
