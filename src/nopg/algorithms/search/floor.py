"""Never below the data: a policy cloned from the best episodes is the least there is.

A search is only as good as the models it was made in; whoever made the log was there.
So what the best of the recorded episodes did is cloned. Where the clone does as well in
the models as those episodes did, a policy has to be shown better to be kept. Where it
does not, as a clone of random actions or of a skill that takes more than a clone, it
is a candidate like others, and the likelier one is kept.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from nopg.algorithms.search.candidates import cloned_candidate
from nopg.data.dataset import Dataset
from nopg.evaluation.comparison import difference_of_returns
from nopg.evaluation.model import ModelEvaluator, mean_and_spread
from nopg.evaluation.verdict import LIKELY, RARE
from nopg.evaluation.windows import Rows, consecutive
from nopg.policies.arrays import Array, actor_of
from nopg.policies.families import Policy

logger = logging.getLogger(__name__)

N_ROWS, N_STEPS = 2_000, 1_500
"""Rows that are cloned, a random part of more, and steps of Adam: a second or two."""


@dataclass(frozen=True)
class Floor:
    """A policy cloned from the best episodes, and what makes an episode one of them."""

    clone: Policy
    level: float  # discounted return halfway from the median episode to the best

    @classmethod
    def of(
        cls,
        data: Dataset,
        fresh: Policy,
        gamma: float,
        generator: np.random.Generator,
    ) -> Floor | None:
        """From logged episodes; None if there are fewer than two of several rows."""
        every = consecutive(data, np.ones(len(data), dtype=bool))
        runs = [run for run in every if len(run) > 1]
        if len(runs) < 2:
            logger.info(
                "No policy is cloned from the best episodes: that takes two episodes "
                "of several rows, these data have %d.",
                len(runs),
            )
            return None
        earned = episode_returns(data, runs, gamma)
        level = 0.5 * float(np.median(earned) + earned.max())
        best = [run for run, value in zip(runs, earned, strict=True) if value >= level]
        rows = generator.permutation(np.concatenate(best))[:N_ROWS]
        some = data.subset(np.sort(rows))
        return cls(cloned_candidate(some, fresh, N_STEPS).policy, level)

    def is_beaten(
        self, evaluator: ModelEvaluator, policy: Policy, starts: Array
    ) -> tuple[bool, float]:
        """Whether a policy is kept in place of the clone, and its risk of being worse.

        Both are rolled out from the same starts in the same models, drawn ones too, and
        in the same gusts.
        """
        actors = (actor_of(policy), actor_of(self.clone))
        ours, theirs = (evaluator.mean_return(actor, starts) for actor in actors)
        both = difference_of_returns(ours, theirs)
        difference, spread = mean_and_spread(both, evaluator.scale)
        worse = float(spread.probability_below(difference, 0.0)[0])
        is_skilled = float(theirs.runs.mean()) >= self.level
        return worse <= (RARE if is_skilled else LIKELY), worse


def episode_returns(data: Dataset, runs: list[Rows], gamma: float) -> Array:
    """Discounted return of each run of rows, (E,).

    Where only the recording stopped, what might have followed counts as much as an
    episode of this log on average.
    """
    lengths = np.array([len(run) for run in runs])
    earned = np.array(
        [gamma ** np.arange(len(run)) @ data.rewards[run] for run in runs]
    )
    is_cut = ~data.terminations[[run[-1] for run in runs]]
    left = is_cut * gamma ** lengths.astype(np.float64)
    average = earned.mean() / (1.0 - left.mean())
    return np.asarray(earned + left * average)
