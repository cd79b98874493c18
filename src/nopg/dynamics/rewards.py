"""Rewards that are no plain regression: a function that the user knows, or progress.

Many others are r = P(s') - P(s) + c(s, a): progress, or shaping. P has kinks at the goal, and a
smooth regression of r on (s, a) pays for hovering there. Differences of a fitted P add up to what
was gained in the end. So where a potential tells the rewards of steps it has not seen, the model's
are its differences, and a regression of what is left.

    P(s) = b's + sum_c sum_k w_ck exp(-|z_c - u_ck|^2 / 2),

z_c two columns of the state in units of a few widths: distances and speeds are of two columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.dynamics.compiled import filled_up
from nopg.errors import ConfigError, warn
from nopg.policies.arrays import Array
from nopg.threads import parallel_map

RewardFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""r(s, a, s') of m steps, (m,), from (m, d_o), (m, d_a) and (m, d_o) in float64."""
NOTE = "Rewards are those of the function given to `learn`, not the logged ones."
DIFFERS = 1e-3  # share of the range of rewards from which a function differs from them
WIDTHS = (4.0, 1.0, 0.5)  # of kernels, in deviations of the data
N_KERNELS, N_EACH = 900, 60  # of all, and of each pair of columns and width at most
N_FIRST, N_ROWS = 2_000, 20_000  # steps that it is tried with, and fitted to
N_BLOCKS, HELD_OUT = 20, 5  # parts of the log, and of how many parts one is held out
RIDGES = (1e-1, 1e-2, 1e-3, 1e-4)
MISSED = 0.9  # by how much it may miss held-out rewards, of what functions of a state do
AT_ONCE = 2_048  # states


class KnownReward(NamedTuple):
    """The user's reward function, on states that may hold their past."""

    function: RewardFunction
    n_observed: int  # columns of an observation, the first of a state

    def __call__(self, states: Tensor, actions: Tensor, next_states: Tensor) -> Tensor:
        """Reward of each step, (m,)."""
        k = self.n_observed
        return self.function(states[:, :k], actions, next_states[:, :k]).to(states.dtype)

    def of_arrays(self, states: Array, actions: Array, next_states: Array) -> Array:
        """The same of arrays."""
        rows = (torch.from_numpy(x) for x in (states, actions, next_states))
        with torch.no_grad():
            return np.asarray(self(*rows).numpy())

    def gradients(self, states: Tensor, actions: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """By (s, a) together, (m, d_s + d_a), and by s', (m, d_s)."""
        with torch.enable_grad():
            rows = [x.detach().requires_grad_() for x in (states, actions, after)]
            total = self(*rows).sum()
        if not total.requires_grad:  # it does not depend on them, or only in jumps
            found = [torch.zeros_like(row) for row in rows]
        else:
            found = list(torch.autograd.grad(total, rows, materialize_grads=True))
        return torch.cat(found[:2], dim=1), found[2]


def with_known_rewards(data: Dataset, actions: Tensor, reward: Any) -> tuple[Dataset, KnownReward]:
    """The data with rewards of a user's function, and that, checked."""
    # `actions`, (n, d_a), are those of the data as a regression takes them.
    d_o = data.observations.shape[1] if data.history is None else data.history.n_observed
    states, following = (
        torch.tensor(x[:, :d_o]).double() for x in (data.observations, data.next_observations)
    )
    found = _checked(reward, [states, actions, following])
    difference = np.abs(found - data.rewards)
    worst = int(difference.argmax())
    if difference[worst] > DIFFERS * max(float(np.ptp(data.rewards)), 1e-12):
        warn(
            f"`reward` should agree with the logged rewards, they differ by up to "
            f"{difference[worst]:.3g} (row {worst}: {found[worst]:.4g} instead of "
            f"{data.rewards[worst]:.4g}); the function is used, look at the columns it "
            "takes if that is not meant."
        )
    return data.with_note(NOTE, rewards=found), KnownReward(reward, d_o)


def _checked(function: Any, rows: list[Tensor]) -> Array:
    """Rewards of the rows, (n,), of a function that can be planned and refined with."""
    if not callable(function):
        raise ConfigError(
            "`reward` must be a function of states, actions and next states, got a "
            f"{type(function).__name__}; pass a function of three torch tensors."
        )
    widths = ", ".join(str(tuple(row.shape)) for row in rows)
    given = [row.clone().requires_grad_() for row in rows]
    try:
        found = function(*given)
    except Exception as error:
        raise ConfigError(
            f"`reward` must turn float64 tensors of shape {widths} into one reward "
            f"a row by operations of torch, it failed with: {error}"
        ) from error
    n = len(rows[0])
    if not isinstance(found, Tensor) or found.shape != (n,):
        shape = tuple(found.shape) if hasattr(found, "shape") else "no shape"
        raise ConfigError(
            f"`reward` must return a torch tensor of shape ({n},) for {n} steps, got a "
            f"{type(found).__name__} of {shape}; index columns as s[:, 0]."
        )
    rewards = np.asarray(found.detach().double().numpy())
    if not np.isfinite(rewards).all():
        raise ConfigError(
            "`reward` must be finite, it is NaN or infinite for "
            f"{int((~np.isfinite(rewards)).sum())} of {n} logged steps, first of row "
            f"{int(np.argmin(np.isfinite(rewards)))}; bound what it divides by."
        )
    if found.requires_grad:
        slopes = torch.autograd.grad(found.sum(), given, materialize_grads=True)
        if not all(bool(slope.isfinite().all()) for slope in slopes):
            raise ConfigError(
                "`reward` must have finite derivatives, some are NaN or infinite at "
                "logged steps; square roots of 0 have none, add a small number inside."
            )
    elif np.ptp(rewards) > 0.0:
        warn(
            "`reward` should be differentiable, it changes from row to row and has no gradient, as "
            "comparisons have none: plans use it, refinement cannot; smooth its jumps if you can."
        )
    return rewards


@dataclass(frozen=True)
class Potential:
    """Of states: a linear function and kernels of pairs of columns."""

    linear: Array  # b, (d_s,)
    columns: NDArray[np.int64]  # of each pair, (c, 2)
    factors: Array  # one over the width of these, (c, 2)
    points: Array  # u, (c, 2, m)
    weights: Array  # w, (c, m)

    @classmethod
    def fit(
        cls,
        columns: Sequence[Array],  # states, actions, rewards and next states of a log, in its order
        generator: np.random.Generator,
        n_present: int | None = None,  # columns that it may depend on: the first ones, not the past
    ) -> "Potential | None":
        """None if rewards are no differences of one."""
        actions, rewards, width = columns[1], columns[2], columns[0].shape[1]
        states, next_states = (x[:, :n_present] for x in columns[::3])
        spread = states.std(axis=0)
        unit = np.where(spread > 1e-12, spread, 1.0)
        moving = np.flatnonzero((spread > 1e-12) & (next_states != states).any(axis=0)).tolist()
        pairs = np.array(list(combinations(moving, 2)) * len(WIDTHS), dtype=np.int64)
        n_each = min(N_EACH, N_KERNELS // max(len(pairs), 1), len(states) // 2)
        if not len(pairs) or n_each < 2 or len(states) < 5 * N_BLOCKS or rewards.std() == 0.0:
            return None
        factors = 1.0 / (unit[pairs] * np.repeat(WIDTHS, len(pairs) // len(WIDTHS))[:, None])
        order = generator.permutation(len(states))
        for n_rows, most in ((N_FIRST, 2.0 * MISSED), (N_ROWS, MISSED)):
            rows = np.sort(order[:n_rows])
            s, a, after, paid = (x[rows] for x in (states, actions, next_states, rewards))
            chosen = np.stack([generator.choice(len(s), n_each, replace=False) for _ in pairs])
            points = s[chosen[..., None], pairs[:, None]].swapaxes(1, 2) * factors[..., None]
            plain = cls(np.zeros(len(spread)), pairs, factors, points, np.zeros(points.shape[::2]))
            # Whitened kernels: their weights have a prior of one deviation.
            between = np.square(points[..., None] - points[:, :, None]).sum(axis=1)
            inner = np.linalg.cholesky(np.exp(-0.5 * between) + 1e-6 * np.eye(n_each))
            roots = np.linalg.inv(inner).swapaxes(1, 2)
            here, there = (np.hstack([plain._white(x, roots), x / unit]) for x in (s, after))
            done = [np.ones((len(a), 1)), a, a**2, a**3, np.abs(a)]
            is_held = np.arange(len(s)) * N_BLOCKS // len(s) % HELD_OUT == HELD_OUT // 2
            usual = np.abs(paid - np.median(paid))[is_held].mean()
            # A state itself may tell as much: a cost, or a distance.
            designs = [np.hstack([x, *done]) for x in (there - here, here, there)]
            fitted = partial(_fitted, paid=paid, is_held=is_held)
            (missed, found), *others = parallel_map(fitted, designs)
            if missed > most * min(usual, *(error for error, _ in others)):
                return None
        k = points[:, 0].size
        weights = np.einsum("ckl,cl->ck", roots, found[:k].reshape(len(pairs), -1))
        linear = np.pad(found[k : k + len(unit)] / unit, (0, width - len(unit)))
        return cls(linear, pairs, factors, points, weights)

    def __call__(self, states: Array) -> Array:
        """P, (m,)."""
        parts = [states[i : i + AT_ONCE] for i in range(0, len(states), AT_ONCE)]
        found = [np.einsum("mck,ck->m", self._kernels(part), self.weights) for part in parts]
        return np.asarray(states @ self.linear + np.concatenate([np.zeros(0), *found]))

    def gained(self, states: Any, next_states: Any) -> Array:
        """P(s') - P(s) of arrays or tensors, (m,)."""
        return self(np.asarray(next_states)) - self(np.asarray(states))

    def slopes(self, at: Tensor) -> Tensor:
        """By each column of some states, (m, d_s)."""
        states = at.numpy()
        found = np.tile(self.linear, (len(states), 1))
        shares = self._kernels(states) * self.weights  # (m, c, k)
        here = states[:, self.columns] * self.factors
        toward = np.einsum("mck,cik->mci", shares, self.points) - shares.sum(2)[..., None] * here
        for side in (0, 1):
            np.add.at(found.T, self.columns[:, side], (toward * self.factors)[..., side].T)
        return torch.from_numpy(found)

    def compiled_fields(self) -> dict[str, Any]:
        """As `rollout.c` takes it; what is filled up has no weight."""
        points, weights = filled_up(self.points), filled_up(self.weights)
        sizes = {"n_pairs": len(points), "n_each": points.shape[2], "pairs": self.columns}
        sizes |= {"pair_factors": self.factors, "pair_points": points, "pair_weights": weights}
        offsets = -0.5 * np.square(points).sum(axis=1)
        return sizes | {"pair_offsets": offsets, "pair_linear": self.linear}

    def _white(self, states: Array, roots: Array) -> Array:
        """Combinations of the kernels of each pair, (m, c k)."""
        found = np.einsum("mck,ckl->mcl", self._kernels(states), roots, optimize=True)
        return np.asarray(found.reshape(len(states), -1))

    def _kernels(self, states: Array) -> Array:
        """(m, c, k)."""
        away = (states[:, self.columns] * self.factors)[..., None] - self.points  # (m, c, 2, k)
        return np.asarray(np.exp(-0.5 * np.square(away).sum(axis=2)))


def _fitted(design: Array, paid: Array, is_held: NDArray[np.bool_]) -> tuple[float, Array]:
    """Mean error of rewards held out with the best ridge, and coefficients of all rows with it."""
    both = np.column_stack([design, paid])
    part, rest = (design[rows].T @ both[rows] for rows in (~is_held, is_held))

    def solved(normal: Array, ridge: float) -> Array:
        penalty = np.diag(np.full(len(normal), ridge))
        return np.asarray(np.linalg.solve(normal[:, :-1] + penalty, normal[:, -1]))

    errors = [np.abs(paid - design @ solved(part, ridge))[is_held].mean() for ridge in RIDGES]
    return min(errors), solved(part + rest, RIDGES[int(np.argmin(errors))])
