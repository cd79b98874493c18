"""`nopg.learn`: plans and climbs, a second opinion on each policy, the best refined.

A policy that climbs an estimate of J finds its errors too. Where data are thin, J of
the kernels may be high and the real return bad, and no single rule for bandwidths
avoids it on every task; and a gradient finds the nearest hill only. So policies are
found in several ways; two learned models of the system, whose errors are of another
kind, are asked about each; and those they believe in are refined on them.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from nopg.data.dataset import Dataset
from nopg.dynamics.pair import learned_pair, regression_actions
from nopg.dynamics.planning import Outlook, actions_to_try
from nopg.dynamics.stepping import Array
from nopg.dynamics.transitions import TransitionModel
from nopg.errors import ConfigError, NopgWarning
from nopg.kernels.selection import LeaveOneOut
from nopg.learning.candidates import CLIMBS, PLANS, Candidate, Search, Way
from nopg.learning.history import History, Update
from nopg.learning.imitating import imitate
from nopg.learning.model import NOPG
from nopg.learning.refining import LONG, N_STARTS, opinions, refine
from nopg.learning.session import Training
from nopg.policies.base import Policy
from nopg.randomness import Seed

logger = logging.getLogger(__name__)

N_REFINED = 3
"""Policies refined: the best in the second opinion."""
MAX_DOUBT = 0.75
"""Mean doubt above which the second opinion itself is not to be trusted."""
TRAINING_LISTS = {"tolerance": 1e-3, "max_neighbours": 192}
"""Shorter neighbour lists while searching; the policy kept has complete ones."""


def learn(
    data: Dataset,
    initial_states: Any = None,
    *,
    policy: str = "deterministic",
    gamma: float = 0.99,
    n_updates: int = 200,
    n_refining: int = 100,
    action_space: Any = None,
    seed: int = 0,
    progress: bool = True,
    **settings: Any,
) -> NOPG:
    """Learn a policy with nothing to tune, and cross-check it before it is kept.

    Args:
        data: Logged transitions.
        initial_states: Where the task starts, (B, d_s); by default the first state of
            each episode.
        policy: "deterministic", "stochastic" or "discrete".
        gamma: Discount factor in (0, 1).
        n_updates: Updates of each climb along the gradient of Eq. (10).
        n_refining: Updates of the best candidates on the learned model; 0 for none.
        action_space: Gymnasium space of the actions; by default that of the data.
        seed: Seed of every draw.
        progress: Show a bar.
        settings: Any other setting of `NOPG`, except `bandwidths`.

    Returns:
        A fitted model; `model.search` says what was tried. Ctrl-C ends the search and
        keeps the best policy so far.
    """
    common = {"policy": policy, "gamma": gamma, "action_space": action_space}
    common |= settings
    _require_known(common, n_refining)
    base = NOPG(bandwidths=LeaveOneOut(), seed=seed, **(common | TRAINING_LISTS))
    base.prepare(data, initial_states)
    with tqdm(
        total=len(PLANS) + len(CLIMBS) * n_updates + n_refining,
        disable=not progress,
        desc="NOPG",
    ) as bar:
        models = learned_pair(data, Seed(seed).numpy("transition-model"))
        found: list[_Found] = []
        try:
            _plan(found, base, data, models[0], gamma, seed, bar)
            _climb(found, base, n_updates, common, seed, bar)
        except KeyboardInterrupt:
            if not found:
                raise
            n_refining = 0
            logger.warning("Interrupted; the best policy so far is kept.")
        policies, starts = [one.policy for one in found], _starts(base)
        views = opinions(models, policies, starts[:N_STARTS], gamma, LONG)
        pairs = zip(found, views, strict=True)
        search = Search([Candidate(one.way, view) for one, view in pairs])
        if n_refining > 0:
            _refine_best(search, policies, models, starts, gamma, n_refining, bar)
    return _keep(search, found, base, data, initial_states, common)


@dataclass(frozen=True)
class _Found:
    """A policy, how it was found, and what happened on the way up."""

    way: Way
    policy: Policy
    history: History | None = None


def _require_known(common: dict[str, Any], n_refining: int) -> None:
    """Refuse what the search cannot do, before it begins."""
    if "bandwidths" in common:
        raise ConfigError(
            "`learn` chooses the bandwidths itself, got some; use NOPG(bandwidths=...)"
            ".fit(data) to give them."
        )
    if not isinstance(common["policy"], str):
        raise ConfigError(
            '`policy` must be "deterministic", "stochastic" or "discrete", since each '
            "candidate starts from a policy of its own, got a "
            f"{type(common['policy']).__name__}; train a module with NOPG(policy=...)"
            ".fit(data)."
        )
    place = (common.get("device", "cpu"), common.get("dtype", "float64"))
    if place != ("cpu", "float64"):
        raise ConfigError(
            "`learn` works on the CPU in float64, got device={!r} and dtype={!r}; use "
            "NOPG(...).fit(data) for others.".format(*place)
        )
    if not isinstance(n_refining, int) or n_refining < 0:
        raise ConfigError(
            f"`n_refining` must be a whole number from 0, got {n_refining!r}."
        )


def _plan(
    found: list[_Found],
    base: NOPG,
    data: Dataset,
    model: TransitionModel,
    gamma: float,
    seed: int,
    bar: Any,
) -> None:
    """Plan in the learned system in each way, and teach a policy each plan."""
    actions = regression_actions(data).numpy()
    tried = actions_to_try(actions, Seed(seed).numpy("planned-actions"))
    states = np.asarray(data.observations, dtype=np.float64)
    outlook = Outlook.of(model, states, tried, Seed(seed).numpy("places"))
    for way in PLANS:
        bar.set_postfix_str(str(way), refresh=False)
        best = outlook.plan(way.gamma(gamma), way.hold)
        policy = copy.deepcopy(base.policy)
        imitate(policy, best)
        found.append(_Found(way, policy))
        bar.update()


def _climb(
    found: list[_Found],
    base: NOPG,
    n_updates: int,
    common: dict[str, Any],
    seed: int,
    bar: Any,
) -> None:
    """Climb J of the kernels, as far-sighted as the task and less so."""

    def advance(model: NOPG, update: Update) -> None:
        bar.set_postfix_str(f"J={update.objective:.4g}", refresh=False)
        bar.update()

    for i, way in enumerate(CLIMBS):
        own = {"gamma": way.gamma(common["gamma"]), "seed": seed + i}
        one = NOPG(bandwidths=base.bandwidths, **(common | TRAINING_LISTS | own))
        one.prepare_like(base)
        history = Training(one, n_updates).run(callback=advance, progress=False)
        if len(history):
            found.append(_Found(way, one.policy, history))
        if history.stopped == "interrupted":
            raise KeyboardInterrupt


def _refine_best(
    search: Search,
    policies: Sequence[Policy],
    models: Sequence[TransitionModel],
    starts: Array,
    gamma: float,
    n_refining: int,
    bar: Any,
) -> None:
    """Refine the best candidates in place; Ctrl-C leaves each as good as it became."""
    order = sorted(
        range(len(policies)), key=lambda i: -search.candidates[i].first.value
    )[:N_REFINED]
    best = [policies[i] for i in order]

    def advance(value: float) -> None:
        bar.set_postfix_str(f"model J={value:.4g}", refresh=False)
        bar.update()

    try:
        refine(models, best, starts, gamma, n_refining, advance)
    except KeyboardInterrupt:
        logger.warning("Interrupted while refining; the best policy so far is kept.")
    last = opinions(models, best, starts, gamma, LONG)
    for i, view in zip(order, last, strict=True):
        search.candidates[i] = replace(search.candidates[i], refined=view)


def _keep(
    search: Search,
    found: Sequence[_Found],
    base: NOPG,
    data: Dataset,
    initial_states: Any,
    common: dict[str, Any],
) -> NOPG:
    """The best candidate as a model of its own, with complete neighbour lists."""
    candidates = search.candidates
    asked = [i for i, one in enumerate(candidates) if one.refined is not None]
    search.chosen = max(
        asked or range(len(candidates)), key=lambda i: candidates[i].final.value
    )
    winner = found[search.chosen]
    doubt = search.candidates[search.chosen].final.doubt
    if doubt > MAX_DOUBT:
        warnings.warn(
            f"The second opinion should rest on data, its doubt along the learned "
            f"policy's path is {doubt:.2f} (1 is a guess); record transitions near "
            "that path before trusting the policy.",
            NopgWarning,
            stacklevel=3,
        )
    kept = NOPG(bandwidths=base.bandwidths, seed=base.config.seed, **common)
    kept.prepare(data, initial_states)
    kept.policy.load_state_dict(winner.policy.state_dict())
    kept.history, kept.search = winner.history, search
    return kept


def _starts(model: NOPG) -> Array:
    assert model.setup.initial_states is not None
    return np.array(model.setup.initial_states, dtype=np.float64)
