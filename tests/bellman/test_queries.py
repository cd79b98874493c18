"""Rows at next and initial states: made in one go and apart, they are the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nopg.bellman import queries
from nopg.bellman.queries import Apart, Together, query_responsibilities
from tests.problems import KINDS, small_problem


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", [None, 20, "auto"])
def test_joined_rows_are_those_of_both(
    kind: str, neighbours: int | str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With terminals, two draws a next state and, for "auto", several lengths."""
    problem = small_problem(kind, 3, n=300, next_state_samples=2, state_bandwidth=0.05)
    together = problem.equation(neighbours=neighbours)
    expected = together.solution
    monkeypatch.setattr(queries, "JOINED_ENTRIES", 0)
    apart = problem.equation(neighbours=neighbours)
    found = apart.solution
    assert isinstance(expected.estimator.at_queries, Together)
    assert isinstance(found.estimator.at_queries, Apart)
    for one, other in (
        (expected.at_next, found.at_next),
        (expected.at_initial, found.at_initial),
    ):
        same(one.operator.dense(), other.operator.dense())
        same(one.dropped, other.dropped)
        for left, right in zip(one.outputs, other.outputs, strict=True):
            same(left, right)
    same(expected.eps0, found.eps0)
    same(together.gradient(), apart.gradient())


def test_complete_rows_are_not_joined_to_lists() -> None:
    problem = small_problem("deterministic", 3, n=300, state_bandwidth=0.05)
    built = problem.equation(neighbours=20).problem
    complete = problem.equation(neighbours=None).problem.initial_rows
    mixed = replace(built, initial_rows=complete)
    assert isinstance(query_responsibilities(mixed, problem.policy), Apart)
    assert isinstance(query_responsibilities(built, problem.policy), Together)


def same(left: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-14)
