"""Replay: learned models held against episodes that they were not fitted to.

Recorded actions go through a model from recorded states, and what it predicts, with
bands for noise and for lack of data, is compared with what happened. It needs no
simulator, and it shows what no interval can know of: models that are right for one step
and wrong after ten, a state that is not shown, a machine that has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from nopg.evaluation.windows import EPISODES, PAIRS, Windows, held_out_rows
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
NO_WORSE = 1.1
"""Error over that of a simple guess, up to which it is no worse: where noise is all
there is to predict, both err alike."""


@dataclass(frozen=True)
class Replay:
    """How far predictions of held-out data hold.

    Attributes:
        kind: What was held out: "episodes"; "blocks", the end of a single one; or
            "pairs", single steps, where rows have no order.
        names: Columns of the state that are predicted, d of them.
        horizons: Steps after which predictions are compared, H of them; the last may be
            the end of the recordings, then it is their median length.
        labels: The same in words.
        n_starts: States that were predicted from, for each horizon, (H,).
        coverage: Share of what happened that 90% bands hold, (H, d).
        errors: Root mean square errors in deviations of the columns, (H, d).
        relative: The same over the better of a linear model and standing still, (H,).
        run_off: Share of the starts from which a prediction is worse than the mean of
            the data.
        scale: How much wider bands must be to hold what they should.
        return_scale: The same of the returns of whole windows; NaN if none is known.
        worst_place: State from which the prediction was worst, (d,).
    """

    kind: str
    names: tuple[str, ...]
    horizons: tuple[int, ...]
    labels: tuple[str, ...]
    n_starts: tuple[int, ...]
    coverage: NDArray[np.float64]
    errors: NDArray[np.float64]
    relative: NDArray[np.float64]
    run_off: float
    scale: float
    return_scale: float
    worst_place: NDArray[np.float64]

    @property
    def ok(self) -> bool:
        """Whether bands hold about what they should, and models beat simple guesses."""
        holds = self.coverage.mean(axis=1) >= ENOUGH
        return bool(holds.all() and (self.relative <= NO_WORSE).all())

    @property
    def worst_column(self) -> str:
        """The column that is predicted worst at the longest horizon."""
        return self.names[int(self.errors[-1].argmax())]

    @property
    def reason(self) -> str:
        """What fails, in a sentence; empty if nothing does."""
        for label, held, ratio in zip(
            self.labels, self.coverage.mean(axis=1), self.relative, strict=True
        ):
            if ratio > NO_WORSE:
                return (
                    f"After {label} the learned models err {ratio:.1f} times as much "
                    "as a linear model or standing still, most in "
                    f"{self.worst_column}."
                )
            if held < ENOUGH:
                return (
                    f"After {label} 90% bands hold {held:.0%} of what happened, least "
                    f"in {self.names[int(self.coverage[-1].argmin())]}."
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
        return "\n".join([*lines, *([self.reason] if self.reason else [])])


def replay_held_out(
    data: Dataset, like: TransitionModel, gamma: float, generator: np.random.Generator
) -> Replay:
    """Fit a model without a part of the data, and replay that part.

    Args:
        data: Logged transitions.
        like: A model of all of them: its hyperparameters are a good start.
        gamma: Discount factor of the returns that are compared.
        generator: Source of what is held out and of the draws.
    """
    kind, is_held_out = held_out_rows(data, generator)
    seen = torch.from_numpy(~is_held_out)
    columns = [column[seen] for column in columns_of(data)]
    model = TransitionModel.fit(
        *columns, generator=generator, like=like, history=data.history
    )
    windows = Windows.of(data, is_held_out, HORIZONS[-1])
    seen = data.subset(~is_held_out)
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
    drawn, returns = _drawn_paths(model, windows, gamma, generator)
    drawn = drawn[..., :d]  # (T, S, B, d)
    slope = _least_squares(data)
    linear = _linear_paths(slope, windows)[..., :d]  # (T, B, d)
    truth, lengths = windows.truth[..., :d], windows.lengths
    compared = [(h, f"{h} step{'s' * (h > 1)}", lengths >= h) for h in HORIZONS]
    compared = [one for one in compared if one[2].any()]
    whole = windows.is_whole & (lengths > 1)
    if whole.any():
        compared.append((int(np.median(lengths[whole])), "the end", whole))
    z = NormalDist().inv_cdf(0.5 + 0.5 * BAND)
    floor = NEGLIGIBLE * spread
    held, errors, relative, ratios = [], [], [], []
    for h, label, chosen in compared:
        rows = np.nonzero(chosen)[0]
        last = lengths[rows] - 1 if label == "the end" else np.full(len(rows), h - 1)
        found = drawn[last, :, rows]  # (B', S, d)
        centre, half = found.mean(axis=1), z * np.hypot(found.std(axis=1), floor)
        missed = truth[last, rows] - centre
        ratio = np.abs(missed) / half
        held.append((ratio <= 1.0).mean(axis=0))
        errors.append(_size(missed / spread))
        guesses = (linear[last, rows], windows.starts[rows, :d])
        simple = min(
            float(np.sqrt(np.square((truth[last, rows] - g) / spread).mean()))
            for g in guesses
        )
        size = float(np.sqrt(np.square(errors[-1]).mean()))
        relative.append(size / max(simple, NEGLIGIBLE))
        ratios.append(float(np.quantile(ratio, BAND)))
    last = np.minimum(lengths, HORIZONS[-1]) - 1
    every = np.arange(len(lengths))
    off = (truth[last, every] - drawn[last, :, every].mean(axis=1)) / spread
    size = np.sqrt(np.square(off).mean(axis=1))  # (B,)
    recorded = windows.returns(gamma)
    return Replay(
        kind,
        tuple(data.observation_names[:d]),
        tuple(h for h, _, _ in compared),
        tuple(label for _, label, _ in compared),
        tuple(int(chosen.sum()) for _, _, chosen in compared),
        np.array(held),
        np.array(errors),
        np.array(relative),
        float((size > 1.0).mean()),
        max(ratios),
        _return_scale(recorded, returns, data.rewards),
        windows.starts[int(size.argmax()), :d],
    )


def columns_of(data: Dataset) -> list[torch.Tensor]:
    """States, actions, rewards, next states and terminations, as a model takes them."""
    return [
        torch.tensor(data.observations).double(),
        regression_actions(data),
        torch.tensor(data.rewards).double(),
        torch.tensor(data.next_observations).double(),
        torch.tensor(data.terminations).double(),
    ]


def _drawn_paths(
    model: TransitionModel,
    windows: Windows,
    gamma: float,
    generator: np.random.Generator,
) -> tuple[Array, Array]:
    """Predicted states (T, S, B, d_s) and discounted returns (S, B) of the windows."""
    (n_steps, n_windows, _), d_s = windows.actions.shape, windows.starts.shape[1]
    steps = drawn_models(model, N_DRAWS, generator)
    found = np.full((n_steps, N_DRAWS, n_windows, d_s), np.nan)
    returns, running = np.zeros((N_DRAWS, n_windows)), np.ones((N_DRAWS, n_windows))
    draws = noise_draws(n_steps, N_DRAWS * n_windows, d_s, generator)
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
        rewards = outcome.rewards.reshape(shape)
        returns[:, going] += gamma**t * running[:, going] * rewards
        running[:, going] *= 1.0 - outcome.terminated.reshape(shape)
    return found, returns


def _return_scale(recorded: Array, drawn: Array, rewards: Array) -> float:
    """How much wider bands of returns must be; NaN where all rewards are alike."""
    floor = NEGLIGIBLE * float(rewards.std())
    if floor == 0.0:
        return float("nan")
    z = NormalDist().inv_cdf(0.5 + 0.5 * BAND)
    half = z * np.hypot(drawn.std(axis=0), floor)
    return float(np.quantile(np.abs(recorded - drawn.mean(axis=0)) / half, BAND))


def _least_squares(data: Dataset) -> Array:
    """s' = (s, a, 1) W, the W."""
    states, actions, _, following, _ = (c.numpy() for c in columns_of(data))
    design = np.concatenate([states, actions, np.ones((len(states), 1))], axis=1)
    return np.asarray(np.linalg.lstsq(design, following, rcond=None)[0])


def _linear_paths(slope: Array, windows: Windows) -> Array:
    """The same windows by a linear model, (T, B, d_s)."""
    here, path = windows.starts, []
    one = np.ones((len(here), 1))
    for actions in windows.actions:
        here = np.concatenate([here, np.nan_to_num(actions), one], axis=1) @ slope
        here = np.clip(here, -1e12, 1e12)  # an unstable guess grows without end
        path.append(here)
    return np.stack(path)


def _size(errors: Array) -> Array:
    """Root mean square of each column, (d,)."""
    return np.asarray(np.sqrt(np.square(errors).mean(axis=0)))
