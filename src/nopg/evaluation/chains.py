"""The estimated system under several row models, ready to be asked several questions.

A chain is the Markov chain the estimator lives in: from a state choose a sample by
its responsibilities, move to that sample's next state. The plain chain is the
paper's. Others differ in what smoothing does to them, so that where they agree
smoothing does not matter, and where they differ its bias is of that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nopg.bellman.problem import Problem
from nopg.bellman.rows import QueryRows
from nopg.bellman.samples import initial_state_tensor
from nopg.bellman.solution import BellmanSolution
from nopg.evaluation.centred_rows import centred_rows
from nopg.linalg.operators import LinearOperator
from nopg.policies.families import Policy, checked_outputs
from nopg.randomness import Seed


@dataclass(frozen=True)
class RowModel:
    """How rows are made."""

    scale: float = 1.0
    """Factor on every bandwidth."""
    is_centred: bool = False
    """Whether rows are tilted until their mean is their query."""


PLAIN = RowModel()
ALTERNATIVES = (RowModel(scale=2.0**0.5), RowModel(scale=2.0, is_centred=True))
"""What the plain rows are compared with: a wider kernel, as the choice of bandwidths
might have gone; and rows without displacement, wide enough to reach all around."""


@dataclass(frozen=True)
class Chain:
    """One policy's chain under one row model.

    Attributes:
        problem: Data and lists, bandwidths already scaled.
        policy: Who acts.
        model: How rows are made.
        at_next: Rows at the next states, (n N_phi, n).
        at_initial: Rows at the initial states, (B, n).
        displacement: What centring left of it at the next states and then at the
            initial ones, in unscaled bandwidths; None where rows are not centred.
    """

    problem: Problem
    policy: Policy
    model: RowModel
    at_next: LinearOperator
    at_initial: LinearOperator
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
        parts = [(rows, queries, outputs)]
        return _rows(self.problem, self.policy, self.model, parts)[0][0]

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
        PLAIN,
        solution.at_next.operator,
        solution.at_initial.operator,
    )


def alternative_chain(
    solution: BellmanSolution, policy: Policy, model: RowModel, problem: Problem
) -> Chain:
    """The same policy under another row model, whose scale `problem` already has."""
    m = problem.next_rows.shape[0]
    outputs = tuple(output.detach() for output in solution.outputs)
    parts = [
        (rows, problem.queries[which], tuple(output[which] for output in outputs))
        for rows, which in (
            (problem.next_rows, slice(m)),
            (problem.initial_rows, slice(m, None)),
        )
    ]
    (later, first), left = _rows(problem, policy, model, parts)
    displacement = None if left is None else model.scale * left
    return Chain(problem, policy, model, later, first, displacement)


Part = tuple[QueryRows, Tensor, tuple[Tensor, ...]]
"""Lists, their states (m, d_s), and the policy's outputs there."""


def _rows(
    problem: Problem, policy: Policy, model: RowModel, parts: Sequence[Part]
) -> tuple[list[LinearOperator], Tensor | None]:
    """Rows of each part, and what is left of their displacement if any, together."""
    with torch.no_grad():
        made = []
        # A fixed stream: every model sees the same draws of a stochastic policy.
        generator = Seed(0).torch("trust", problem.queries.device)
        for rows, _, outputs in parts:
            kind = problem.responsibilities(policy, rows)
            made.append(kind.evaluate(outputs, generator).operator)
        if not model.is_centred:
            return made, None
        states, actions = (
            torch.cat([states for _, states, _ in parts]),
            torch.cat([outputs[0] for _, _, outputs in parts]),
        )
        queries, samples = _in_bandwidths(problem, states, actions)
        lists = [rows for rows, _, _ in parts]
        centred = centred_rows(list(zip(lists, made, strict=True)), queries, samples)
        left = torch.cat([one.displacement for one in centred])
        return [one.operator for one in centred], left


def _in_bandwidths(
    problem: Problem, states: Tensor, actions: Tensor
) -> tuple[Tensor, Tensor]:
    """(s, a) of queries and samples in bandwidths; labels have no place in space."""
    data, h = problem.samples, problem.bandwidths
    width = data.states.new_tensor(h.state)
    queries, samples = [states / width], [data.states / width]
    if not data.n_actions:
        width = data.states.new_tensor(h.action)
        queries.append(actions / width)
        samples.append(data.actions / width)
    return torch.cat(queries, dim=1), torch.cat(samples, dim=1)
