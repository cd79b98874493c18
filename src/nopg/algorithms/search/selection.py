"""Which policy is kept: the best candidate in the learned models, never below the data.

A search is only as good as the models it was made in; whoever made the log was there. So what the
better of the recorded episodes did is cloned, and a policy has to be shown better than the clone to
be kept. Of actions that were left to chance there is nothing to clone. Episodes were recorded to
their end, and so far both are followed, whatever the discount of the task.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from nopg.algorithms.search import refinement
from nopg.algorithms.search.candidates import FoundPolicy, cloned_candidate
from nopg.algorithms.search.checkpoint import SearchCheckpoint
from nopg.algorithms.search.distillation import MAX_STEPS
from nopg.data.dataset import Dataset
from nopg.dynamics.replays import Rows, consecutive
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from nopg.evaluation.comparison import difference_of_returns
from nopg.evaluation.model import ModelEvaluator, Returns, mean_and_spread
from nopg.evaluation.verdict import LIKELY, RARE
from nopg.fitted.history import CLONING, Candidate, CandidateMethod, SearchResult
from nopg.policies.arrays import Array, actor_of
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy
from nopg.threads import parallel_map

logger = logging.getLogger(__name__)

MAX_ROWS, N_NEAREST, N_FOLDS = 4_000, 3, 10
"""Rows that are asked whether actions were deliberate, and neighbours that answer."""
MIN_STARTS, MAX_STARTS, START_PRODUCTS = 20, 200, 1_000_000
"""Starts of the last estimates at least, at most (every episode of a large log has
one), and the products of their steps: less of them where a step costs more."""
NEARLY = 0.1  # share of the most there is to earn that plans to be refined at once may lack
HIDDEN = (64, 64)  # of the clone: one layer loses an operator's switch from swinging to holding


@dataclass(frozen=True)
class Floor:
    """A policy cloned from the better episodes, and how others are held against it."""

    clone: Policy
    spec: PolicySpec | None  # how to build it again
    best: Dataset  # rows of these episodes
    gamma: float  # with which returns are compared
    n_steps: int  # over how many steps: the median length of an episode
    earned: float  # mean return of these episodes, as they were recorded

    @classmethod
    def of(cls, data: Dataset, fresh: Policy, spec: PolicySpec | None, gamma: float) -> Self | None:
        """From logged episodes; None if there is nothing to be cloned.

        `fresh` is an untrained policy with layers of `HIDDEN`.
        """
        runs = [run for run in consecutive(data, np.ones(len(data), dtype=bool)) if len(run) > 1]
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
        clone = cloned_candidate(best, fresh, MAX_STEPS).policy
        earned = float(np.mean([earned for earned in returns if earned >= level]))
        return cls(clone, spec, best, gamma, n_steps, earned)

    def is_beaten(self, model: ModelEvaluator, policy: Policy, starts: Array) -> tuple[bool, float]:
        """Whether a policy is kept in place of the clone, and its risk of being worse.

        Both are rolled out from the same starts in the same models, drawn ones too, and in the same
        gusts. Models without a part of the data do not vote: of one swing more or less a jackknife
        makes several times what drawn models do.
        """
        if model.gamma != self.gamma:
            model = replace(model, gamma=self.gamma)
        lengths = np.full(len(starts), float(self.n_steps))
        actors = (actor_of(policy), actor_of(self.clone))
        ours, theirs = (model.mean_return(one, starts, lengths) for one in actors)
        worse = _probability_below(difference_of_returns(ours, theirs), model, 0.0)
        if worse <= RARE or theirs.unknown <= RARE:
            return worse <= RARE, worse
        # Models end on the clone's way. What was recorded is known; but so far as the clone does
        # not stay there it need not earn that, either, and the likelier of the two is kept.
        worse = _probability_below(ours, model, self.earned)
        return worse <= RARE + (0.5 - RARE) * theirs.unknown, worse


@dataclass
class Selection:
    """The learned models, and what they expect of the candidates so far."""

    models: Sequence[TransitionModel]
    starts: Array  # of the task, and others that candidates are rolled out from, (B, d_s)
    gamma: float
    worst_share: float = 1.0  # share of the rollouts whose mean return counts
    found: list[FoundPolicy] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)  # what is expected of each

    def estimated(self, one: FoundPolicy) -> Candidate:
        """What is expected of a candidate: a first estimate from a few starts."""
        asked = ([one.policy], refinement.search_starts(self.models[0], self.starts), self.gamma)
        (estimate,) = refinement.model_estimates(self.models, *asked, worst_share=self.worst_share)
        return Candidate(one.method, estimate)

    def add(self, one: FoundPolicy, expected: Candidate | None = None) -> None:
        """Take a candidate, and what is expected of it."""
        self.candidates.append(expected or self.estimated(one))
        self.found.append(one)

    @property
    def best(self) -> Policy:
        """The best so far."""
        return self.found[self.choose().chosen].policy

    def is_optimal(self) -> bool:
        """Whether the best so far leave nothing to be gained, not even late."""
        values = [one.first.value for one in self.candidates]
        if max(values, default=-np.inf) < refinement.attainable_return(self.models[0], self.gamma):
            return False
        for n_starts in (refinement.N_STARTS, MAX_STARTS):  # most that fail do from a few
            self._estimate_best(values, n_starts)
            if not self._earns_all():
                return False
        return True

    def refined_is_optimal(self, n: int, n_updates: int, advance: Any) -> bool:
        """Whether the first n, if they earn nearly all there is, earn all of it once refined."""
        values = [one.first.value for one in self.candidates[:n]]
        most = refinement.attainable_return(self.models[0], self.gamma)
        is_near = max(values, default=-np.inf) >= most - NEARLY * abs(most)
        if not is_near or n_updates == 0 or self.models[0].noise is not None:
            return False
        self.refine_all(n_updates, advance, n=n)
        return self._earns_all()

    def refine_all(
        self,
        n_updates: int,
        advance: Any,
        kept: SearchCheckpoint | None = None,
        n: int | None = None,
    ) -> None:
        """Improve every policy in place, or the first n, and estimate the best once more."""
        policies = [one.policy for one in self.found[:n]]
        values = [one.first.value for one in self.candidates[:n]]
        stored = () if kept is None else (kept.refinement, kept.refine)
        show = "refinement, J={:.4g}".format
        rest = (self.starts, self.gamma, n_updates, lambda v: advance(show(v)), self.worst_share)
        try:
            if n_updates > 0:
                values = refinement.refine(self.models, policies, *rest, *stored)
        finally:  # an interrupt leaves each as good as it became
            self._estimate_best(values)

    def _earns_all(self) -> bool:
        last = max(one.final.value for one in self.candidates if one.refined)
        weight = refinement.FINAL_WEIGHT
        return last >= refinement.attainable_return(self.models[0], self.gamma, weight)

    def choose(self) -> SearchResult:
        """The best candidate: of those estimated at length, where there are any."""
        asked = [i for i, one in enumerate(self.candidates) if one.refined is not None]
        some = asked or range(len(self.candidates))
        best = max(some, key=lambda i: self.candidates[i].final.value)
        return SearchResult(self.candidates, best)

    def not_below(self, floor: Floor, evaluator: ModelEvaluator, starts: Array) -> SearchResult:
        """The best candidate, or the clone of the log if that is not beaten."""
        search = self.choose()
        policy = self.found[search.chosen].policy
        try:
            is_beaten, worse = floor.is_beaten(evaluator, policy, starts)
        except (KeyboardInterrupt, MemoryError):
            logger.warning("Interrupted; the policy found is kept, unlike the log's.")
            return search
        if is_beaten:
            return search
        logger.warning(
            "The best policy found is worse than one cloned from the best episodes "
            "with a probability of %.2g; the clone is kept. Record more to learn more.",
            worse,
        )
        self.add(FoundPolicy(CandidateMethod(CLONING), floor.clone))
        return SearchResult(self.candidates, len(self.candidates) - 1)

    def _estimate_best(self, values: Sequence[float], n_starts: int = MAX_STARTS) -> None:
        """A last estimate of those of the highest values: long, from most starts."""
        # And of the best as they were found: refinement is from few starts, and may be for these.
        best = sorted(range(len(values)), key=lambda i: -values[i])[: refinement.N_KEPT]
        first = max(range(len(values)), key=lambda i: self.candidates[i].first.value)
        best += [first] * (first not in best)
        policies = [self.found[i].policy for i in best]
        affordable = START_PRODUCTS // max(1, self.models[0].process.n_products)
        every = -(-len(self.starts) // min(max(affordable, MIN_STARTS), n_starts))  # rounded up
        starts, negligible = self.starts[::every], refinement.FINAL_WEIGHT
        if self.models[0].noise is not None:
            starts = refinement.search_starts(self.models[0], starts, refinement.N_FINAL_PATHS)
            negligible = refinement.NOISY_FINAL_WEIGHT
        rest = (starts, self.gamma, negligible, self.worst_share)
        estimates = refinement.model_estimates(self.models, policies, *rest)
        # An earlier estimate may be of a policy that has changed since.
        self.candidates = [replace(one, refined=None) for one in self.candidates]
        for i, estimate in zip(best, estimates, strict=True):
            self.candidates[i] = replace(self.candidates[i], refined=estimate)


def _probability_below(found: Returns, evaluator: ModelEvaluator, limit: float) -> float:
    """How likely the mean return lies below a limit, by drawn models alone."""
    # Drawn models may agree that it is more, or less, than the two say: around their own mean.
    middle = found.deviations.mean(axis=0)
    found = found._replace(runs=found.runs + middle, deviations=found.deviations - middle)
    mean, spread = mean_and_spread(found, evaluator.scale)
    return float(replace(spread, left_out=None).probability_below(mean, limit)[0])


def ranked(data: Dataset, runs: list[Rows], gamma: float, n_steps: int) -> list[tuple[float, Rows]]:
    """Discounted return of the first steps of each episode, and its rows."""
    # Whose recording stopped before is left out: what would have followed is not known.
    found = []
    for run in runs:
        if len(run) >= n_steps or data.terminations[run[-1]]:
            rewards = data.rewards[run[:n_steps]]
            found.append((float(gamma ** np.arange(len(rewards)) @ rewards), run))
    return found


def explained_share(data: Dataset, runs: list[Rows]) -> float:
    """Share of the variance of actions that like states of other episodes explain.

    By the mean action at the nearest of their rows. Chance explains nothing, and what is held for
    some steps is only known within an episode.
    """
    from scipy.spatial import cKDTree

    states = np.array(data.observations, dtype=np.float64)
    spread = states.std(axis=0)
    states = states / np.where(spread > 0.0, spread, 1.0)
    actions, rows = regression_actions(data).numpy(), np.concatenate(runs)
    episode = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    asked = np.arange(len(rows))[:: -(-len(rows) // MAX_ROWS)]
    fold = episode % N_FOLDS  # a tree for each of many episodes takes long

    def missed(name: int) -> Array:
        ours, others = rows[asked[fold[asked] == name]], rows[fold != name]
        count = min(N_NEAREST, len(others))
        _, nearest = cKDTree(states[others]).query(states[ours], k=range(1, count + 1))
        return np.asarray(np.square(actions[ours] - actions[others[nearest]].mean(axis=1)))

    errors = np.concatenate(parallel_map(missed, np.unique(fold[asked]).tolist()))
    return float(1.0 - errors.mean(axis=0).sum() / max(actions[rows].var(axis=0).sum(), 1e-300))
