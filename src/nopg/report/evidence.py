"""Everything the page is made from, asked of the policy once.

Kernels predict a distribution over logged next states at every step: clouds that no line joins.
"""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nopg.data.dataset import Dataset
from nopg.data.diagnostics.description import Description
from nopg.data.validation import BoolArray, FloatArray
from nopg.discount import discount_horizon
from nopg.errors import NopgWarning
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.rollouts import Rollouts, evenly_drawn
from nopg.evaluation.suggest import Suggestion
from nopg.evaluation.verdict import Grounds, Verdict
from nopg.fitted.history import History
from nopg.fitted.policy import FittedPolicy

N_PATHS = 40  # states drawn at each step, at most
MOST_PLACES = 6_000  # visited states that are looked at
LONGEST = 300  # steps looked ahead at most


@dataclass(frozen=True)
class PredictedPaths:
    """States at every step, from the start; not a number once a path has ended."""

    states: FloatArray  # drawn states, (k, T + 1, d_s)
    running: FloatArray  # probability that the task goes on after each step, (T + 1,)
    is_path: bool  # whether a row of `states` is one path; by kernels it is a draw at every step

    @property
    def horizon(self) -> int:
        """Steps looked ahead, T."""
        return len(self.running) - 1


class VisitedStates(NamedTuple):
    """States the policy is predicted to visit, and how often."""

    states: FloatArray  # (m, d_s)
    visits: FloatArray  # (m,), shares of all discounted visits


@dataclass(frozen=True)
class Evidence:
    """What the sentences and the pictures are made from."""

    policy: FittedPolicy  # the policy
    data: Dataset  # the transitions it was learned from
    history: History  # updates of NOPG; empty after a search, or where none are known
    verdict: Verdict  # go, caution or stop
    grounds: Grounds  # what the verdict was drawn from: estimate, comparison, replay
    suggestion: Suggestion  # where to record next
    visited: VisitedStates  # states the policy is predicted to visit
    paths: PredictedPaths  # predicted paths
    description: Description  # what `describe` says of the data

    @property
    def estimate(self) -> Estimate:
        """The expected return with its interval, by the evaluator that fits."""
        return self.grounds.estimate

    @property
    def is_by_models(self) -> bool:
        """Whether learned models evaluate the policy, and not the kernels."""
        return self.estimate.by == "model"


def gather(policy: FittedPolicy) -> Evidence:
    """Ask a policy everything its page tells."""
    # What these say is on the page, in its place.
    with warnings.catch_warnings(action="ignore", category=NopgWarning):
        grounds, rollouts = policy.grounds, policy.rollouts(horizon(policy.gamma))
        suggestion = policy.suggest(12)  # as many as the page lists
    assert policy.data is not None  # an estimate needs them
    visited = visited_states(rollouts, policy.gamma, ~policy.data.terminations)
    given = (policy, policy.data, policy.history or History(), policy.verdict(), grounds)
    described = policy.data.describe(policy.action_space)
    return Evidence(*given, suggestion, visited, predicted_paths(rollouts), described)


def horizon(gamma: float) -> int:
    """Steps until a reward counts a hundredth, at least 10 and at most `LONGEST`."""
    return int(np.clip(discount_horizon(gamma, 0.01), 10, LONGEST))


def predicted_paths(rollouts: Rollouts, n_paths: int = N_PATHS) -> PredictedPaths:
    """Draw states from rollouts, as many of each place as it has probability."""
    is_path = len(rollouts.states) > 1
    n_places, n_starts = rollouts.states.shape[1], len(rollouts.initial)
    n_paths = min(n_paths, n_places) if is_path else n_paths
    shares = (np.arange(n_paths) + 0.5) / n_paths
    states = np.full((n_paths, len(rollouts.weights) + 1, rollouts.states.shape[2]), np.nan)
    chosen = (shares * (n_places if is_path else n_starts)).astype(np.int64)
    # Paths are in the order of the starts, once for each of two models; in noise several a start.
    group = max(1, n_places // (2 * n_starts)) if is_path else 1
    states[:, 0] = rollouts.initial[chosen // group % n_starts]
    for step, weights in enumerate(rollouts.weights):
        drawn = chosen if is_path else np.searchsorted(np.cumsum(weights), shares)
        goes_on = weights[chosen] > 0.5 / n_places if is_path else drawn < n_places
        states[goes_on, step + 1] = rollouts.states[step % len(rollouts.states)][drawn[goes_on]]
    return PredictedPaths(states, np.append(1.0, rollouts.running), is_path)


def logged_paths(data: Dataset, n_steps: int) -> tuple[FloatArray, FloatArray] | None:
    """States (k, T + 1, d_s) and actions of recorded episodes, if there are any."""
    if data.episodes is None:
        return None
    names = np.unique(data.episodes)
    chosen = names[:: -(-len(names) // 12)]  # so many at most, spread over the log
    states = np.full((len(chosen), n_steps + 1, data.observations.shape[1]), np.nan)
    taken = data.actions.reshape(len(data), -1)
    actions = np.full((len(chosen), n_steps + 1, taken.shape[1]), np.nan)
    for k, name in enumerate(chosen):
        rows = np.nonzero(data.episodes == name)[0][: n_steps + 1]
        states[k, : len(rows)], actions[k, : len(rows)] = (data.observations[rows], taken[rows])
    return states, actions


def visited_states(rollouts: Rollouts, gamma: float, goes_on: BoolArray) -> VisitedStates:
    """Every place of rollouts with its share of the discounted visits."""
    # By kernels the policy does not act after the rows that do not go on, (n,).
    states, visits = rollouts.visits(gamma)
    if rollouts.by == "kernel":
        visits[: len(goes_on)] *= goes_on
    if (visits > 0.0).sum() > MOST_PLACES:
        visits = np.bincount(evenly_drawn(visits, MOST_PLACES), minlength=len(visits)).astype(float)
    is_visited = visits > 0.0
    return VisitedStates(states[is_visited], visits[is_visited] / visits.sum())
