"""`nopg.learn`: plans and climbs, a second opinion on each policy, the best refined.

A policy that climbs an estimate of J finds its errors too. Where data are thin, J of
the kernels may be high and the real return bad, and no single rule for bandwidths
avoids it on every task; and a gradient finds the nearest hill only. So policies are
found in several ways; two learned models of the system, whose errors are of another
kind, are asked about each; and those they believe in are refined on them.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.search.candidates import Found, climbed, planned
from nopg.algorithms.search.refinement import (
    FINAL_WEIGHT,
    N_KEPT,
    N_STARTS,
    attainable_return,
    model_estimates,
    refine,
)
from nopg.algorithms.search.threads import few_threads
from nopg.data.dataset import Dataset
from nopg.dynamics.transition_model import TransitionModel, fit_ensemble
from nopg.errors import ConfigError, NopgWarning
from nopg.fitted.search_result import CLIMBS, PLANS, Candidate, Search
from nopg.kernels.selection import LeaveOneOut
from nopg.policies.arrays import Array
from nopg.randomness import Seed

logger = logging.getLogger(__name__)

MAX_DOUBT = 0.75
"""Mean uncertainty above which the second opinion itself is not to be trusted."""


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
        n_updates: Updates of each ascend along the gradient of Eq. (10).
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
    _require_known(common, n_updates, n_refining)
    kept = NOPG(bandwidths=LeaveOneOut(), seed=seed, **common)
    kept.prepare(data, initial_states)
    with few_threads(len(data)):
        judges, search = _searched(kept, data, n_updates, n_refining, common, progress)
    winner = judges.found[search.chosen]
    kept.policy.load_state_dict(winner.policy.state_dict())
    kept.history, kept.search = winner.history, search
    _warn_of_doubt(search.candidates[search.chosen].final.uncertainty)
    return kept


def _searched(
    kept: NOPG,
    data: Dataset,
    n_updates: int,
    n_refining: int,
    common: dict[str, Any],
    progress: bool,
) -> tuple[_Judges, Search]:
    """Every policy found, what is thought of it, and which one is best."""
    gamma, seed = common["gamma"], kept.config.seed
    models = fit_ensemble(data, Seed(seed).numpy("transition-model"))
    judges = _Judges(models, _starts(kept), gamma)
    with tqdm(
        total=len(PLANS) + len(CLIMBS) * n_updates + n_refining,
        disable=not progress,
        desc="NOPG",
    ) as bar:
        try:
            for one in planned(models[0], data, kept.policy, gamma, seed):
                judges.hear(one)
                bar.set_postfix_str(str(one.way), refresh=False)
                bar.update()
            if not judges.are_content():
                climbs = climbed(data, judges.starts, n_updates, common, seed, bar)
                for one in climbs:
                    judges.hear(one)
                judges.refine_all(n_refining, bar)
        except KeyboardInterrupt:
            if not judges.found:
                raise
            logger.warning("Interrupted; the best policy so far is kept.")
        search = judges.choose()
        bar.total = bar.n  # what was not needed is not missing
        bar.refresh()
    return judges, search


@dataclass
class _Judges:
    """The learned systems, and what they think of the policies found so far.

    Attributes:
        models: The learned systems.
        starts: Where the task starts, (B, d_s).
        gamma: Discount factor.
        found: Every policy heard.
        candidates: What is thought of each.
    """

    models: Sequence[TransitionModel]
    starts: Array
    gamma: float
    found: list[Found] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)

    def hear(self, one: Found) -> None:
        """Form a first opinion of a policy."""
        some = self.starts[:N_STARTS]
        (view,) = model_estimates(self.models, [one.policy], some, self.gamma)
        self.found.append(one)
        self.candidates.append(Candidate(one.way, view))

    def are_content(self) -> bool:
        """Whether the best so far leave nothing to be gained, not even late."""
        views = [one.first.value for one in self.candidates]
        if max(views, default=-np.inf) < attainable_return(self.models[0], self.gamma):
            return False
        self._ask_again(views)
        last = max(one.final.value for one in self.candidates if one.refined)
        return last >= attainable_return(self.models[0], self.gamma, FINAL_WEIGHT)

    def refine_all(self, n_updates: int, bar: Any) -> None:
        """Improve every policy in place, and form a last opinion of the best."""

        def advance(value: float) -> None:
            bar.set_postfix_str(f"model J={value:.4g}", refresh=False)
            bar.update()

        policies = [one.policy for one in self.found]
        values = [one.first.value for one in self.candidates]
        try:
            if n_updates > 0:
                values = refine(
                    self.models, policies, self.starts, self.gamma, n_updates, advance
                )
        finally:  # an interrupt leaves each as good as it became
            self._ask_again(values)

    def choose(self) -> Search:
        """The best candidate: of those asked about at length, where there are any."""
        asked = [i for i, one in enumerate(self.candidates) if one.refined is not None]
        chosen = max(
            asked or range(len(self.candidates)),
            key=lambda i: self.candidates[i].final.value,
        )
        return Search(self.candidates, chosen)

    def _ask_again(self, values: Sequence[float]) -> None:
        """A last opinion of those of the highest values: long paths, every start."""
        best = sorted(range(len(values)), key=lambda i: -values[i])[:N_KEPT]
        policies = [self.found[i].policy for i in best]
        views = model_estimates(
            self.models, policies, self.starts, self.gamma, FINAL_WEIGHT
        )
        # What was thought before may be of a policy that has changed since.
        self.candidates = [replace(one, refined=None) for one in self.candidates]
        for i, view in zip(best, views, strict=True):
            self.candidates[i] = replace(self.candidates[i], refined=view)


def _require_known(common: dict[str, Any], n_updates: int, n_refining: int) -> None:
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
    for name, number, least in (
        ("n_updates", n_updates, 1),
        ("n_refining", n_refining, 0),
    ):
        if not isinstance(number, int) or number < least:
            raise ConfigError(
                f"`{name}` must be a whole number from {least}, got {number!r}."
            )


def _warn_of_doubt(uncertainty: float) -> None:
    if uncertainty > MAX_DOUBT:
        warnings.warn(
            f"The second opinion should rest on data, its uncertainty along the learned "
            f"policy's path is {uncertainty:.2f} (1 is a guess); record transitions near "
            "that path before trusting the policy.",
            NopgWarning,
            stacklevel=3,
        )


def _starts(model: NOPG) -> Array:
    assert model.setup.initial_states is not None
    return np.array(model.setup.initial_states, dtype=np.float64)
