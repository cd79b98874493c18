"""Rows, and maybe the data, that are shared out over ranks.

Every rank has a range of the next states: it asks the policy there, makes those rows of P, and
differentiates by those outputs. The rest of the estimator sees the whole P, and is written once.

Where ranks share the data too, each has all actions and vectors of the solves, which rows of P ask
for by number. States and lists are of its part, others passed round. Choices rest on one sample.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from nopg.bellman import responsibilities as families
from nopg.bellman.problem import Problem
from nopg.bellman.responsibilities import NO_HINT, Hint, Outputs, PolicyRows, Responsibilities
from nopg.bellman.samples import ArcCoordinates, Samples
from nopg.data.dataset import Dataset
from nopg.linalg.ranks import Ranks, ShardedRows

SEEN = 100_000  # rows that choices rest on; if there are no more these are all, in order


class ShardedResponsibilities(Responsibilities):
    """Rows at all next states, of which this rank makes its `own`; all make one."""

    def __init__(self, own: Responsibilities, problem: Problem) -> None:
        assert problem.ranks is not None
        n, group = len(problem.samples.rewards), problem.config.next_state_samples
        self._part = problem.ranks.part(n, group)
        self._where = (self._part, group, n, problem.ranks)
        if isinstance(own, families.IntegratedResponsibilities):
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
    nodes: families.Nodes, n_rows: int, part: slice, means: Tensor, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Nodes for all rows, of which this rank keeps its own: the same as one process."""
    noise, shares = nodes(means.new_empty((n_rows, means.shape[1])), generator)
    return noise[:, part], shares[:, part]


def joined_parts(
    data: Any, ranks: Ranks | None, dtype: torch.dtype, device: str, settings: object = None
) -> tuple[Samples, Dataset]:
    """Samples as this process holds them, and the data that choices rest on."""
    if ranks is None or not ranks.shares_data:
        return Samples.of(data, dtype, device), data
    ranks = replace(ranks, sizes=ranks.told(len(data or ()), device))
    part = ranks.part(sum(ranks.sizes))  # an empty one is refused
    names = ("observation_names", "action_names", "is_discrete", "history", "action_space")
    alike = (settings, *data.arrays(), *(getattr(data, name) for name in names))
    ranks.require_same(repr(alike), "columns and settings", device)
    own, seen = Samples.of(data, dtype, device), _seen(data, ranks, device)
    order = torch.arange(len(data), device=device) if own.order is None else own.order
    parts = {name: getattr(own, name) for name in ("actions", "rewards", "continuation")}
    parts["order"] = order + part.start
    whole: dict[str, Any] = {name: ranks.gather(x, ranks.sizes) for name, x in parts.items()}
    n_actions = seen.n_actions if seen.is_discrete else 0
    samples = replace(own, **whole, n_actions=n_actions, ranks=ranks)
    vars(samples)["arcs"] = ArcCoordinates.of(torch.tensor(seen.observations).to(own.states))
    return samples, seen


def _seen(data: Dataset, ranks: Ranks, device: str) -> Dataset:
    """Rows of all parts: some evenly spread, the first of episodes, and the ends of actions."""
    n, size, actions = sum(ranks.sizes), len(data), data.actions.reshape(len(data), -1)
    spread = np.linspace(0, size - 1, size * min(SEEN, n) // n).round().astype(int)
    rows = [*spread, *actions.argmin(axis=0), *actions.argmax(axis=0)]
    if data.episodes is not None:  # whose numbers are those of one part
        rows += [*np.unique(data.episodes, return_index=True)[1]]
        data = replace(data, episodes=data.episodes * ranks.size + ranks.rank)
    own = data.subset(np.unique(rows)).arrays()
    counts, whole = ranks.told(len(own["rewards"]), device), dict[str, Any]()
    for name, array in own.items():
        whole[name] = ranks.gather(torch.tensor(array, device=device), counts).cpu().numpy()
    return replace(data, **whole)
