"""How a search finds candidates: planning in the learned model, and gradient ascent."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.search.distillation import distil
from nopg.algorithms.search.planning import (
    ActionOutcomes,
    DistillationTargets,
    actions_to_try,
)
from nopg.bellman.problem import NADARAYA_WATSON
from nopg.data.dataset import Dataset
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from nopg.errors import NopgWarning, SupportWarning
from nopg.fitted.history import Update
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.search_result import ASCENT, CLONING, PLANNING, CandidateMethod
from nopg.kernels.bandwidths import LeaveOneOut
from nopg.policies.arrays import Array
from nopg.policies.families import Policy
from nopg.randomness import Seed

PLANS = (
    CandidateMethod(PLANNING),
    CandidateMethod(PLANNING, short_horizon=True),
    CandidateMethod(PLANNING, action_repeat=4),
    CandidateMethod(PLANNING, action_repeat=8),
    CandidateMethod(PLANNING, action_repeat=8, short_horizon=True),
)
ASCENTS = (CandidateMethod(ASCENT), CandidateMethod(ASCENT))
"""Two ascents, from policies of different seeds."""
N_ASCENT_ROWS = 2000
"""Samples an ascent rests on, a random part of more; refinement uses all of them."""
SHORT_LISTS = {
    "rows": NADARAYA_WATSON,
    "stochastic": "paper",
    "tolerance": 1e-3,
    "max_neighbours": 192,
}
"""Plain rows and short lists: an ascent only has to find a start for refinement, and
blur helps it to see far."""


@dataclass(frozen=True)
class FoundPolicy:
    """A policy and how it was found."""

    method: CandidateMethod
    policy: Policy


def planned_candidates(
    model: TransitionModel, data: Dataset, policy: Policy, gamma: float, seed: int
) -> Iterator[FoundPolicy]:
    """Fitted value iteration in the learned model, distilled into a policy each time.

    Args:
        model: The learned model.
        data: What it was learned from.
        policy: An untrained one; each plan is distilled into a copy.
        gamma: Discount factor of the task.
        seed: Seed of every draw.
    """
    actions = regression_actions(data).numpy()
    tried = actions_to_try(actions, Seed(seed).numpy("planned-actions"))
    states = np.asarray(data.observations, dtype=np.float64)
    outcomes = ActionOutcomes.of(model, states, tried, Seed(seed).numpy("places"))
    for method in PLANS:
        student = copy.deepcopy(policy)
        targets = outcomes.value_iteration(method.gamma(gamma), method.action_repeat)
        distil(student, targets)
        yield FoundPolicy(method, student)


def cloned_candidate(
    data: Dataset, policy: Policy, is_close: bool = False
) -> FoundPolicy:
    """Behaviour cloning: a policy that does what was done in the log.

    Among states that hold their past, anchors and kernels are too far apart for plans
    and ascents to get anywhere near the data. Who made the log was there, and
    refinement goes on from there.
    """
    actions, student = regression_actions(data).numpy(), copy.deepcopy(policy)
    states = np.array(data.observations, dtype=np.float64)
    targets = DistillationTargets(states, actions, np.ones(len(data)), 1)
    distil(student, targets, is_close)
    return FoundPolicy(CandidateMethod(CLONING), student)


def ascent_candidates(
    data: Dataset,
    starts: Array,
    n_updates: int,
    settings: Mapping[str, Any],
    seed: int,
    advance: Callable[[str], None],
) -> Iterator[FoundPolicy]:
    """Gradient ascent on the kernel estimate of the return, Eq. (10).

    Args:
        data: Logged transitions.
        starts: Where the task starts, (B, d_s).
        n_updates: Updates of each ascent.
        settings: Settings of `NOPG`.
        seed: Seed of every draw.
        advance: Told every update, with a text for the progress bar.

    Raises:
        KeyboardInterrupt: At Ctrl-C, after the policy reached so far.
    """

    def show(_: FittedPolicy, update: Update) -> None:
        advance(f"J={update.objective:.4g}")

    if len(data) > N_ASCENT_ROWS:
        rows = Seed(seed).numpy("climbed-rows").permutation(len(data))[:N_ASCENT_ROWS]
        data = data.subset(np.sort(rows))
    settings = {**settings, **SHORT_LISTS}
    first: NOPG | None = None
    for i, method in enumerate(ASCENTS):
        one = NOPG(bandwidths=LeaveOneOut(), **{**settings, "seed": seed + i})
        with warnings.catch_warnings():
            # `learn` speaks of its starts itself, and lists are short on purpose.
            warnings.simplefilter("ignore", SupportWarning)
            warnings.filterwarnings("ignore", "Rows of P may drop", NopgWarning)
            found = (
                one.prepare(data, starts) if first is None else one.prepare_like(first)
            )
            first = first or one
            history = one.training(n_updates).run(callback=show, progress=False)
        if history.updates:
            yield FoundPolicy(method, found.policy)
        if history.stopped == "interrupted":
            raise KeyboardInterrupt
