"""Replay: learned models held against episodes that they were not fitted to.

Recorded actions go through a model from recorded states, and what it predicts, with
bands for noise and for lack of data, is compared with what happened. It needs no
simulator, and it shows what no interval can know of: models that are right for one step
and wrong after ten, a state that is not shown, a machine that has changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import model_columns, refitted
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.replays import (
    EPISODES,
    PAIRS,
    Rows,
    Windows,
    held_out_rows,
)
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.policies.arrays import Array

BAND = 0.9
"""Share of what happens that a band is to hold."""
HORIZONS = (1, 10, 50)
"""Steps after which predictions are compared, beside the end of an episode."""
N_DRAWS = 32
"""Models drawn, each with gusts of its own: what a band is made of."""
NEGLIGIBLE = 1e-3
"""Error that does not matter, as a share of a column's deviation."""
ENOUGH = 0.75
"""Share that bands have to hold: below, they are more than 1.4 times too narrow."""
MANY = 10
"""Starts from which on a quantile of their errors is one."""
NO_WORSE = 1.1
"""Error over that of a simple guess, up to which it is no worse: where noise is all
there is to predict, both err alike."""


@dataclass(frozen=True)
class Replay:
    """How far predictions of held-out data hold."""

    # What was held out: "episodes"; "blocks", the end of a single one; or "pairs",
    # single steps, where rows have no order.
    kind: str
    names: tuple[str, ...]  # columns of the state that are predicted, d of them
    labels: tuple[str, ...]  # after how long predictions are compared, H of them
    n_starts: tuple[int, ...]  # states that were predicted from, for each horizon, (H,)
    coverage: NDArray[np.float64]  # share of what happened that 90% bands hold, (H, d)
    # Root mean square errors in deviations of the columns, (H, d).
    errors: NDArray[np.float64]
    # The same over the better of a linear model and standing still, (H,).
    relative: NDArray[np.float64]
    scale: float  # how much wider bands must be to hold what they should
    # The same of the returns of whole windows; NaN if none is known.
    return_scale: float
    run_off: float  # share of the starts whose prediction is worse than the mean
    worst_place: NDArray[np.float64]  # state that was predicted worst from, (d,)

    @property
    def is_of_pairs(self) -> bool:
        """Whether rows are in no order, so that no path of them could be replayed."""
        return self.kind == PAIRS

    @property
    def ok(self) -> bool:
        """Whether bands hold about what they should, and models beat simple guesses."""
        return not self.reason

    @property
    def reason(self) -> str:
        """What fails, in a sentence; empty if nothing does."""
        for i, (label, n) in enumerate(zip(self.labels, self.n_starts, strict=True)):
            held, ratio = float(self.coverage[i].mean()), float(self.relative[i])
            # Of a few starts the shares and sizes vary by chance.
            chance = math.sqrt(ENOUGH * (1.0 - ENOUGH) / n)
            if ratio > NO_WORSE + 2.0 / math.sqrt(n):
                return (
                    f"After {label} the learned models err {ratio:.1f} times as much "
                    "as a linear model or standing still, most in "
                    f"{self.names[int(self.errors[i].argmax())]}."
                )
            if held < ENOUGH - 2.0 * chance:
                return (
                    f"After {label} 90% bands hold {held:.0%} of what happened, least "
                    f"in {self.names[int(self.coverage[i].argmin())]}."
                )
        return ""

    def __str__(self) -> str:
        lines = [
            f"Replay of held-out {self.kind}; bands are to hold {BAND:.0%}",
            "  after       starts   held   error   of simple guess   worst in",
        ]
        for i, label in enumerate(self.labels):
            size = float(np.sqrt(np.square(self.errors[i]).mean()))
            column = self.names[int(self.errors[i].argmax())]
            lines.append(
                f"  {label:<10} {self.n_starts[i]:7d} {self.coverage[i].mean():6.0%} "
                f"{size:7.3f} {self.relative[i]:17.2f}   {column}"
            )
        if self.run_off:
            names = zip(self.names, self.worst_place, strict=True)
            place = ", ".join(f"{name} {value:.3g}" for name, value in names)
            lines.append(
                f"{self.run_off:.0%} of the starts run off, first of all {place}"
            )
        return "\n".join([*lines, *([self.reason] if self.reason else [])])


def replay_held_out(
    data: Dataset, like: TransitionModel, gamma: float, generator: np.random.Generator
) -> Replay:
    """Fit a model without a part of the data, as `like`, and replay that part."""
    kind, is_held_out = held_out_rows(data, generator)
    seen = data.subset(~is_held_out)
    model = refitted(like, model_columns(seen))
    windows = Windows.of(data, is_held_out, HORIZONS[-1])
    return _replay(model, seen, windows, kind, gamma, generator)


def replay_others(
    model: TransitionModel,
    data: Dataset,
    others: Dataset,
    gamma: float,
    generator: np.random.Generator,
) -> Replay:
    """Replay recordings of the same system that `model`, of `data`, has not seen."""
    windows = Windows.of(others, np.ones(len(others), dtype=bool), HORIZONS[-1])
    kind = EPISODES if windows.is_whole.any() else PAIRS
    return _replay(model, data, windows, kind, gamma, generator)


def _replay(
    model: TransitionModel,
    data: Dataset,
    windows: Windows,
    kind: str,
    gamma: float,
    generator: np.random.Generator,
) -> Replay:
    """What a model of `data` predicts of windows of other recordings."""
    d = model.process.linear.shape[1] - 1  # of the present
    spread = data.observations[:, :d].std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    steps = drawn_models(model, model_columns(data), N_DRAWS, generator)
    drawn, returns = _drawn_paths(steps, windows, gamma, generator)
    centre, half = _band(drawn[..., :d], NEGLIGIBLE * spread)  # (T, B, d) both
    missed = windows.truth[..., :d] - centre
    ratios = np.abs(missed) / half
    still = windows.truth[..., :d] - windows.starts[:, :d]
    linear = windows.truth[..., :d] - _linear_paths(data, windows)[..., :d]
    found = []
    horizons = _horizons(windows)
    for _, rows, last in horizons:
        errors = _size(missed[last, rows] / spread)
        simple = min(_total(_size(one[last, rows] / spread)) for one in (linear, still))
        held = (ratios[last, rows] <= 1.0).mean(axis=0)
        found.append((held, errors, _total(errors) / max(simple, NEGLIGIBLE)))
    held, errors, relative = (np.array(part) for part in zip(*found, strict=True))
    every = np.arange(len(windows.lengths))
    last = np.minimum(windows.lengths, HORIZONS[-1]) - 1
    off = np.sqrt(np.square(missed[last, every] / spread).mean(axis=1))  # (B,)
    return Replay(
        kind,
        tuple(data.observation_names[:d]),
        tuple(label for label, _, _ in horizons),
        tuple(len(rows) for _, rows, _ in horizons),
        held,
        errors,
        relative,
        _scale([ratios[last, rows] for _, rows, last in horizons]),
        _return_scale(windows, returns, float(data.rewards.std()), gamma),
        float((off > 1.0).mean()),
        windows.starts[int(off.argmax()), :d],
    )


def _horizons(windows: Windows) -> list[tuple[str, Rows, Rows]]:
    """Steps in words, the windows that have so many, and the last step of each."""
    found, lengths = [], windows.lengths
    for h in HORIZONS:
        rows = np.nonzero(lengths >= h)[0]
        if len(rows):
            label = f"{h} steps" if h > 1 else "1 step"
            found.append((label, rows, np.full(len(rows), h - 1)))
    rows = np.nonzero(windows.is_whole)[0]
    if len(rows):
        found.append(("the end", rows, lengths[rows] - 1))
    return found


def _drawn_paths(
    steps: ArrayTransitionModel,
    windows: Windows,
    gamma: float,
    generator: np.random.Generator,
) -> tuple[Array, Array]:
    """Predicted states (T, S, B, d_s) and discounted returns (S, B) of the windows."""
    (n_steps, n_windows, _), d_s = windows.actions.shape, windows.starts.shape[1]
    found = np.full((n_steps, N_DRAWS, n_windows, d_s), np.nan)
    returns = np.zeros((N_DRAWS, n_windows))
    draws = noise_draws(n_steps, N_DRAWS * n_windows, d_s, generator, steps.noise)
    draws = draws.reshape(n_steps, N_DRAWS, n_windows, d_s)
    here = np.tile(windows.starts, (N_DRAWS, 1, 1))
    for t in range(n_steps):
        going = np.nonzero(windows.lengths > t)[0]
        actions = np.tile(windows.actions[t, going], (N_DRAWS, 1))
        gusts = draws[t][:, going].reshape(-1, d_s)
        outcome = steps.step(here[:, going].reshape(-1, d_s), actions, gusts)
        shape = (N_DRAWS, len(going))
        here[:, going] = outcome.next_states.reshape(*shape, d_s)
        found[t][:, going] = here[:, going]
        # What an end pays is no matter of the regression.
        counts = ~(windows.terminates[going] & (windows.lengths[going] == t + 1))
        rewards = outcome.continuing_rewards.reshape(shape)
        returns[:, going] += gamma**t * counts * rewards
    return found, returns


def _band(drawn: Array, floor: Array) -> tuple[Array, Array]:
    """Middle and half width of what draws, (..., S, B, d), are to hold."""
    z = NormalDist().inv_cdf(0.5 + 0.5 * BAND)
    return drawn.mean(axis=-3), z * np.hypot(drawn.std(axis=-3), floor)


def _scale(ratios: list[Array]) -> float:
    """The largest share of a band that errors reach, by horizons with enough starts.

    Of each column the conformal quantile: of n errors the one of rank (n + 1) 90%,
    rounded up.
    """
    found = []
    for one in [one for one in ratios if len(one) >= MANY] or ratios[:1]:
        rank = min(len(one), math.ceil((len(one) + 1) * BAND))
        found.append(float(np.sort(one, axis=0)[rank - 1].max()))
    return max(found)


def _return_scale(
    windows: Windows, drawn: Array, deviation: float, gamma: float
) -> float:
    """The same of discounted returns, (S, B), terminal rewards left out.

    NaN where all rewards are alike: then returns are a matter of when tasks end.
    """
    if deviation == 0.0:
        return float("nan")
    lengths, last = windows.lengths, np.zeros(len(windows.lengths))
    ends = np.nonzero(windows.terminates)[0]
    last[ends] = windows.rewards[lengths[ends] - 1, ends]
    recorded = windows.returns(gamma) - gamma ** (lengths - 1.0) * last
    steps = (1.0 - gamma ** lengths.astype(np.float64)) / (1.0 - gamma)
    centre, half = _band(drawn[..., None], NEGLIGIBLE * deviation * steps[:, None])
    ratios = np.abs(recorded[:, None] - centre) / half  # (B, 1)
    return _scale(
        [part for part in (ratios[lengths > 1], ratios[lengths == 1]) if len(part)]
    )


def _linear_paths(data: Dataset, windows: Windows) -> Array:
    """The windows by a linear model of the data, s' = (s, a, 1) W, (T, B, d_s)."""
    states, actions, _, following, _ = (c.numpy() for c in model_columns(data))
    design = np.concatenate([states, actions, np.ones((len(states), 1))], axis=1)
    slope = np.linalg.lstsq(design, following, rcond=None)[0]
    here, path = windows.starts, []
    one = np.ones((len(here), 1))
    for taken in windows.actions:
        here = np.concatenate([here, np.nan_to_num(taken), one], axis=1) @ slope
        here = np.clip(here, -1e12, 1e12)  # an unstable guess grows without end
        path.append(here)
    return np.stack(path)


def _size(errors: Array) -> Array:
    """Root mean square of each column, (d,)."""
    return np.asarray(np.sqrt(np.square(errors).mean(axis=0)))


def _total(sizes: Array) -> float:
    return float(np.sqrt(np.square(sizes).mean()))
