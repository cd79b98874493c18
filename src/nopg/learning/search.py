"""`nopg.learn`: several kernels, a second opinion on each policy, the best refined.

A policy that climbs an estimate of J finds its errors too. Where data are thin, J of
the kernels may be high and the real return bad, and no single rule for bandwidths
avoids it on every task. So several are tried; a learned model of the system, whose
errors are of another kind, is asked about each policy; and those it believes in are
refined on it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from nopg.data.dataset import Dataset
from nopg.dynamics.imagined import Actor
from nopg.dynamics.transitions import TransitionModel
from nopg.errors import ConfigError, NopgWarning
from nopg.kernels.selection import LeaveOneOut
from nopg.learning.model import NOPG
from nopg.learning.refining import Opinion, opinion, refine
from nopg.policies.base import Policy
from nopg.randomness import Seed

NEAR = 3.0
"""How much shorter the horizon 1 / (1 - gamma) of near-sighted candidates is."""
N_REFINED = 3
"""Policies refined: the best in the second opinion."""
MAX_DOUBT = 0.75
"""Mean doubt above which the second opinion itself is not to be trusted."""
TRAINING_LISTS = {"tolerance": 1e-3, "max_neighbours": 192}
"""Shorter neighbour lists while searching; the policy kept has complete ones."""


@dataclass(frozen=True)
class Kernels:
    """What one candidate climbs: a rule for bandwidths and how far it looks ahead."""

    rule: LeaveOneOut
    is_near_sighted: bool = False

    def gamma(self, gamma: float) -> float:
        """The discount it is trained with, for a task of discount `gamma`."""
        return max(0.0, 1.0 - NEAR * (1.0 - gamma)) if self.is_near_sighted else gamma


CANDIDATES = (
    Kernels(LeaveOneOut()),
    Kernels(LeaveOneOut(state_factor=0.6, widest_action=0.8)),
    Kernels(LeaveOneOut(state_factor=1.5)),
    Kernels(LeaveOneOut(), is_near_sighted=True),
    Kernels(LeaveOneOut(state_factor=0.6, widest_action=0.8), is_near_sighted=True),
    Kernels(LeaveOneOut(state_factor=1.5), is_near_sighted=True),
)
"""The rule's own bandwidths, sharper and blunter; each looking far and near. Blur
grows with every step ahead, so a near-sighted estimate is less biased and its best
policy is still a good start."""


@dataclass(frozen=True)
class Candidate:
    """One policy of a search.

    Attributes:
        kernels: What it climbed.
        objective: J of the kernels.
        first: What the model thought of it after training.
        refined: And after refining; None if it was not refined.
    """

    kernels: Kernels
    objective: float
    first: Opinion
    refined: Opinion | None = None

    @property
    def final(self) -> Opinion:
        """The latest opinion."""
        return self.first if self.refined is None else self.refined


@dataclass
class Search:
    """What `learn` tried and chose.

    Attributes:
        candidates: Every policy, in the order they were trained.
        chosen: Index of the one kept.
    """

    candidates: list[Candidate] = field(default_factory=list)
    chosen: int = 0

    def __str__(self) -> str:
        lines = ["  kernels J   model J   refined   doubt"]
        for i, c in enumerate(self.candidates):
            refined = "        -" if c.refined is None else f"{c.refined.value:9.4g}"
            mark = " <- kept" if i == self.chosen else ""
            lines.append(
                f"  {c.objective:9.4g} {c.first.value:9.4g} {refined} "
                f"{c.final.doubt:7.2f}{mark}"
            )
        return "\n".join(lines)


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
        A fitted model; `model.search` says what was tried.
    """
    if "bandwidths" in settings:
        raise ConfigError(
            "`learn` chooses the bandwidths itself, got some; use NOPG(bandwidths=...)"
            ".fit(data) to give them."
        )
    common = {"policy": policy, "gamma": gamma, "action_space": action_space}
    common |= settings
    models = transition_models(data, seed)
    search, fitted = Search(), []
    with tqdm(
        total=len(CANDIDATES) * n_updates + N_REFINED * n_refining,
        disable=not progress,
        unit="update",
        desc="NOPG",
    ) as bar:
        for i, kernels in enumerate(CANDIDATES):
            own = {"gamma": kernels.gamma(gamma), "seed": seed + i}
            candidate = NOPG(bandwidths=kernels.rule, **(common | TRAINING_LISTS | own))
            candidate.fit(data, initial_states, n_updates, progress=False)
            assert candidate.history is not None
            view = opinion(models, _actor(candidate), _starts(candidate), gamma)
            objective = candidate.history.updates[-1].objective
            search.candidates.append(Candidate(kernels, objective, view))
            fitted.append(candidate)
            bar.set_postfix_str(f"model J={view.value:.4g}", refresh=False)
            bar.update(n_updates)
        if n_refining > 0:
            _refine_best(search, fitted, models, gamma, n_refining, bar)
    return _keep(search, fitted, data, initial_states, seed, common)


def transition_models(data: Dataset, seed: int) -> list[TransitionModel]:
    """Learned systems: one of all the data, one of a random four fifths of them.

    The second has length scales and inducing points of its own, so that its errors
    are not quite those of the first.
    """
    actions = torch.tensor(data.actions)
    if data.is_discrete:
        actions = torch.nn.functional.one_hot(actions, data.n_actions)
    columns = (
        torch.tensor(data.observations).double(),
        actions.double(),
        torch.tensor(data.rewards).double(),
        torch.tensor(data.next_observations).double(),
        torch.tensor(data.terminations).double(),
    )
    generator = Seed(seed).numpy("transition-model")
    n_seen = max(2, 4 * len(data) // 5)
    part = torch.as_tensor(generator.permutation(len(data))[:n_seen])
    seen = [column[part] for column in columns]
    return [
        TransitionModel.fit(*columns, generator=generator),
        TransitionModel.fit(*seen, generator=generator),
    ]


def _refine_best(
    search: Search,
    fitted: list[NOPG],
    models: list[TransitionModel],
    gamma: float,
    n_refining: int,
    bar: Any,
) -> None:
    order = sorted(range(len(fitted)), key=lambda i: -search.candidates[i].first.value)
    for i in order[:N_REFINED]:
        one, starts = fitted[i], _starts(fitted[i])
        view = refine(models, one.policy, _actor(one), starts, gamma, n_refining)
        search.candidates[i] = replace(search.candidates[i], refined=view)
        bar.set_postfix_str(f"model J={view.value:.4g}", refresh=False)
        bar.update(n_refining)


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
