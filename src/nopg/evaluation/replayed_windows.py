"""Windows of recordings, predicted by a model that has not seen them.

Recorded actions go through models drawn from the posterior, each with gusts of its own: their
scatter is a band. Beside it stand a linear model, and standing still.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.special import stdtrit

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.replays import Rows, Windows
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.policies.arrays import Array

BAND = 0.9  # share of what happens that a band is to hold
STEPS = {"1 step": 1, "10 steps": 10, "50 steps": 50}  # after which predictions are compared
THE_END = "the end"  # of an episode, where they are compared as well
LONGEST = max(STEPS.values())
N_DRAWS = 12  # models drawn, each with gusts of its own: what a band is made of
NEGLIGIBLE = 1e-3  # error that does not matter, as a share of a column's deviation


class Predictions(NamedTuple):
    """What a model predicts of B windows, held against what happened."""

    # For each horizon, by its label: what model, linear model and standing still miss, in
    # deviations, and the first over half the width of its band, (4, n, d).
    horizons: dict[str, Array]
    returns: Array  # the last of the discounted returns of windows, (n, 1)
    starts: Array  # where windows start, (B, d)
    off: Array  # how far off their predictions are in the end, in deviations, (B,)

    @classmethod
    def of(
        cls,
        model: TransitionModel,
        data: Dataset,
        windows: Windows,
        gamma: float,
        generator: np.random.Generator,
    ) -> Self:
        """By a model of `data`, of windows of other recordings."""
        d = model.process.linear.shape[1] - 1  # of the present
        spread = data.observations[:, :d].std(axis=0)
        spread = np.where(spread > 0.0, spread, 1.0)
        steps = drawn_models(model, model_columns(data), N_DRAWS, generator)
        drawn, returns = _drawn_paths(steps, windows, gamma, generator)
        centre, half = _band(drawn[..., :d], NEGLIGIBLE * spread)  # (T, B, d) both
        truth = windows.truth[..., :d]
        missed, still = truth - centre, truth - windows.starts[:, :d]
        linear = truth - _linear_paths(data, windows)[..., :d]
        every = np.stack([missed, linear, still, np.abs(missed) / half * spread]) / spread
        places, lengths = np.arange(len(windows.lengths)), windows.lengths
        late = every[0, np.minimum(lengths, LONGEST) - 1, places]
        ratios = _return_ratios(windows, returns, float(data.rewards.std()), gamma)
        return cls(
            {label: every[:, last, rows] for label, rows, last in _horizons(windows)},
            ratios[lengths > 1],  # one reward says nothing of returns
            windows.starts[:, :d],
            np.sqrt(np.square(late).mean(axis=1)),
        )


def _horizons(windows: Windows) -> list[tuple[str, Rows, Rows]]:
    """Steps in words, the windows that have so many, and the last step of each."""
    lengths, whole = windows.lengths, np.nonzero(windows.is_whole)[0]
    reached = [(label, np.nonzero(lengths >= h)[0], h) for label, h in STEPS.items()]
    found = [(label, rows, np.full(len(rows), h - 1)) for label, rows, h in reached]
    return [one for one in (*found, (THE_END, whole, lengths[whole] - 1)) if len(one[1])]


def _drawn_paths(
    steps: ArrayTransitionModel, windows: Windows, gamma: float, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Predicted states (T, S, B, d_s) and discounted returns (S, B) of the windows."""
    (n_steps, n_windows, _), d_s = windows.actions.shape, windows.starts.shape[1]
    found = np.full((n_steps, N_DRAWS, n_windows, d_s), np.nan)
    returns = np.zeros((N_DRAWS, n_windows))
    draws = noise_draws(n_steps, N_DRAWS * n_windows, d_s, generator, steps.noise)
    draws = draws.reshape(found.shape)
    for length in np.unique(windows.lengths):
        some = np.nonzero(windows.lengths == length)[0]
        acted = np.tile(windows.actions[:length, some], (1, N_DRAWS, 1))
        gusts = draws[:length][:, :, some].reshape(length, -1, d_s)
        outcome = steps.follow(np.tile(windows.starts[some], (N_DRAWS, 1)), acted, gusts)
        shape = (length, N_DRAWS, len(some))
        found[:length, :, some] = outcome.next_states.reshape(*shape, d_s)
        # What an end pays is no matter of the regression.
        weights = np.repeat(gamma ** np.arange(length)[:, None], len(some), axis=1)
        weights[-1, windows.terminates[some]] = 0.0
        rewards = outcome.continuing_rewards.reshape(shape)
        returns[:, some] = (weights[:, None] * rewards).sum(axis=0)
    return found, returns


def _band(drawn: Array, floor: Array) -> tuple[Array, Array]:
    """Middle and half width of what draws, (..., S, B, d), are to hold."""
    # Gusts come in pairs, so that half as many draws tell how far they scatter.
    t = stdtrit(0.5 * N_DRAWS, 0.5 + 0.5 * BAND)
    return drawn.mean(axis=-3), t * np.hypot(drawn.std(axis=-3), floor)


def _return_ratios(windows: Windows, drawn: Array, deviation: float, gamma: float) -> Array:
    """Errors of returns, (S, B), over half their bands, (B, 1); ends are left out."""
    lengths, last = windows.lengths, np.zeros(len(windows.lengths))
    if deviation == 0.0:
        return np.full((len(lengths), 1), np.nan)
    ends = np.nonzero(windows.terminates)[0]
    last[ends] = windows.rewards[lengths[ends] - 1, ends]
    recorded = windows.returns(gamma) - gamma ** (lengths - 1.0) * last
    steps = (1.0 - gamma ** lengths.astype(np.float64)) / (1.0 - gamma)
    centre, half = _band(drawn[..., None], NEGLIGIBLE * deviation * steps[:, None])
    return np.asarray(np.abs(recorded[:, None] - centre) / half)


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
