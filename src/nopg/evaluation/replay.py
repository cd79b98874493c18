"""Replay: learned models held against episodes that they were not fitted to.

Recorded actions go through a model from recorded states, and what it predicts is compared with what
happened. Models drawn from its posterior, each with gusts of its own, make the bands; it has to
beat a linear model and standing still. It shows models that are right for one step and wrong after
ten, a hidden state, a machine that has changed.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from scipy.special import stdtrit

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import model_columns, refitted
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.replays import EPISODES, PAIRS, Rows, Windows, held_out_folds
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.errors import DataError
from nopg.policies.arrays import Array
from nopg.threads import parallel_map

BAND = 0.9  # share of what happens that a band is to hold
STEPS = {"1 step": 1, "10 steps": 10, "50 steps": 50}  # after which predictions are compared
THE_END = "the end"  # of an episode, where they are compared as well
LONGEST = max(STEPS.values())
N_DRAWS = 12  # models drawn, each with gusts of its own: what a band is made of
NEGLIGIBLE = 1e-3  # error that does not matter, as a share of a column's deviation
ENOUGH = 0.75  # share bands have to hold: below, they are 1.4 times too narrow
TOO_NARROW = 1.4
MANY = 19  # starts from which on 90% of their errors are fewer than all of them
NO_WORSE = 1.1  # error over that of a simple guess that is no worse: noise errs alike


@dataclass(frozen=True)
class Replay:
    """How far predictions of held-out data hold."""

    # What was held out: "episodes"; "blocks", the end of one; or "pairs", steps in no order.
    kind: str
    names: tuple[str, ...]  # columns of the state that are predicted, d of them
    labels: tuple[str, ...]  # after how long predictions are compared, H of them
    n_starts: tuple[int, ...]  # states that were predicted from, for each horizon, (H,)
    # How many of these could be so far apart that one prediction says nothing of the next, (H,).
    n_apart: tuple[int, ...]
    # What bands of the models are multiplied by to hold 90%, by replay of all parts, (H, d).
    factors: Array
    coverage: Array  # share of what happened that these hold, (H, d)
    errors: Array  # root mean square errors in deviations of the columns, (H, d)
    relative: Array  # the same over the better of a linear model and standing still, (H,)
    # What bands of the returns of whole windows would be multiplied by; NaN if none is known.
    return_scale: float
    run_off: float  # share of the starts whose prediction is worse than the mean
    worst_place: Array  # state that was predicted worst from, (d,)

    @property
    def scale(self) -> float:
        """The largest factor among horizons with enough starts, half of them apart."""
        counts = zip(self.n_starts, self.n_apart, strict=True)
        enough = [min(n, 2 * apart) >= MANY for n, apart in counts]
        return float(self.factors[enough if any(enough) else 0].max())

    @property
    def ok(self) -> bool:
        """Whether bands hold about what they should, and models beat simple guesses."""
        return not self.reason

    @property
    def reason(self) -> str:
        """What fails, in a sentence; empty if nothing does.

        A model may err more than standing still: a controller brought back what gusts had moved,
        and these are not known beforehand. It must know how much it errs.
        """
        for i, (label, n) in enumerate(zip(self.labels, self.n_apart, strict=True)):
            ratio, factor = float(self.relative[i]), float(self.factors[i].mean())
            # Of a few starts the shares and sizes vary by chance.
            if min(ratio / NO_WORSE, factor / TOO_NARROW) > 1.0 + 2.0 / math.sqrt(n):
                return (
                    f"After {label} the learned models err {ratio:.1f} times as much as a linear "
                    f"model or standing still, and bands would have to be {factor:.1f} times as "
                    f"wide, most in {self.names[int(self.errors[i].argmax())]}."
                )
            if self.holds_less_than(ENOUGH, i):
                return (
                    f"After {label} 90% bands hold {self.coverage[i].mean():.0%} of what happened, "
                    f"least in {self.names[int(self.coverage[i].argmin())]}."
                )
        return ""

    def holds_less_than(self, share: float, horizon: int) -> bool:
        """Whether bands hold less than a share, by more than two standard errors."""
        chance = math.sqrt(share * (1.0 - share) / self.n_apart[horizon])
        return bool(self.coverage[horizon].mean() < share - 2.0 * chance)

    def __str__(self) -> str:
        what = f"Replay of held-out {self.kind}; bands are to hold {BAND:.0%}"
        lines = [what, "  after       starts   held  scaled by   error  of simple guess  worst in"]
        for i, label in enumerate(self.labels):
            lines.append(
                f"  {label:<10} {self.n_starts[i]:7d} {self.coverage[i].mean():6.0%} "
                f"{self.factors[i].mean():10.2f} {_size(self.errors[i]):7.3f} "
                f"{self.relative[i]:16.2f}  {self.names[int(self.errors[i].argmax())]}"
            )
        if self.run_off:
            names = zip(self.names, self.worst_place, strict=True)
            place = ", ".join(f"{name} {value:.3g}" for name, value in names)
            lines.append(f"{self.run_off:.0%} of the starts run off, first of all {place}")
        return "\n".join([*lines, *([self.reason] if self.reason else [])])


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
        d, lengths = model.process.linear.shape[1] - 1, windows.lengths  # columns of the present
        spread = data.observations[:, :d].std(axis=0)
        spread = np.where(spread > 0.0, spread, 1.0)
        steps = drawn_models(model, model_columns(data), N_DRAWS, generator)
        drawn, returns = _drawn_paths(steps, windows, gamma, generator)
        centre, half = _band(drawn[..., :d], NEGLIGIBLE * spread)  # (T, B, d) both
        truth = windows.truth[..., :d]
        missed, still = truth - centre, truth - windows.starts[:, :d]
        linear = truth - _linear_paths(data, windows)[..., :d]
        every = np.stack([missed, linear, still, np.abs(missed) / half * spread]) / spread
        late = every[0, np.minimum(lengths, LONGEST) - 1, np.arange(len(lengths))]
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
    here, one, path = windows.starts, np.ones((len(windows.starts), 1)), []
    for taken in windows.actions:
        here = np.concatenate([here, np.nan_to_num(taken), one], axis=1) @ slope
        here = np.clip(here, -1e12, 1e12)  # an unstable guess grows without end
        path.append(here)
    return np.stack(path)


def replay_held_out(
    data: Dataset, like: TransitionModel, gamma: float, generator: np.random.Generator
) -> Replay:
    """Fit models without a part of the data, as `like`, and replay it, part by part."""
    kind, folds = held_out_folds(data, generator)
    if min((int((~fold).sum()) for fold in folds), default=0) < 2:
        raise DataError(
            "Sign-off leaves parts of the log out and needs two rows beside each part; "
            f"{len(data)} rows are too few, record ten or more."
        )
    # Nothing is said of where the models end.
    is_claimed = ~like.bounds.are_beyond(torch.tensor(data.next_observations).double()).numpy()

    def predicted(fold: tuple[Any, np.random.Generator]) -> Predictions:
        is_held_out, draws = fold
        seen = data.subset(~is_held_out)
        rows = is_held_out & is_claimed if is_claimed[is_held_out].any() else is_held_out
        windows = Windows.of(data, rows, LONGEST, len(folds))
        return Predictions.of(refitted(like, model_columns(seen)), seen, windows, gamma, draws)

    found = parallel_map(predicted, zip(folds, generator.spawn(len(folds)), strict=True))
    scales = [_factors(found[:k] + found[k + 1 :]) for k in range(len(found))]
    return _replay(kind, data, int(np.sum(folds)), found, scales)


def replay_others(
    model: TransitionModel,
    data: Dataset,
    others: Dataset,
    gamma: float,
    generator: np.random.Generator,
    known: Replay | None = None,
) -> Replay:
    """Replay what `model`, of `data`, has not seen; bands are scaled as in `known`."""
    windows = Windows.of(others, np.ones(len(others), dtype=bool), LONGEST)
    kind = EPISODES if windows.is_whole.any() else PAIRS
    scales = dict(zip(known.labels, known.factors, strict=True)) if known is not None else {}
    found = Predictions.of(model, data, windows, gamma, generator)
    return _replay(kind, data, len(others), [found], [scales])


def _replay(
    kind: str, data: Dataset, n_rows: int, found: list[Predictions], scales: list[dict[str, Array]]
) -> Replay:
    """All parts together, the bands of each multiplied by its scales."""
    every, n_apart, coverage, relative = _all_of(found), [], [], []
    for label, (missed, linear, still, _) in every.items():
        held = [
            one.horizons[label][3] <= factors.get(label, 1.0)
            for one, factors in zip(found, scales, strict=True)
            if label in one.horizons
        ]
        simple = max(min(_size(linear), _size(still)), NEGLIGIBLE)
        n_apart.append(min(len(missed), max(1, n_rows // STEPS.get(label, 1))))
        coverage.append(np.concatenate(held).mean(axis=0))
        relative.append(_size(missed) / simple)
    off = np.concatenate([one.off for one in found])
    starts = np.concatenate([one.starts for one in found])
    return Replay(
        kind=kind,
        names=tuple(data.observation_names[: starts.shape[1]]),
        labels=tuple(every),
        n_starts=tuple(part.shape[1] for part in every.values()),
        n_apart=tuple(n_apart),
        factors=np.array([*_factors(found).values()]),
        coverage=np.array(coverage),
        errors=np.array([np.sqrt(np.square(part[0]).mean(axis=0)) for part in every.values()]),
        relative=np.array(relative),
        return_scale=float(_conformal(np.concatenate([f.returns for f in found]))[0]),
        run_off=float((off > 1.0).mean()),
        worst_place=starts[int(off.argmax())],
    )


def _all_of(found: list[Predictions]) -> dict[str, Array]:
    """What all parts have after so long, (4, n, d) each, where any of them has some."""
    every = {k: [one.horizons[k] for one in found if k in one.horizons] for k in (*STEPS, THE_END)}
    return {k: np.concatenate(parts, axis=1) for k, parts in every.items() if parts}


def _factors(found: list[Predictions]) -> dict[str, Array]:
    """What bands must be multiplied by, by horizon, (d,) each."""
    return {label: _conformal(part[3]) for label, part in _all_of(found).items()}


def _conformal(ratios: Array) -> Array:
    """Of n errors over half their bands the one of rank (n + 1) 90%, rounded up."""
    # So wide they hold 90% of what is to come (split conformal), (n, d) to (d,); NaN of none.
    if not len(ratios):
        return np.full(ratios.shape[1:], np.nan)
    rank = min(len(ratios), math.ceil((len(ratios) + 1) * BAND))
    return np.asarray(np.sort(ratios, axis=0)[rank - 1])


def _size(errors: Array) -> float:
    """Root mean square."""
    return float(np.sqrt(np.square(errors).mean()))
