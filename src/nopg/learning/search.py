"""`nopg.learn`: several kernels, a second opinion on each policy, the best refined.

A policy that climbs an estimate of J finds its errors too. Where data are thin, J of
the kernels may be high and the real return bad, and no single rule for bandwidths
avoids it on every task. So several are tried; a learned model of the system, whose
errors are of another kind, is asked about each policy; and those it believes in are
refined on it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from nopg.data.dataset import Dataset
from nopg.dynamics.imagined import Actor
from nopg.dynamics.pair import learned_pair
from nopg.dynamics.transitions import TransitionModel
from nopg.errors import ConfigError, NopgWarning
from nopg.learning.candidates import CANDIDATES, Candidate, Search
from nopg.learning.history import Update
from nopg.learning.model import NOPG
from nopg.learning.refining import opinion, refine
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
        n_updates: Updates of each candidate by the gradient of Eq. (10).
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
    fitted: list[NOPG] = []
    with tqdm(
        total=len(CANDIDATES) * n_updates + N_REFINED * n_refining,
        disable=not progress,
        unit="update",
        desc="NOPG",
    ) as bar:
        is_whole = _train(fitted, data, initial_states, n_updates, seed, common, bar)
        models = learned_pair(data, Seed(seed).numpy("transition-model"))
        search = Search(
            [_judged(one, i, models, gamma) for i, one in enumerate(fitted)]
        )
        if n_refining > 0 and is_whole:
            _refine_best(search, fitted, models, gamma, n_refining, bar)
    return _keep(search, fitted, data, initial_states, seed, common)


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


def _train(
    fitted: list[NOPG],
    data: Dataset,
    initial_states: Any,
    n_updates: int,
    seed: int,
    common: dict[str, Any],
    bar: Any,
) -> bool:
    """Train every candidate; False if Ctrl-C ended it, then those so far are kept."""

    def advance(model: NOPG, update: Update) -> None:
        bar.set_postfix_str(f"J={update.objective:.4g}", refresh=False)
        bar.update()

    for i, kernels in enumerate(CANDIDATES):
        own = {"gamma": kernels.gamma(common["gamma"]), "seed": seed + i}
        one = NOPG(bandwidths=kernels.rule, **(common | TRAINING_LISTS | own))
        one.fit(data, initial_states, n_updates, callback=advance, progress=False)
        assert one.history is not None
        if not len(one.history):
            if not fitted:
                raise KeyboardInterrupt
            return False
        fitted.append(one)
        if one.history.stopped == "interrupted":
            return False
    return True


def _judged(
    one: NOPG, i: int, models: Sequence[TransitionModel], gamma: float
) -> Candidate:
    """A trained candidate with what the learned systems think of it."""
    assert one.history is not None
    objective = one.history.updates[-1].objective
    view = opinion(models, _actor(one), _starts(one), gamma)
    return Candidate(CANDIDATES[i], objective, view)


def _refine_best(
    search: Search,
    fitted: list[NOPG],
    models: Sequence[TransitionModel],
    gamma: float,
    n_refining: int,
    bar: Any,
) -> None:
    """Refine the best candidates in place; Ctrl-C leaves the rest as they are."""
    order = sorted(range(len(fitted)), key=lambda i: -search.candidates[i].first.value)
    try:
        for i in order[:N_REFINED]:
            one, starts = fitted[i], _starts(fitted[i])
            view = refine(models, one.policy, _actor(one), starts, gamma, n_refining)
            search.candidates[i] = replace(search.candidates[i], refined=view)
            bar.set_postfix_str(f"model J={view.value:.4g}", refresh=False)
            bar.update(n_refining)
    except KeyboardInterrupt:
        logger.warning("Interrupted while refining; the best policy so far is kept.")


def _keep(
    search: Search,
    fitted: list[NOPG],
    data: Dataset,
    initial_states: Any,
    seed: int,
    common: dict[str, Any],
) -> NOPG:
    """The best candidate as a model of its own, with complete neighbour lists."""
    values = [candidate.final.value for candidate in search.candidates]
    search.chosen = max(range(len(values)), key=values.__getitem__)
    winner = fitted[search.chosen]
    doubt = search.candidates[search.chosen].final.doubt
    if doubt > MAX_DOUBT:
        warnings.warn(
            f"The second opinion should rest on data, its doubt along the learned "
            f"policy's path is {doubt:.2f} (1 is a guess); record transitions near "
            "that path before trusting the policy.",
            NopgWarning,
            stacklevel=3,
        )
    kept = NOPG(bandwidths=winner.bandwidths, seed=seed, **common)
    kept.prepare(data, initial_states)
    kept.policy.load_state_dict(winner.policy.state_dict())
    kept.history, kept.search = winner.history, search
    return kept


def _starts(model: NOPG) -> Tensor:
    assert model.setup.initial_states is not None
    return torch.as_tensor(model.setup.initial_states)


def _actor(model: NOPG) -> Actor:
    """The policy as it will act: for labels, the most probable one as a one-hot row."""
    return (
        _MostProbable(model.policy)
        if model.config.policy == "discrete"
        else model.policy
    )


class _MostProbable:
    """A discrete policy's typical action, as the learned systems take it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def act(self, states: Tensor) -> Tensor:
        probabilities = self.policy.outputs(states)[0]
        labels = probabilities.argmax(dim=1)
        one_hot = torch.nn.functional.one_hot(labels, probabilities.shape[1])
        return one_hot.to(states)
