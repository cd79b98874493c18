"""How long `nopg.learn` takes and how much memory, known before it begins.

What a search does is counted: fits of so many targets, rollouts of so many steps. What
one of these takes is measured, here and now: one evaluation of a likelihood stands for
the linear algebra, and steps of a rough model, fitted to a few of the rows, for
rollouts. The rough model also says how many kernels there are and whether the system is
noisy. The counts' factors were measured once; they are in units of these two, so that
they hold on other machines.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import torch

from nopg.algorithms.build import as_dataset
from nopg.algorithms.search.candidates import ASCENTS, N_ASCENT_ROWS, PLANS
from nopg.algorithms.search.clock import GAMMA, discount_of
from nopg.algorithms.search.memory import AUTO, remembered, starting_states
from nopg.algorithms.search.planning import (
    MAX_ACTIONS,
    MAX_REPEAT,
    N_ANCHORS,
    N_GUSTS,
    N_LEVELS,
    is_sparse,
)
from nopg.algorithms.search.refinement import (
    CREDITS,
    FINAL_WEIGHT,
    FIRST_ROUND,
    N_FINAL_PATHS,
    N_KEPT,
    N_NEW_PATHS,
    N_PATHS,
    N_STARTS,
    SEARCH_WEIGHT,
)
from nopg.algorithms.search.selection import MAX_STARTS
from nopg.data.dataset import Dataset
from nopg.discount import discount_horizon
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.gaussian_process import N_INDUCING, N_ROWS
from nopg.dynamics.hyperparameters import FREE, negative_log_posterior
from nopg.dynamics.posterior import N_FEATURES
from nopg.dynamics.transition_model import TransitionModel
from nopg.randomness import Seed

N_PILOT, N_LIKELY = 1_000, 96
"""Rows of the rough model, and those that its hyperparameters are chosen by."""
N_TIMED, N_LIKELIHOOD = 32, 256
"""Paths whose steps are timed, and rows of the likelihood."""
EASY = 0.2
"""Share of the later parts where tasks begin at their best, and often end early."""
SHARED = 0.45
"""What a further core adds to the speed of one."""


class LearningCost(NamedTuple):
    """What a search will take, to about a factor of one and a half.

    It ends earlier where the first plans leave nothing to be gained.
    """

    seconds: float
    megabytes: float  # beyond what the process has
    n_cores: int

    def __str__(self) -> str:
        cores = "one core" if self.n_cores == 1 else f"{self.n_cores} cores"
        time = f"{self.seconds:.0f} s"
        if self.seconds > 90.0:
            time = f"{self.seconds / 60.0:.0f} min"
        return f"Learning takes about {time} on {cores}, {self.megabytes:.0f} MB."


def learning_cost(
    data: Dataset,
    initial_states: Any = None,
    *,
    gamma: float | None = None,
    n_updates: int = 200,
    n_refining: int = 100,
    history: int | str = AUTO,
) -> LearningCost:
    """About how long `nopg.learn` would take with the same arguments, and its memory.

    Takes a second or two itself.

    Example:
        >>> cost = nopg.learning_cost(data, n_refining=20)
        >>> cost.seconds > 0.0
        True
    """
    data = remembered(as_dataset(data), history)
    n_starts = len(starting_states(data, initial_states))
    far = discount_of(data)
    sparse = is_sparse(data, Seed(0).numpy("places"), far > GAMMA)
    gamma = far if gamma is None else gamma
    return cost_of_search(data, n_starts, gamma, n_updates, n_refining, sparse)


def cost_of_search(
    data: Dataset,
    n_starts: int,
    gamma: float,
    n_updates: int,
    n_refining: int,
    sparse: bool,
) -> LearningCost:
    """The same of data with their history, and of how many starts there are."""
    model, unit, step = _measured(data)
    n, (_, d_s) = len(data), data.observations.shape
    is_noisy, n_curved = model.noise is not None, len(model.process.curved)
    n_policies = len(PLANS) + (1 if sparse else len(ASCENTS))
    n_credits, n_gusts = (len(CREDITS), N_GUSTS) if is_noisy else (1, 1)
    n_tried = min(MAX_ACTIONS, len(np.unique(data.actions[:N_PILOT], axis=0)))
    if not data.is_discrete and data.actions.shape[1] == 1:
        n_tried = N_LEVELS
    near, seen = discount_horizon(gamma), discount_horizon(gamma, SEARCH_WEIGHT)
    few = min(n_starts, N_STARTS)
    checked, updated = (N_PATHS, N_NEW_PATHS) if is_noisy else (few, few)
    left = EASY if _is_easy(data) else 1.0
    # Of each: how many steps of rollouts.
    planned = min(n, N_ANCHORS) * n_tried * MAX_REPEAT * n_gusts
    rounds = FIRST_ROUND * n_credits * n_policies + (1.0 - FIRST_ROUND) * N_KEPT
    refined = n_refining * rounds * updated * near
    estimated = (n_policies + n_refining * rounds / (10 if is_noisy else 5)) * 2
    late = discount_horizon(gamma, FINAL_WEIGHT)
    last = N_KEPT * 2 * min(n_starts, MAX_STARTS) * late / 2  # many come to rest
    drawn = 32 * min(n, 4000) + 30 * min(n_starts, 50) * near
    if is_noisy:
        last, drawn = N_KEPT * 2 * N_FINAL_PATHS * seen, drawn + 7 * 256 * seen
    n_kernels = max(1, int(model.process.weights.count_nonzero()))
    steps = planned + left * (2.6 * refined + estimated * checked * seen + last)
    steps += drawn * (1.0 + n_curved * N_FEATURES / n_kernels)
    steps += 6_000 * discount_horizon(gamma, 0.1) if sparse else 0
    # And how many likelihoods: fits, refits of the verdict, ascents, distillation.
    units = n_curved * (150.0 + 12 * 15.0)
    units += left * (0.4 * n_refining * rounds + 0.0002 * refined)
    units += n_curved * 900.0 if is_noisy and data.episodes is not None else 0.0
    rows = min(n, N_ASCENT_ROWS)
    ascents = 80.0 + 0.13 * rows + len(ASCENTS) * n_updates * 0.0013 * rows
    units += 2000.0 if sparse else left * ascents
    units += 0.2 * min(n, N_ANCHORS)
    cores = torch.get_num_threads()
    seconds = (units * unit + steps * step) / (1.0 + SHARED * min(cores - 1, 4))
    numbers = 4 * cores * N_INDUCING * min(n, N_ROWS) + 4 * n_curved * N_INDUCING**2
    numbers += n * 12 * (2 * d_s + 4) + 2 * planned * (3 * d_s + 6)
    return LearningCost(seconds, 60.0 + 8e-6 * numbers, cores)


def _is_easy(data: Dataset) -> bool:
    """Whether episodes begin where rewards are highest: plans may leave no gain."""
    if data.episodes is None:
        return False
    _, first = np.unique(data.episodes, return_index=True)
    high, low = data.rewards.max(), data.rewards.min()
    return bool(np.median(data.rewards[first]) >= high - 0.01 * (high - low))


def _measured(data: Dataset) -> tuple[TransitionModel, float, float]:
    """A rough model; seconds of a likelihood and of a step of a path in the model."""
    some = np.random.default_rng(0).permutation(len(data))[:N_PILOT]
    columns = model_columns(data.subset(np.sort(some)))
    model = TransitionModel.fit(
        *columns,
        generator=np.random.default_rng(0),
        limits=FREE._replace(n_samples=N_LIKELY),
        history=data.history,
    )
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(N_LIKELIHOOD, 1)))
    inputs = x.expand(-1, columns[0].shape[1] + columns[1].shape[1]).contiguous()
    parameters = np.zeros(inputs.shape[1] + 2)
    unit = _seconds(lambda: negative_log_posterior(parameters, inputs, x[:, 0]))
    paths = np.arange(N_TIMED) % len(some)
    states, actions = (column.numpy()[paths] for column in columns[:2])
    acted = np.tile(actions, (MAX_REPEAT, 1, 1))
    step = _seconds(lambda: model.follow(states, acted)) / (N_TIMED * MAX_REPEAT)
    return model, unit, step


def _seconds(work: Any) -> float:
    """The least of some tries: others may use the machine, too."""
    found = []
    for _ in range(5):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)
