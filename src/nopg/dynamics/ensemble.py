"""Two models of one log, and whether they still hold after many steps.

Where the system is noisy the log is replayed, from some of its states with its own actions: several
length scales and noises, and no kernel at all, are tried on some episodes and compared by replaying
the others. A system without noise is followed closely by its model, and left alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.dynamics.breaks import within_breaks
from nopg.dynamics.hyperparameters import FREE, LINEAR, SMOOTHER, HyperparameterLimits
from nopg.dynamics.noise import N_ROWS, ProcessNoise
from nopg.dynamics.replays import Names, Replays
from nopg.dynamics.rewards import KnownReward
from nopg.dynamics.stiction import SIZES, Stiction
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from nopg.policies.arrays import Array
from nopg.threads import ahead

MORE_THAN_NOISE = 1.5  # error over what noise explains from which episodes differ
CHOICES = (FREE, *SMOOTHER, LINEAR)
BETTER = 0.9  # least error over that of a choice, up to which a later one is taken
HELD_OUT = 5  # one episode in so many is held out to compare them
SEEN = 0.01  # share of the steps of a log that move nothing at all, from which on stiction is tried
NEGLIGIBLE = 1e-3  # error in deviations below which none counts: what stands may have none at all


class Ensemble(Sequence[TransitionModel]):
    """Two models of one data set, the second of which may be fitted beside what the first does."""

    def __init__(self, whole: TransitionModel, part: Callable[[], TransitionModel]) -> None:
        self._each = (lambda: whole, part)

    def __len__(self) -> int:
        return len(self._each)

    def __getitem__(self, i: int) -> TransitionModel:  # type: ignore[override]
        return self._each[i]()

    def __reduce__(self) -> Any:
        return tuple, (tuple(self),)


def fit_ensemble(
    data: Dataset,
    generator: np.random.Generator,
    known_reward: KnownReward | None = None,
    earlier: TransitionModel | None = None,
) -> Ensemble:
    """Two models of one data set, so that no policy need fool only one."""
    # One of all the data and one of a random four fifths of them, with hyperparameters and inducing
    # points of its own, so that its errors are not quite those of the first. A known reward is not
    # regressed. Hyperparameters start from those of an earlier model, if there is one.
    columns, past = model_columns(data), data.history
    order = torch.as_tensor(generator.permutation(len(data)))

    def fitted(rows: Sequence[Tensor]) -> TransitionModel:
        return TransitionModel.fit(
            *rows,
            generator=generator,
            initial=None if earlier is None else earlier.process,
            history=past,
            known_reward=known_reward,
        )

    whole, rows = within_breaks(fitted(columns), columns, fitted)
    kept = [column[rows] for column in columns]
    episodes = None if data.episodes is None else data.episodes[rows.numpy()]
    limits, whole = replayed(whole, kept, episodes)
    part = order[rows[order]]  # the same rows as ever, where there is no break
    part = part[: max(2, 4 * len(part) // 5)]
    seen = [column[part] for column in columns]
    alike = partial(TransitionModel.fit, like=whole, limits=limits, history=past)
    return Ensemble(whole, ahead(lambda: alike(*seen, generator=generator)))


def replayed(
    model: TransitionModel,  # of all the data, without limits
    columns: Sequence[Tensor],  # as `model_columns` gives them
    episodes: Names | None,  # names of the episodes, (n,); None if rows are in no order
) -> tuple[HyperparameterLimits, TransitionModel]:
    """Limits of length scales and noise with which replays stay with the log."""
    # And the model of all the data within them, from the hyperparameters compared.
    # Where replays err by more than its noise explains, episodes differ by more than
    # the rows of one show, and the noise is that of errors at held-out episodes.
    if model.noise is None or episodes is None or len(np.unique(episodes)) < 2:
        return FREE, model
    names = np.unique(episodes)
    is_other = np.isin(episodes, names[HELD_OUT // 2 % len(names) :: HELD_OUT])
    rows = torch.from_numpy(is_other)
    held_out = [column[rows] for column in columns]
    others = Replays.of(held_out, episodes[is_other])
    if others is None:
        return FREE, model
    n_present = model.process.linear.shape[1] - 1  # the past is copied
    deviation = columns[0][:, :n_present].std(dim=0, correction=0).numpy()
    deviation, past = np.maximum(deviation, 1e-12), model.history
    some = [column[~rows] for column in columns]
    # The same limits come twice: the rows whose likelihood chose the model's may be unlucky ones.
    choices, fitted = (FREE, *CHOICES), [refitted(model, some)]
    for limits in CHOICES:
        other = TransitionModel.fit(
            *some,
            generator=np.random.default_rng(0),
            limits=limits,
            history=past,
            known_reward=model.known_reward,
            angles=model.process.angles,
            potential=model.potential,
        )
        fitted.append(replace(other, bounds=model.bounds))
    errors = [others.error(one, deviation) for one in fitted]
    best = int(np.argmax(BETTER * np.array(errors) <= min(errors)))
    chosen = fitted[best]
    limits, seen = choices[best], None
    noise = chosen.noise if best else model.noise
    if np.median(others.noise_ratio(chosen)[:n_present]) > MORE_THAN_NOISE:
        inputs, missed, _ = new = _errors(chosen, held_out, is_new=True)
        moved = (columns[3] - columns[0])[:, :n_present]
        wider = ProcessNoise.fit(inputs, missed, moved.std(dim=0, correction=0))
        # Gusts that are too large carry an unstable system off, and the mean of its paths.
        if others.error(replace(chosen, noise=wider), deviation) * BETTER <= errors[best]:
            noise, seen = wider, new
    whole = replace(model, noise=noise)
    if best:
        whole = TransitionModel.fit(
            *columns,
            generator=np.random.default_rng(0),
            like=replace(whole, process=chosen.process),
            limits=limits._replace(is_fixed=True),  # as compared
            history=past,
        )
    held = _stiction(replace(chosen, noise=noise), some, others, deviation)
    held = held and Stiction.of(columns, n_present, held.size)
    if noise is not None:
        noise = noise.coloured(*(seen or _errors(whole, columns, is_new=False)))
    return limits, replace(whole, noise=noise, stiction=held)


def _stiction(
    model: TransitionModel, columns: Sequence[Tensor], others: Replays, deviation: Array
) -> Stiction | None:
    """That of `columns` with which replays of others go best; None if none is needed."""
    stands = (columns[3] == columns[0])[:, : len(deviation)].all(dim=1)
    if stands.double().mean() < SEEN:
        return None
    choices = [None, *(Stiction.of(columns, len(deviation), size) for size in SIZES)]
    errors = [others.error(replace(model, stiction=one), deviation, NEGLIGIBLE) for one in choices]
    return choices[int(np.argmax(BETTER * np.array(errors) <= min(errors)))]


def refitted(model: TransitionModel, columns: Sequence[Tensor]) -> TransitionModel:
    """The model with its hyperparameters, of other rows."""
    generator, n_present = np.random.default_rng(0), model.process.linear.shape[1] - 1
    is_linear = bool((model.process.curved >= n_present).all())
    limits = HyperparameterLimits(is_linear=is_linear, is_fixed=True)
    return TransitionModel.fit(
        *columns, generator=generator, like=model, limits=limits, history=model.history
    )


def _errors(
    model: TransitionModel, columns: Sequence[Tensor], *, is_new: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One-step errors for `coloured`; of rows fitted to, as large as their noise."""
    is_free = ~model.bounds.are_left_out(columns[3])
    states, actions, _, following = (x[is_free][:N_ROWS] for x in columns[:4])
    starts = torch.ones(len(states), dtype=torch.bool)
    starts[1:] = (following[:-1] != states[1:]).any(dim=1)
    inputs = torch.cat([states, actions], dim=1)
    targets, found = model.targets(columns)[is_free][:N_ROWS], model.process
    errors = targets - found.predict(inputs) if is_new else found.noise_errors(inputs, targets)
    return inputs, errors[:, :-1], starts


def model_columns(data: Dataset) -> tuple[Tensor, ...]:
    """States, actions, rewards, next states and terminations, as models take them."""
    return (
        torch.tensor(data.observations).double(),
        regression_actions(data),
        torch.tensor(data.rewards).double(),
        torch.tensor(data.next_observations).double(),
        torch.tensor(data.terminations).double(),
    )
