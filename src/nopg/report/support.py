"""How far the data carry the policy: support where it is predicted to go.

The kernel model asks about n next states and the initial states, always at the
action the policy takes there. How much each of them matters is its discounted
visitation; how well it is known are two numbers:

    distance    to the nearest sample (s, a), in bandwidths;
    effective   number of samples its row rests on, 1 / sum_j w_j^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

from nopg.algorithms.nopg.nopg import NOPG
from nopg.bellman.solution import BellmanSolution
from nopg.data.validation import FloatArray, IntArray
from nopg.linalg.operators import DenseRows, LinearOperator, SparseRows

REACH = 2.0
"""Bandwidths up to which a sample speaks for its surroundings: there its kernel has
fallen to exp(-2), and beyond it only the ratio of tiny numbers is left."""
FEW = 2.0
"""Effective samples below which noise in single rows is taken for truth."""


@dataclass(frozen=True)
class Support:
    """States the model asks about, how often, and how well they are known.

    Attributes:
        states: (m, d_s).
        actions: What the policy does there, (m, d_a), or labels (m,).
        visits: Share of all discounted visits, (m,), summing to one.
        distance: To the nearest sample, in bandwidths, (m,).
        effective: Samples the row rests on, (m,).
        n_starts: How many of the last rows are initial states.
    """

    states: FloatArray
    actions: FloatArray | IntArray
    visits: FloatArray
    distance: FloatArray
    effective: FloatArray
    n_starts: int

    @property
    def beyond(self) -> float:
        """Share of the visits farther than `REACH` from every sample."""
        return float(self.visits[self.distance > REACH].sum())

    @property
    def thin(self) -> float:
        """Share of the visits that rest on fewer than `FEW` samples."""
        return float(self.visits[self.effective < FEW].sum())

    def quantile(self, values: FloatArray, share: float) -> float:
        """The value that `share` of the visits stay below."""
        order = np.argsort(values)
        reached = np.cumsum(self.visits[order])
        at = min(int(np.searchsorted(reached, share)), len(order) - 1)
        return float(values[order[at]])

    def worst(self, count: int) -> IntArray:
        """Of the states that make up 95% of the visits, those farthest from data."""
        by_visits = np.argsort(-self.visits, kind="stable")
        needed = int(np.searchsorted(np.cumsum(self.visits[by_visits]), 0.95)) + 1
        visited = by_visits[:needed]
        far = np.argsort(-self.distance[visited], kind="stable")
        return np.asarray(visited[far[:count]])


def support_along_visits(model: NOPG) -> Support:
    """Support at every state the solved model asks about, with its visits."""
    solution = model.solution
    problem = solution.estimator.problem
    gamma = problem.config.gamma
    n_starts = problem.initial_rows.shape[0]
    later = gamma * solution.transition.spread(solution.mu.value.clamp(min=0.0))
    first = later.new_full((n_starts,), 1.0 / n_starts)
    visits = torch.cat([later, first]).double().cpu().numpy()
    states = problem.queries.double().cpu().numpy()
    actions = typical_actions(model, states)
    return Support(
        states=states,
        actions=actions,
        visits=visits / visits.sum(),
        distance=NearestSample(model).distance(states, actions),
        effective=_effective(solution),
        n_starts=n_starts,
    )


def typical_actions(model: NOPG, states: FloatArray) -> FloatArray | IntArray:
    """What the policy does, unclipped: the mean action, or the likeliest label."""
    like = next(model.policy.parameters())
    with torch.no_grad():
        actions = model.policy.act(torch.tensor(states).to(like)).cpu().numpy()
    is_label = actions.ndim == 1
    return np.asarray(actions if is_label else actions.astype(np.float64))


class NearestSample:
    """Distance to the nearest sample in bandwidths of state and action.

    A discrete action is matched exactly: only samples of the same label count.
    """

    def __init__(self, model: NOPG) -> None:
        data = model.setup.data
        assert data is not None
        self._h = np.array(model.bandwidths.state)
        states = data.observations / self._h  # an infinite bandwidth adds nothing
        self._is_discrete = data.is_discrete
        if data.is_discrete:
            labels = np.unique(data.actions)
            self._trees = {int(a): cKDTree(states[data.actions == a]) for a in labels}
            return
        self._h_action = np.array(model.bandwidths.action)
        points = np.hstack([states, data.actions / self._h_action])
        self._tree = cKDTree(points)

    def distance(
        self, states: FloatArray, actions: FloatArray | IntArray
    ) -> FloatArray:
        """To the nearest sample from each state and action, (m,)."""
        scaled = states / self._h
        if not self._is_discrete:
            points = np.hstack([scaled, actions / self._h_action])
            return np.asarray(self._tree.query(points)[0])
        found = np.full(len(states), np.inf)  # an action never tried is nowhere near
        for label, tree in self._trees.items():
            chosen = actions == label
            if chosen.any():
                found[chosen] = tree.query(scaled[chosen])[0]
        return found


def _effective(solution: BellmanSolution) -> FloatArray:
    """1 / sum_j w_j^2 of every row, (m,)."""
    squares = [
        _sum_of_squares(rows.operator)
        for rows in (solution.at_next, solution.at_initial)
    ]
    return np.asarray(1.0 / torch.cat(squares).double().cpu().numpy())


def _sum_of_squares(operator: LinearOperator) -> torch.Tensor:
    if isinstance(operator, SparseRows):
        lengths = operator.pattern.row_starts.diff().long()
        return torch.segment_reduce(operator.values.square(), "sum", lengths=lengths)
    assert isinstance(operator, DenseRows)
    return operator.matrix.square().sum(dim=1)
