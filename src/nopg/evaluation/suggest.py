"""Where to record next: steps whose outcome would narrow the expected return most.

To first order an error f of the learned model moves the expected return by g' f, with g how often,
discounted, the policy comes by, times how much its return depends on where the step leads. f has a
covariance K for lack of data, and one more recorded step at x lowers the variance g' K g by

    (g' K(X, x))^2 / (K(x, x) + noise^2).

Steps are taken one by one, by a pivoted Cholesky factor. g comes from the recursion of
`dynamics.rollouts`, backwards; but a path out of support goes on, since there is much to learn.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.data.files import write_atomically
from nopg.data.validation import IntArray
from nopg.discount import discount_horizon
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.rollouts import Steps, rollout_steps
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.errors import require_count
from nopg.evaluation.rollouts import evenly_drawn
from nopg.policies.arrays import Array, actor_of
from nopg.policies.families import CategoricalPolicy, Policy

N_PATHS = 32  # predicted paths, each in a drawn model of its own
N_PLACES = 1_000  # steps along them that are compared, at most
BATCH = 2_000
SETTLED = 1e-9  # share of the variance below which nothing is left to be learned


@dataclass(frozen=True)
class Suggestion:
    """Steps to record next, the most informative first."""

    states: Array  # where to be, (n, d_s)
    actions: NDArray[Any]  # what to do there, (n, d_a), or labels (n,)
    start: IntArray  # initial state from which the policy comes there, (n,)
    step: IntArray  # after how many steps, (n,)
    remaining: Array  # share of the return's deviation left after so many rows, (n,)
    names: tuple[str, ...]  # of the columns of states and actions

    def __len__(self) -> int:
        return len(self.states)

    @property
    def table(self) -> dict[str, NDArray[Any]]:
        """Columns by name: states, actions, start, step, remaining."""
        acted = np.atleast_2d(self.actions.T)
        columns = [*self.states.T, *acted, self.start, self.step, self.remaining]
        return dict(zip((*self.names, "start", "step", "remaining"), columns, strict=True))

    def save(self, path: str | Path) -> None:
        """Write the table as CSV, whole or not at all."""
        quoted = (f'"{name.replace(chr(34), chr(34) * 2)}"' for name in self.table)
        rows = zip(*(column.tolist() for column in self.table.values()), strict=True)
        text = "\n".join([",".join(quoted), *(",".join(map(repr, r)) for r in rows), ""])
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


def path_places(
    model: TransitionModel,
    policy: Policy,
    starts: Array,  # (B, d_s)
    gamma: float,
    moved_by: Steps | None = None,  # who makes the steps; the model itself by default
) -> Places:
    """Every step of the policy's predicted paths, with its sensitivity."""
    n_steps, actor = discount_horizon(gamma), actor_of(policy)
    (n_paths, d_s), generator = starts.shape, np.random.default_rng(0)
    noise = noise_draws(n_steps, n_paths, d_s, generator, model.noise)
    steps = moved_by or ArrayTransitionModel(model)
    path = [*rollout_steps(steps, actor, starts, n_steps, draws=noise)]
    draws, value = torch.from_numpy(noise), torch.zeros(len(starts), dtype=torch.float64)
    adjoint = torch.zeros(starts.shape, dtype=torch.float64)
    inputs, slopes = [], []
    for t in reversed(range(n_steps)):
        states, actions = (torch.from_numpy(x) for x in path[t][:2])
        outcome = model.step(states, actions, draws[t])
        by = model.jacobians(states, actions, outcome, draws[t])
        goes_on = (1.0 - outcome.terminated)[:, None]
        after = gamma * (goes_on * adjoint - value[:, None] * by.terminated)
        moved = _product(after + by.final_rewards, by.next_states)  # by state reached
        joint = by.rewards + _product(moved, by.reached)
        adjoint = joint[:, :d_s] + _pulled_back(policy, states, joint[:, d_s:])
        value = outcome.rewards + gamma * goes_on[:, 0] * value
        slopes.append(_by_prediction(model, moved, goes_on))
        inputs.append(torch.cat([states, actions], dim=1))
    lasts = np.stack([1.0 - one.outcome.terminated for one in path])  # (T, B)
    alive = np.cumprod(np.vstack([np.ones(len(starts)), lasts[:-1]]), axis=0)
    visits = torch.from_numpy(gamma ** np.arange(n_steps)[:, None] * alive / n_paths).reshape(-1)
    origin = (np.tile(np.arange(n_paths), n_steps), np.repeat(np.arange(n_steps), n_paths))
    slope = torch.cat(slopes[::-1]) * visits[:, None]
    return Places(torch.cat(inputs[::-1]), visits, slope, *origin)


def _product(rows: Tensor, matrices: Tensor) -> Tensor:
    """Each row times its matrix, (m, a) and (m, a, b) to (m, b)."""
    return (rows[:, None] @ matrices)[:, 0]


def _pulled_back(policy: Policy, states: Tensor, by_action: Tensor) -> Tensor:
    """Slopes by the policy's actions as slopes by the states, (m, d_s)."""
    if isinstance(policy, CategoricalPolicy):  # a label does not move with the state
        return torch.zeros_like(states)
    at = states.clone().requires_grad_()
    return torch.autograd.grad((policy.outputs(at)[0] * by_action).sum(), at)[0]


def _by_prediction(model: TransitionModel, moved: Tensor, goes_on: Tensor) -> Tensor:
    """Slopes by the regression's targets, (m, q), from those by the state reached."""
    d_s = model.process.linear.shape[1] - 1  # of the present
    slopes = moved[:, :d_s].clone()
    if model.history is not None:  # the past holds how the present differs from it
        changes = model.history.n_changes
        slopes[:, :changes] += moved[:, d_s : d_s + changes]
    return torch.cat([slopes, goes_on], dim=1)


class Unknown(NamedTuple):
    """What the data leave open about a model's predictions, of q targets."""

    process: GaussianProcess
    linear: Tensor  # (q, 1 + d, 1 + d), roots of the covariance of coefficients
    noise: Tensor  # (q,), standard deviation of what no input explains

    @classmethod
    def of(cls, model: TransitionModel, data: Dataset) -> Self:
        """A kernel speaks for the linear mean below it; other targets have none."""
        columns, process = model_columns(data), model.process
        design = _design(process, torch.cat(list(columns[:2]), dim=1))
        is_free = ~model.bounds.are_left_out(columns[3])
        errors = model.targets(columns) - design @ process.linear
        design, errors = design[is_free], errors[is_free]
        precision = design.T @ design + 1e-9 * len(design) * torch.eye(design.shape[1])
        std = errors.std(dim=0, correction=0)
        std[process.curved] = 0.0
        roots = torch.zeros(len(std), *precision.shape).to(design)
        for j in range(len(std)):  # angles are inputs of the last target alone
            k = len(precision) - (j < len(std) - 1) * len(process.angles)
            roots[j, :k, :k] = std[j] * torch.linalg.inv(torch.linalg.cholesky(precision[:k, :k])).T
        return cls(process, roots, torch.hypot(process.noise, std))

    def std(self, inputs: Tensor) -> Tensor:
        """Standard deviation of each prediction, (m, q)."""
        linear = (_design(self.process, inputs) @ self.linear).square().sum(dim=2).T
        return (self.process.std(inputs).square() + linear).sqrt()

    def covariance(self, inputs: Tensor) -> Tensor:
        """Covariance of predictions between inputs, (q, m, m)."""
        parts = _design(self.process, inputs) @ self.linear
        found = parts @ parts.mT
        found[self.process.curved] += self.process.covariance(inputs)
        return found


def suggest(
    model: TransitionModel, policy: Policy, starts: Array, data: Dataset, gamma: float, n: int
) -> Suggestion:
    """The n steps whose outcome narrows the expected return most, or fewer."""
    require_count("n", n)
    chosen = np.linspace(0, len(starts) - 1, N_PATHS).round().astype(np.int64)
    drawn = drawn_models(model, model_columns(data), N_PATHS, np.random.default_rng(0))
    found = path_places(model, policy, starts[chosen], gamma, drawn)
    unknown = Unknown.of(model, data)
    places = compared(unknown, found, model.value_limits(gamma))
    rows, remaining = informative(unknown, places, n, model.noise is not None)
    taken, d_s = places.inputs[rows].numpy(), starts.shape[1]
    actions: NDArray[Any] = taken[:, d_s:].argmax(axis=1) if data.is_discrete else taken[:, d_s:]
    names = (*data.observation_names, *data.action_names)
    origin = (chosen[places.start[rows]], places.step[rows])
    return Suggestion(taken[:, :d_s], actions, *origin, remaining, names)


def compared(unknown: Unknown, places: Places, limits: tuple[float, float]) -> Places:
    """The places that matter, at most `N_PLACES`, with what they stand for.

    No error of one step can change the return by more than all that is still to be earned. Of many
    places some are drawn by what they matter, and stand for the rest.
    """
    low, high = limits  # of a return
    firsts, inputs = range(0, len(places.inputs), BATCH), places.inputs
    std = torch.cat([unknown.std(inputs[k : k + BATCH]) for k in firsts])  # (m, q)
    most = places.visits[:, None] * max(high - low, 1e-300)
    change = places.slopes.abs() * std
    slopes = places.slopes * (most / change.clamp_min(1e-300)).clamp_max(1.0)
    share = torch.minimum(change, most).sum(dim=1).numpy()
    if len(share) <= N_PLACES or not share.any():
        return places._replace(slopes=slopes)
    share = share / share.sum()
    rows, counts = np.unique(evenly_drawn(share, N_PLACES), return_counts=True)
    stands_for = torch.from_numpy(counts / (N_PLACES * share[rows]))[:, None]
    chosen: list[Any] = [part[rows] for part in places]
    return Places(*chosen)._replace(slopes=slopes[rows] * stands_for)


def _design(process: GaussianProcess, inputs: Tensor) -> Tensor:
    """(1, z) of inputs, (m, 1 + d)."""
    z = process.standardised(inputs)
    return torch.cat([torch.ones_like(z[:, :1]), z], dim=1)


def informative(unknown: Unknown, places: Places, n: int, is_noisy: bool) -> tuple[IntArray, Array]:
    """Rows of the places to record, greedily, and the deviation left after each."""
    covariance = unknown.covariance(places.inputs).numpy()  # (q, m, m)
    g = places.slopes.T.numpy()  # (q, m)
    noise = unknown.noise[:, None].square().numpy()
    variance = np.diagonal(covariance, axis1=1, axis2=2).copy()  # (q, m)
    pull = (covariance @ g[..., None])[..., 0]  # of each place's outcome on J, (q, m)
    whole = left = float((g * pull).sum())
    tiny = 1e-9 * variance.max(axis=1, keepdims=True) + 1e-300
    factor = np.empty((*pull.shape, 0))
    rows: list[int] = []
    remaining: list[float] = []
    while len(rows) < min(n, pull.shape[1]) and left > SETTLED * whole:
        scale = np.maximum(variance.clip(min=0.0) + noise, tiny)
        gain = (pull**2 / scale).sum(axis=0)
        if not is_noisy:  # what acts the same way twice need not be repeated
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
