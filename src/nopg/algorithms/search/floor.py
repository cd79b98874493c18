"""Never below the data: a policy cloned from the best episodes is the least there is.

A search is only as good as the models it was made in; whoever made the log was there.
So what the better of the recorded episodes did is cloned, and a policy has to be shown
better than the clone to be kept. Of actions that were left to chance there is nothing
to clone. Episodes were recorded to their end, and so far both are followed, whatever
the discount of the task.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from nopg.algorithms.search.candidates import cloned_candidate
from nopg.data.dataset import Dataset
from nopg.dynamics.replays import Rows, consecutive
from nopg.dynamics.transition_model import regression_actions
from nopg.evaluation.comparison import difference_of_returns
from nopg.evaluation.model import ModelEvaluator, mean_and_spread
from nopg.evaluation.verdict import LIKELY, RARE
from nopg.policies.arrays import Array, actor_of
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy

logger = logging.getLogger(__name__)

MAX_ROWS, N_NEAREST = 4_000, 3
"""Rows that are asked whether actions were deliberate, and neighbours that answer."""
HIDDEN = (64, 64)
"""Layers of the clone: an operator's switch between swinging and holding is lost in a
single one."""


@dataclass(frozen=True)
class Floor:
    """A policy cloned from the better episodes, and how others are held against it."""

    clone: Policy
    spec: PolicySpec | None  # how to build it again
    best: Dataset  # rows of these episodes
    gamma: float  # with which returns are compared
    n_steps: int  # over how many steps: the median length of an episode

    @classmethod
    def of(
        cls, data: Dataset, fresh: Policy, spec: PolicySpec | None, gamma: float
    ) -> Floor | None:
        """From logged episodes; None if there is nothing to be cloned.

        Args:
            data: Logged transitions.
            fresh: An untrained policy with layers of `HIDDEN`.
            spec: How to build it again.
            gamma: Discount factor of the task.
        """
        every = consecutive(data, np.ones(len(data), dtype=bool))
        runs = [run for run in every if len(run) > 1]
        if len(runs) < 2:
            logger.info(
                "No policy is cloned from the best episodes: that takes two episodes "
                "of several rows, these data have %d.",
                len(runs),
            )
            return None
        n_steps = int(np.median([len(run) for run in runs]))
        gamma = max(gamma, 1.0 - 1.0 / n_steps)
        whole = ranked(data, runs, gamma, n_steps)
        returns = [earned for earned, _ in whole]
        level = 0.5 * (min(returns) + max(returns))
        better = [run for earned, run in whole if earned >= level]
        explained = explained_share(data, better if len(better) > 1 else runs)
        if explained <= LIKELY:
            logger.info(
                "No policy is cloned: like states of other episodes explain %.0f%% of "
                "the actions, that takes more than half.",
                100.0 * max(explained, 0.0),
            )
            return None
        best = data.subset(np.sort(np.concatenate(better)))
        clone = cloned_candidate(best, fresh, is_close=True).policy
        return cls(clone, spec, best, gamma, n_steps)

    def is_beaten(
        self, evaluator: ModelEvaluator, policy: Policy, starts: Array
    ) -> tuple[bool, float]:
        """Whether a policy is kept in place of the clone, and its risk of being worse.

        Both are rolled out from the same starts in the same models, drawn ones too, and
        in the same gusts.
        """
        if evaluator.gamma != self.gamma:
            evaluator = replace(evaluator, gamma=self.gamma)
        lengths = np.full(len(starts), float(self.n_steps))
        actors = (actor_of(policy), actor_of(self.clone))
        ours, theirs = (evaluator.mean_return(one, starts, lengths) for one in actors)
        both = difference_of_returns(ours, theirs)
        difference, spread = mean_and_spread(both, evaluator.scale)
        worse = float(spread.probability_below(difference, 0.0)[0])
        return worse <= RARE, worse


def ranked(
    data: Dataset, runs: list[Rows], gamma: float, n_steps: int
) -> list[tuple[float, Rows]]:
    """Discounted return of the first steps of each episode, and its rows.

    Whose recording stopped before is left out: what would have followed is not known.
    """
    found = []
    for run in runs:
        if len(run) >= n_steps or data.terminations[run[-1]]:
            rewards = data.rewards[run[:n_steps]]
            found.append((float(gamma ** np.arange(len(rewards)) @ rewards), run))
    return found


def explained_share(data: Dataset, runs: list[Rows]) -> float:
    """Share of the variance of actions that like states of other episodes explain.

    By the mean action at the nearest of their rows. Chance explains nothing, and what
    is held for some steps is only known within an episode.
    """
    from scipy.spatial import cKDTree

    states = np.array(data.observations, dtype=np.float64)
    spread = states.std(axis=0)
    states = states / np.where(spread > 0.0, spread, 1.0)
    actions = regression_actions(data).numpy()
    rows = np.concatenate(runs)
    episode = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    asked = np.arange(len(rows))[:: -(-len(rows) // MAX_ROWS)]
    missed = np.empty((len(asked), actions.shape[1]))
    for name in np.unique(episode[asked]):
        ours, others = asked[episode[asked] == name], rows[episode != name]
        count = min(N_NEAREST, len(others))
        tree = cKDTree(states[others])
        _, nearest = tree.query(states[rows[ours]], k=range(1, count + 1))
        expected = actions[others[nearest]].mean(axis=1)
        missed[episode[asked] == name] = actions[rows[ours]] - expected
    variance = actions[rows].var(axis=0).sum()
    return float(1.0 - np.square(missed).mean(axis=0).sum() / max(variance, 1e-300))
