"""Where to record next: steps whose outcome would narrow the expected return most.

To first order an error f of the learned model moves the expected return J by

    dJ = sum_i g_i f(x_i),   x_i = (s, a) along the policy's predicted paths,

with g_i how often, discounted, the policy comes there, times how much its return
depends on where the step leads. The model is a Gaussian process, so that f has a
covariance K for lack of data, and dJ the variance g' K g. One more recorded step at x
lowers it by

    (g' K(X, x))^2 / (K(x, x) + noise^2),

in closed form. Steps are taken one after another, each the best given those before it;
what they make known of each other is one column of a pivoted Cholesky factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.data.files import write_atomically
from nopg.data.validation import IntArray
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.rollouts import Steps, discount_horizon, rollout_steps
from nopg.dynamics.transition_model import (
    ArrayTransitionModel,
    PredictedStep,
    TransitionModel,
)
from nopg.evaluation.replay import columns_of
from nopg.evaluation.rollouts import require_steps
from nopg.policies.arrays import Array, actor_of
from nopg.policies.families import CategoricalPolicy, Policy

N_PATHS = 32
"""Predicted paths that are looked at, each in a model of its own, drawn from what the
data allow: a single path would show one place where the policy may come by."""
N_PLACES = 1_000
"""Steps along them that are compared; of more a choice by what they matter."""
BATCH = 2_000
SETTLED = 1e-9
"""Share of the variance below which nothing is left to be learned."""


@dataclass(frozen=True)
class Suggestion:
    """Steps to record next, the most informative first.

    Attributes:
        states: Where to be, (n, d_s).
        actions: What to do there, (n, d_a), or labels (n,).
        start: From which initial state the policy is predicted to come there, (n,).
        step: After how many steps, (n,).
        remaining: Share of the standard deviation of the expected return, as far as it
            comes from lack of data, that is left once all rows so far are recorded.
        names: Of the columns of states and actions.
    """

    states: Array
    actions: NDArray[Any]
    start: IntArray
    step: IntArray
    remaining: Array
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.states)

    @property
    def table(self) -> dict[str, NDArray[Any]]:
        """Columns by name: states, actions, start, step, remaining."""
        acted = np.atleast_2d(self.actions.T)
        columns = [*self.states.T, *acted, self.start, self.step, self.remaining]
        names = (*self.names, "start", "step", "remaining")
        return dict(zip(names, columns, strict=True))

    def save(self, path: str | Path) -> None:
        """Write the table as CSV, whole or not at all."""
        quoted = (f'"{name.replace(chr(34), chr(34) * 2)}"' for name in self.table)
        rows = zip(*(column.tolist() for column in self.table.values()), strict=True)
        text = "\n".join(
            [",".join(quoted), *(",".join(map(repr, r)) for r in rows), ""]
        )
        write_atomically(Path(path), lambda stream: stream.write(text.encode()))

    def __str__(self) -> str:
        if not len(self):
            return "Nothing to record: the models know the system on the policy's paths"
        heads = [*self.names, "remaining"]
        rows = zip(*(self.table[name] for name in heads), strict=True)
        lines = [heads, *([f"{value:.4g}" for value in row] for row in rows)]
        return "\n".join("".join(f"{cell:>12}" for cell in line) for line in lines)


class Places(NamedTuple):
    """Steps along predicted paths, and how the return depends on their outcomes."""

    inputs: Tensor  # (m, d_s + d_a)
    visits: Tensor  # (m,), discounted, over the number of paths
    slopes: Tensor  # (m, q), d J / d prediction
    start: IntArray  # (m,)
    step: IntArray  # (m,)


def suggest(
    model: TransitionModel,
    policy: Policy,
    starts: Array,
    data: Dataset,
    gamma: float,
    n: int,
) -> Suggestion:
    """The n steps whose outcome narrows the expected return most.

    Fewer are returned where nothing is left to be learned.
    """
    require_steps("n", n)
    chosen = np.linspace(0, len(starts) - 1, N_PATHS).round().astype(np.int64)
    generator = np.random.default_rng(0)
    drawn = drawn_models(model, columns_of(data), N_PATHS, generator)
    found = path_places(model, policy, starts[chosen], gamma, drawn)
    places = compared(model, found, gamma)
    rows, remaining = informative(model, places, n)
    taken, d_s = places.inputs[rows].numpy(), starts.shape[1]
    actions: NDArray[Any] = taken[:, d_s:]
    if data.is_discrete:
        actions = actions.argmax(axis=1)
    names = (*data.observation_names, *data.action_names)
    origin = (chosen[places.start[rows]], places.step[rows])
    return Suggestion(taken[:, :d_s], actions, *origin, remaining, names)


def path_places(
    model: TransitionModel,
    policy: Policy,
    starts: Array,
    gamma: float,
    moved_by: Steps | None = None,
) -> Places:
    """Every step of the policy's predicted paths, with its sensitivity.

    A path that is out of support goes on: it is there that something is to be learned.

    Args:
        model: The learned model.
        policy: Who acts.
        starts: Where the paths begin, (B, d_s).
        gamma: Discount factor.
        moved_by: Who makes the steps of the paths; the model itself by default.
    """
    n_steps, actor = discount_horizon(gamma), actor_of(policy)
    noise = noise_draws(n_steps, *starts.shape, np.random.default_rng(0))
    steps = moved_by or ArrayTransitionModel(model)
    path = [*rollout_steps(steps, actor, starts, n_steps, draws=noise)]
    draws = torch.from_numpy(noise)
    value, adjoint = (
        torch.zeros(len(starts)).double(),
        torch.zeros(starts.shape).double(),
    )
    inputs, slopes = [], []
    for t in reversed(range(n_steps)):
        at = torch.from_numpy(path[t].states).requires_grad_()
        taken, outcome = _acted(model, policy, at, draws[t])
        beside = outcome.next_states - outcome.next_states.detach()
        ahead = value + (adjoint * beside).sum(dim=1)
        total = outcome.rewards + gamma * (1.0 - outcome.terminated) * ahead
        adjoint, moved = torch.autograd.grad(total.sum(), [at, outcome.reached])
        value = total.detach()
        slopes.append(_by_prediction(model, moved, 1.0 - outcome.terminated.detach()))
        inputs.append(taken.detach())
    goes_on = np.stack([1.0 - one.outcome.terminated for one in path])  # (T, B)
    alive = np.cumprod(np.vstack([np.ones(len(starts)), goes_on[:-1]]), axis=0)
    discounts = gamma ** np.arange(n_steps)[:, None]
    visits = torch.from_numpy(discounts * alive / len(starts)).reshape(-1)
    return Places(
        torch.cat(inputs[::-1]),
        visits,
        torch.cat(slopes[::-1]) * visits[:, None],
        np.tile(np.arange(len(starts)), n_steps),
        np.repeat(np.arange(n_steps), len(starts)),
    )


def compared(model: TransitionModel, places: Places, gamma: float) -> Places:
    """The places that matter, at most `N_PLACES`, with what they stand for.

    No error of one step can change the return by more than all that is still to be
    earned, however steep a chaotic path is. Of many places some are drawn by how much
    their error may change the return, and stand for as much more.
    """
    low, high = model.reward_limits
    parts = places.inputs.split(BATCH)
    std = torch.cat([model.process.std(part) for part in parts])  # (m, q)
    most = places.visits[:, None] * max(high - low, 1e-300) / (1.0 - gamma)
    change = places.slopes.abs() * std
    slopes = places.slopes * (most / change.clamp_min(1e-300)).clamp_max(1.0)
    share = torch.minimum(change, most).sum(dim=1).numpy()
    if len(share) <= N_PLACES or not share.any():
        return places._replace(slopes=slopes)
    share = share / share.sum()
    even = (np.arange(N_PLACES) + 0.5) / N_PLACES
    drawn = np.searchsorted(np.cumsum(share), even).clip(max=len(share) - 1)
    rows, counts = np.unique(drawn, return_counts=True)
    stands_for = torch.from_numpy(counts / (N_PLACES * share[rows]))
    chosen = Places(*(field[rows] for field in places))
    return chosen._replace(slopes=slopes[rows] * stands_for[:, None])


def _acted(
    model: TransitionModel, policy: Policy, states: Tensor, draws: Tensor
) -> tuple[Tensor, PredictedStep[Tensor]]:
    """States with the policy's actions, (m, d_s + d_a), and what the model expects."""
    if isinstance(policy, CategoricalPolicy):  # a label does not move with the state
        actions = torch.from_numpy(actor_of(policy).act(states.detach().numpy()))
    else:
        actions = policy.outputs(states)[0]
    return torch.cat([states, actions], dim=1), model.step(states, actions, draws)


def _by_prediction(model: TransitionModel, moved: Tensor, goes_on: Tensor) -> Tensor:
    """Slopes by the regression's targets, (m, q), from those by the state reached."""
    d_s = model.process.linear.shape[1] - 1  # of the present
    slopes = moved[:, :d_s].clone()
    if model.history is not None:  # the past holds how the present differs from it
        changes = model.history.n_changes
        slopes[:, :changes] += moved[:, d_s : d_s + changes]
    return torch.cat([slopes, goes_on[:, None]], dim=1)


def informative(
    model: TransitionModel, places: Places, n: int
) -> tuple[IntArray, Array]:
    """Rows of the places to record, greedily, and the deviation left after each."""
    process = model.process
    covariance = process.covariance(places.inputs).numpy()  # (c, m, m)
    g = places.slopes[:, process.curved].T.numpy()  # (c, m)
    noise = process.noise[process.curved, None].square().numpy()
    variance = np.diagonal(covariance, axis1=1, axis2=2).copy()  # (c, m)
    pull = (covariance @ g[..., None])[..., 0]  # of each place's outcome on J, (c, m)
    whole = left = float((g * pull).sum())
    tiny = 1e-9 * process.amplitude[process.curved, None].square().numpy()
    factor = np.empty((*pull.shape, 0))
    rows, remaining = [], []
    while len(rows) < min(n, pull.shape[1]) and left > SETTLED * whole:
        scale = np.maximum(variance.clip(min=0.0) + noise, tiny)
        gain = (pull**2 / scale).sum(axis=0)
        if model.noise is None:  # what acts the same way twice need not be repeated
            gain[rows] = 0.0
        best = int(gain.argmax())
        column = covariance[:, :, best] - (factor @ factor[:, best, :, None])[..., 0]
        column = column / np.sqrt(scale[:, best, None])
        pull = pull - column * (pull[:, best] / np.sqrt(scale[:, best]))[:, None]
        variance, factor = variance - column**2, np.dstack([factor, column])
        left = float((g * pull).sum())
        rows.append(best)
        remaining.append(np.sqrt(max(left, 0.0) / whole))
    return np.array(rows, dtype=np.int64), np.array(remaining)
