"""How long `nopg.learn` takes and how much memory, known before it begins.

What a search does is counted in likelihoods, in steps of rollouts and in additions of Python, and
some of each are timed, here and now. A rough model of a few rows tells how many kernels there are
and whether the system is noisy. The factors of the counts were measured once.
"""

import time
import timeit
from typing import Any, NamedTuple

import numpy as np
import torch

from nopg.algorithms.build import as_dataset
from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.search import planning, refinement
from nopg.algorithms.search.candidates import ASCENTS, N_ASCENT_ROWS, N_ROUNDS, PLANS
from nopg.algorithms.search.clock import GAMMA, discount_of
from nopg.algorithms.search.distillation import BATCH, MAX_STEPS, N_STEPS, distil
from nopg.algorithms.search.memory import AUTO, remembered, starting_states
from nopg.algorithms.search.selection import HIDDEN, MAX_STARTS
from nopg.bellman.samples import initial_state_tensor
from nopg.data.dataset import Dataset
from nopg.discount import discount_horizon
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.gaussian_process import N_INDUCING, N_ROWS, PER_KERNEL
from nopg.dynamics.hyperparameters import FREE, JITTER
from nopg.dynamics.posterior import N_FEATURES
from nopg.dynamics.transition_model import TransitionModel
from nopg.likelihood import likelihood
from nopg.policies.arrays import Array
from nopg.policies.build import PolicySpec
from nopg.randomness import Seed
from nopg.threads import side_by_side

N_ROUGH, N_LIKELY, N_TRIES = 1_000, 96, 12  # rows of the rough model, of a likelihood; timings
EASY, ENDING = 0.15, 0.35
"""What is left of the later parts where tasks begin at their best: plans often cannot
be bettered. And of rollouts where episodes end."""
PER_ROW = 450  # additions of Python that rows are sorted and looked up in, each
ALONE, ALONE_PER_ROW, USEFUL, AT_ONCE = 62e6, 120, 5, 7
"""Additions that one core does alone, in all and a row; cores that do the rest, that hold rows."""


class LearningCost(NamedTuple):
    """What a search will take, to about a factor of one and a half."""

    seconds: float
    megabytes: float  # beyond what the process has
    n_cores: int

    def __str__(self) -> str:
        cores = "one core" if self.n_cores == 1 else f"{self.n_cores} cores"
        return f"Learning takes about {self.seconds:.0f} s on {cores}, {self.megabytes:.0f} MB."


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

    Example:
        >>> nopg.learning_cost(data, n_refining=20).seconds > 0.0
        True
    """
    data = as_dataset(data)
    far = discount_of(data)
    gamma = NOPG(gamma=far if gamma is None else gamma).config.gamma
    data = remembered(data, history)
    like = torch.tensor(data.observations, dtype=torch.float64)
    starts = initial_state_tensor(starting_states(data, initial_states), like).numpy()
    sparse = planning.is_sparse(data, Seed(0).numpy("places"), far > GAMMA)
    return cost_of_search(data, starts, gamma, n_updates, n_refining, sparse)


def cost_of_search(
    data: Dataset, starts: Array, gamma: float, n_updates: int, n_refining: int, sparse: bool
) -> LearningCost:
    """The same of data and starts with their history."""
    model, actions, unit, step, row, plain = _measured(data)
    n_starts, (n, d_s) = len(starts), data.observations.shape
    is_noisy, n_curved = model.noise is not None, len(model.process.curved)
    n_policies, r = len(PLANS) + (1 if sparse else len(ASCENTS) + N_ROUNDS), refinement
    n_anchors, rows = min(n, planning.N_ANCHORS), min(n, N_ASCENT_ROWS)
    n_tried = len(planning.actions_to_try(actions, np.random.default_rng(0)))
    near, seen = discount_horizon(gamma), discount_horizon(gamma, r.SEARCH_WEIGHT)
    left, lasts = 1.0, ENDING if model.termination is not None else 1.0
    # Where the task begins where rewards are highest plans may leave no gain.
    some, high = starts[:N_LIKELY], model.reward_limits[1]
    first_step = model.arrays.follow(some, np.tile(actions.mean(axis=0), (1, len(some), 1)))
    if np.median(first_step.rewards) >= high - 0.01 * abs(high):
        left = lasts = EASY
    # Steps of rollouts in each part.
    again = 0 if sparse else left * N_ROUNDS * planning.N_ANCHORS * (1 if is_noisy else 2)
    planned = (n_anchors + again) * n_tried * planning.MAX_REPEAT
    first = r.FIRST_ROUND * n_policies
    few = n_checked = min(n_starts, r.N_STARTS)
    late = discount_horizon(gamma, r.FINAL_WEIGHT)
    last = r.N_KEPT * min(n_starts, MAX_STARTS) * late  # half of two: many rest
    drawn = 16 * min(n, 4000) + 15 * min(n_starts, 200) * near
    if is_noisy:
        planned, first = planned * planning.N_GUSTS, first * len(r.CREDITS)
        few, n_checked = r.N_NEW_PATHS, r.N_PATHS
        last, drawn = 2 * r.N_KEPT * r.N_FINAL_PATHS * seen, drawn + 7 * 256 * seen
    n_ascents = n_refining * (first + (1.0 - r.FIRST_ROUND) * r.N_KEPT)
    refined = n_ascents * few * near
    n_checks = n_policies + n_ascents / (10 if is_noisy else 5)
    n_kernels = max(1, int(model.process.weights.count_nonzero()))
    steps = planned + lasts * (2.6 * refined + 2 * n_checks * n_checked * seen + last)
    steps += left**0.5 * drawn * (1.0 + n_curved * N_FEATURES / n_kernels) + 12 * n
    steps += 10_000 * discount_horizon(gamma, 0.1) if sparse else 0  # of trajectories
    # Likelihoods that the fits take, refits of the verdict, ascents and distillation.
    widths = [model.process.n_inducing(j) for j in model.process.curved.tolist()]
    products = sum(m**2 for m in widths) * min(n, PER_KERNEL * N_INDUCING)
    units = n_curved * 110.0 + 13 * products / 21e6
    units += left * (0.15 * n_ascents + 0.0002 * refined)
    units += n_curved * 300.0 if is_noisy and data.episodes is not None else 0.0
    units += 0.1 * n_anchors + 0.04 * again + (2_500.0 if sparse else left * (80.0 + 0.13 * rows))
    taught, cores = 1.1 * MAX_STEPS * BATCH * sparse, torch.get_num_threads()  # rows of lessons
    # Additions of Python: no other part is much faster on wider registers.
    added = PER_ROW * n + (not sparse) * left * len(ASCENTS) * n_updates * (5_000 + 110 * rows)
    seconds = units * unit + steps * step + taught * row + added * plain
    alone = min((ALONE + ALONE_PER_ROW * n) * plain, 0.4 * seconds)
    seconds = alone + (seconds - alone) / min(cores, USEFUL)
    held = min(cores, AT_ONCE) * min(n, N_ROWS) + (4 + 0.5 * cores) * n_curved * N_INDUCING
    numbers = N_INDUCING * held + n * 12 * (2 * d_s + 4)
    at_once = max(n_anchors, again / N_ROUNDS) / (n_anchors + again)  # one plan after the other
    numbers += 2 * at_once * planned * (3 * d_s + 6)
    return LearningCost(seconds, 60.0 + 8e-6 * numbers, cores)


def _measured(data: Dataset) -> tuple[TransitionModel, Array, float, float, float, float]:
    """A rough model, actions; seconds of a likelihood, a step, a lesson's row and an addition."""
    rng = np.random.default_rng(0)
    columns = model_columns(data.subset(np.sort(rng.permutation(len(data))[:N_ROUGH])))
    limits = FREE._replace(n_samples=N_LIKELY)
    with side_by_side():
        model = TransitionModel.fit(*columns, generator=rng, limits=limits, history=data.history)
    x = torch.from_numpy(rng.normal(size=(FREE.n_samples, len(model.process.centre))))
    origin, (states, actions) = np.zeros(x.shape[1] + 2), (x.numpy() for x in columns[:2])
    acted = np.tile(actions[:32], (planning.MAX_REPEAT, 1, 1))
    n, widths = min(len(states), N_LIKELY), (states.shape[1], actions.shape[1])
    spec = PolicySpec(kind="deterministic", n_states=widths[0], n_outputs=widths[1], hidden=HIDDEN)
    policy = spec.build(torch.Generator())
    lesson = planning.DistillationTargets(states[:n], actions[:n], np.ones(n), 1)
    works = (
        lambda: likelihood(origin, x, x[:, 0], JITTER, False),
        lambda: model.arrays.follow(states[:32], acted),
        lambda: distil(policy, lesson),
        lambda: sum(range(N_ROUGH)),
    )
    cores, tries = torch.get_num_threads(), list[list[float]]()
    torch.set_num_threads(1)  # others would do a part of what is timed
    try:  # the least of some tries of this thread, in turn: others use the machine, too
        for _ in range(N_TRIES):
            tries.append([timeit.timeit(one, timer=time.thread_time, number=1) for one in works])
    finally:
        torch.set_num_threads(cores)
    counts = [1, acted[..., 0].size, N_STEPS * n, N_ROUGH]
    return model, actions, *(np.min(tries, axis=0) / counts).tolist()
