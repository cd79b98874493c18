"""The estimated system under several kinds of rows, ready for several questions.

A chain is the Markov chain the estimator lives in: from a state choose a sample by
its responsibilities, move to that sample's next state. The plain chain is the one the
policy was learned with. Others differ in what smoothing does to them, so that where
they agree smoothing does not matter, and where they differ its bias is of that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nopg.bellman.problem import MATCHED, NADARAYA_WATSON, Problem, list_rows
from nopg.bellman.responsibilities import PolicyRows
from nopg.bellman.rows import EXACT, QueryRows
from nopg.bellman.samples import initial_state_tensor
from nopg.bellman.solution import BellmanSolution
from nopg.linalg.operators import LinearOperator
from nopg.policies.families import Policy, checked_outputs
from nopg.randomness import Seed


@dataclass(frozen=True)
class Alternative:
    """How rows might have been made instead."""

    scale: float = 1.0
    """Factor on every bandwidth."""
    rows: str | None = None
    """The row model; by default that of the plain chain."""

    def problem(self, plain: Problem) -> Problem:
        """The same data seen this way; lists are shared where they can be."""
        if self.rows is None or self.rows == plain.config.rows:
            return plain.rescaled(self.scale)
        config = replace(
            plain.config, rows=self.rows, neighbours="auto", stochastic="quadrature"
        )
        m = plain.next_rows.shape[0]
        parts = (plain.queries[:m], plain.queries[m:])
        found = [
            list_rows(part, plain.samples, plain.bandwidths, config) for part in parts
        ]
        other = replace(
            plain, config=config, next_rows=found[0], initial_rows=found[1], coarse=None
        )
        return other.rescaled(self.scale)


ACCURACY = 1e-3
"""Of the rows of alternatives: far below the differences that they are to show."""
WIDER = Alternative(scale=2.0, rows=MATCHED)
ALTERNATIVES = {
    NADARAYA_WATSON: (Alternative(scale=2.0**0.5), WIDER),
    MATCHED: (Alternative(rows=NADARAYA_WATSON), WIDER),
}
"""What the plain rows are compared with, by what these are. A wider kernel, as the
choice of bandwidths might have gone; or the paper's rows, whose bias is another than
that of matched ones. And rows without displacement, wide enough to reach all around."""


@dataclass(frozen=True)
class Chain:
    """One policy's chain under one kind of rows."""

    problem: Problem  # data and lists, bandwidths already scaled
    policy: Policy  # who acts
    at_next: LinearOperator  # rows at the next states, (n N_phi, n)
    at_initial: LinearOperator  # rows at the initial states, (B, n)
    # How far the rows' means are from their queries, at the next states and then at the
    # initial ones, in unscaled bandwidths; None if unknown.
    displacement: Tensor | None = None

    def at(self, states: Any) -> LinearOperator:
        """Rows at any states, (m, n)."""
        queries = initial_state_tensor(states, self.problem.samples.states)
        # Lists are made for the scaled bandwidths, as the next rows' are not.
        rows = self.problem.rows_at(queries)
        with torch.no_grad():
            width = self.problem.samples.action_width
            made = checked_outputs(self.policy, queries, width)
            outputs = tuple(output.detach() for output in made)
        (found,) = _rows(self.problem, self.policy, [(rows, outputs)], EXACT)
        return found.operator

    def averaged(self, values: Tensor) -> Tensor:
        """The mean of the N_phi rows of each sample, (n, ...)."""
        group = self.problem.config.next_state_samples
        if group == 1:
            return values
        return values.view(-1, group, *values.shape[1:]).mean(dim=1)

    def continued(self, values: Tensor) -> Tensor:
        """The same with nothing after a terminal sample, (n, ...)."""
        live = self.problem.samples.continuation_mask
        if live is None:
            return values
        return values * live.view(-1, *[1] * (values.ndim - 1))


def plain_chain(solution: BellmanSolution, policy: Policy) -> Chain:
    """The chain whose rows the solution was made with."""
    return Chain(
        solution.estimator.problem,
        policy,
        solution.at_next.operator,
        solution.at_initial.operator,
    )


def alternative_chain(
    solution: BellmanSolution, policy: Policy, scale: float, problem: Problem
) -> Chain:
    """The same policy over `problem`, an alternative's, whose scale it already has."""
    m = problem.next_rows.shape[0]
    outputs = tuple(output.detach() for output in solution.outputs)
    parts = [
        (problem.next_rows, tuple(output[:m] for output in outputs)),
        (problem.initial_rows, tuple(output[m:] for output in outputs)),
    ]
    later, first = _rows(problem, policy, parts, ACCURACY)
    left = [one.displacement for one in (later, first)]
    known = [part for part in left if part is not None]
    displacement = scale * torch.cat(known) if known else None
    return Chain(problem, policy, later.operator, first.operator, displacement)


def _rows(
    problem: Problem,
    policy: Policy,
    parts: Sequence[tuple[QueryRows, tuple[Tensor, ...]]],
    accuracy: float,
) -> list[PolicyRows]:
    """Rows of each part: lists, and the policy's outputs there."""
    with torch.no_grad():
        # A fixed stream: every chain sees the same draws of a stochastic policy.
        generator = Seed(0).torch("trust", problem.queries.device)
        return [
            problem.responsibilities(policy, rows).evaluate(
                outputs, generator, accuracy=accuracy
            )
            for rows, outputs in parts
        ]
