"""Responsibilities whose rows are shared out over ranks.

Every rank has a range of the next states, and all data or those of its range: it asks the policy
there, makes those rows of P, and differentiates by those outputs. What the rest of the estimator
sees is the whole P, so that Theorem 1, the certificate and Eq. (10) are written once for all.
"""

from dataclasses import replace
from functools import partial

from torch import Generator, Tensor

from nopg.bellman.problem import Problem
from nopg.bellman.responsibilities import (
    NO_HINT,
    Hint,
    IntegratedResponsibilities,
    Nodes,
    Outputs,
    PolicyRows,
    Responsibilities,
)
from nopg.linalg.ranks import ShardedRows


class ShardedResponsibilities(Responsibilities):
    """Rows at all next states, of which this rank makes its `own`; all make one."""

    def __init__(self, own: Responsibilities, problem: Problem) -> None:
        assert problem.ranks is not None
        n, group = len(problem.samples.rewards), problem.config.next_state_samples
        self._part = problem.ranks.part(n, group)
        self._where = (self._part, group, n, problem.ranks)
        if isinstance(own, IntegratedResponsibilities):
            own.nodes = partial(_own_nodes, own.nodes, n * group, self._part)
        self.rows, self._own = own.rows, own

    def evaluate(self, outputs: Outputs, generator: Generator, hint: Hint = NO_HINT) -> PolicyRows:
        """Rows for the policy whose `outputs` at this rank's queries are given."""
        part = self._own.evaluate(outputs, generator, hint)
        operator = ShardedRows(part.operator, *self._where)
        return replace(part, operator=operator, dropped=operator.gather_rows(part.dropped))

    def vjp(self, found: PolicyRows, q: Tensor, row_weights: Tensor) -> Outputs:
        """The gradient with respect to this rank's outputs; no message is needed."""
        assert isinstance(found.operator, ShardedRows)
        part = replace(found, operator=found.operator.own)
        return self._own.vjp(part, q, row_weights[self._part])


def _own_nodes(
    nodes: Nodes, n_rows: int, part: slice, means: Tensor, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Nodes for all rows, of which this rank keeps its own: the same as one process."""
    noise, shares = nodes(means.new_empty((n_rows, means.shape[1])), generator)
    return noise[:, part], shares[:, part]
