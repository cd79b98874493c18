"""The ways a search finds policies: planning in the learned system, and climbing J."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.nopg.training import Training
from nopg.algorithms.search.distillation import distil
from nopg.algorithms.search.planning import ActionOutcomes, actions_to_try
from nopg.data.dataset import Dataset
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from nopg.errors import SupportWarning
from nopg.fitted.history import History, Update
from nopg.fitted.search_result import CLIMBS, PLANS, Way
from nopg.kernels.selection import LeaveOneOut
from nopg.policies.arrays import Array
from nopg.policies.base import Policy
from nopg.randomness import Seed

N_CLIMBED = 2000
"""Samples a ascend rests on; a random part of more. What it finds is refined on all."""
TRAINING_LISTS = {"tolerance": 1e-3, "max_neighbours": 192}
"""Shorter neighbour lists while searching; the policy kept has complete ones."""


@dataclass(frozen=True)
class Found:
    """A policy, how it was found, and what happened on the way up."""

    way: Way
    policy: Policy
    history: History | None = None


def planned(
    model: TransitionModel, data: Dataset, policy: Policy, gamma: float, seed: int
) -> Iterator[Found]:
    """Plan in the learned system in each way, and teach a policy each plan.

    Args:
        model: The learned system.
        data: What it was learned from.
        policy: An untrained one; each plan is taught to a copy.
        gamma: Discount factor of the task.
        seed: Seed of every draw.
    """
    actions = regression_actions(data).numpy()
    tried = actions_to_try(actions, Seed(seed).numpy("planned-actions"))
    states = np.asarray(data.observations, dtype=np.float64)
    outcomes = ActionOutcomes.of(model, states, tried, Seed(seed).numpy("places"))
    for way in PLANS:
        pupil = copy.deepcopy(policy)
        distil(pupil, outcomes.value_iteration(way.gamma(gamma), way.hold))
        yield Found(way, pupil)


def climbed(
    data: Dataset,
    starts: Array,
    n_updates: int,
    common: dict[str, Any],
    seed: int,
    bar: Any,
) -> Iterator[Found]:
    """Climb J of the kernels along Eq. (10), looking as far as the task and less far.

    Args:
        data: Logged transitions.
        starts: Where the task starts, (B, d_s).
        n_updates: Updates of each ascend.
        common: Settings of `NOPG`.
        seed: Seed of every draw.
        bar: Told every update.

    Raises:
        KeyboardInterrupt: At Ctrl-C, after the policy reached so far.
    """

    def advance(model: NOPG, update: Update) -> None:
        bar.set_postfix_str(f"J={update.objective:.4g}", refresh=False)
        bar.update()

    if len(data) > N_CLIMBED:
        rows = Seed(seed).numpy("climbed-rows").permutation(len(data))[:N_CLIMBED]
        data = data.subset(np.sort(rows))
    common = common | TRAINING_LISTS
    base = NOPG(bandwidths=LeaveOneOut(), seed=seed, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # it was said of all the data
        base.prepare(data, starts)
    for i, way in enumerate(CLIMBS):
        own = {"gamma": way.gamma(common["gamma"]), "seed": seed + i}
        one = NOPG(bandwidths=base.bandwidths, **(common | own))
        one.prepare_like(base)
        history = Training(one, n_updates).run(callback=advance, progress=False)
        if len(history):
            yield Found(way, one.policy, history)
        if history.stopped == "interrupted":
            raise KeyboardInterrupt
