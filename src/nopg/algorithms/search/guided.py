"""Policies from trajectories that were optimised in the learned models.

Paths from the task's starts are optimised together with their feedback
(`trajectories.py`). They begin as what the log and the plans have to offer, and every
start may take over what was found from another. Small changes do not make a path
shorter, so detours are cut out of it where it comes near a later part of itself, as a
pendulum does with every swing. The feedback then acts in disturbed rollouts, and a
policy learns what it did there: not the path alone, but the way back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from nopg.algorithms.search.candidates import FoundPolicy
from nopg.algorithms.search.distillation import distil
from nopg.algorithms.search.planning import DistillationTargets
from nopg.algorithms.search.trajectories import (
    Feedback,
    Task,
    optimised,
    regulator,
    tracking,
)
from nopg.data.dataset import Dataset
from nopg.discount import discount_horizon
from nopg.dynamics.bounds import StateBounds
from nopg.dynamics.curvature import derivatives
from nopg.dynamics.replays import consecutive
from nopg.dynamics.rollouts import model_rollout, running_probability
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from nopg.fitted.history import TRAJECTORIES, CandidateMethod
from nopg.policies.arrays import Array, actor_of
from nopg.policies.families import Policy

N_STARTS, N_TAUGHT, N_STEPS = 3, 50, 2_000
"""Starts whose paths are optimised, and those that take them over, at most; and steps
of the former, from which on there is one of them."""
N_ITERATIONS = 10
"""Iterations from everything there is, and as many from the best of it."""
SEEN = 0.1
"""Weight gamma^T at which paths end."""
N_BEST, N_SOLVING, RESTING = 200, 30, 0.05
"""Logged states of the highest rewards from which one to rest at is looked for, steps
of the solver, and the most it may move there, in typical steps."""
N_CATCHES = 20
"""Moments of a path at which holding is tried."""
N_CUTS, N_FROM, N_TO, N_CUTTING = 10, 30, 6, 5
"""Detours that are cut out of a path at most, moments at which one may begin, places
nearest to each where it may end, and iterations after each cut."""
SHORTER = 0.01
"""Least gain of a cut, as a share of |J|."""
TIGHTER = (0.75, 0.5, 0.25, 0.1)
"""How far bounds are beyond a break of the law while paths are led away from it."""
ALIKE = 0.1
"""Share of the return that one controller for all starts may cost: two ways to do the
same are one too many for a policy."""
LEVELS = (0.02, 0.15)
"""Least and largest disturbance of an action, in halves of its range."""
N_DISTURBED, N_DRAWS = 150, 50
"""Disturbed rollouts, and disturbances of each."""
USED = 2.0 / 3.0
"""Share of a path that is taught: near its end nothing matters any more."""
N_ROWS = 8_000
"""States that are taught at most."""


def trajectory_candidate(
    models: Sequence[TransitionModel],
    data: Dataset,
    starts: Array,
    policies: Sequence[Policy],
    fresh: Policy,
    gamma: float,
    generator: np.random.Generator,
    advance: Callable[[float], None] = lambda best: None,
) -> FoundPolicy:
    """Optimise paths in the first model, and teach them to a copy of `fresh`.

    Args:
        models: Learned models; what is shared among starts is good in all of them.
        data: What they were learned from.
        starts: Where the task starts, (B, d_s).
        policies: What was found before: paths begin as theirs, too.
        fresh: An untrained policy.
        gamma: Discount factor of the task.
        generator: Source of disturbances.
        advance: Called with the best return so far after each iteration.
    """
    actions = regression_actions(data).numpy()
    limits = np.stack([actions.min(axis=0), actions.max(axis=0)])
    task, horizon = Task(models, limits, gamma), discount_horizon(gamma, SEEN)
    starts = starts[:N_TAUGHT]
    some = starts[: min(max(N_STEPS // horizon, 1), N_STARTS)]
    holding = rest_controller(task, data, actions, horizon)
    # The log may pass where the models end: paths begin as if they did not.
    loose = _loosened(task, data, 1.0)
    found = _begun(loose, data, actions, some, policies, holding)
    every = np.tile(some, (found.states.shape[1] // len(some), 1))
    found = optimised(loose, found, every, N_ITERATIONS, advance)
    found = _shared(loose, _caught(loose, found, holding, every), some)
    found = _without_detours(loose, found, holding, some)
    for share in TIGHTER if loose.models[0] is not task.models[0] else ():
        closer = _loosened(task, data, share)
        found = optimised(closer, found, some, N_CUTTING)
    found = _without_detours(task, found, holding, some)
    found = optimised(task, found, some, N_ITERATIONS, advance)
    found = _caught(task, found, holding, some)
    found = _shared(task, found, starts)
    student = copy.deepcopy(fresh)
    targets = _disturbed(task, found, starts, generator)
    distil(student, targets, is_close=True)
    return FoundPolicy(CandidateMethod(TRAJECTORIES), student)


def _loosened(task: Task, data: Dataset, share: float) -> Task:
    """The task in models whose bounds are so far on the way to around all the data."""
    columns = (data.observations, regression_actions(data), data.next_observations)
    given = (torch.as_tensor(np.array(x), dtype=torch.float64) for x in columns)
    around, own = StateBounds.of(*given)[0], task.models[0].bounds
    if torch.equal(around.low, own.low) and torch.equal(around.high, own.high):
        return task
    low, high = (
        torch.lerp(own.low, around.low, share),
        torch.lerp(own.high, around.high, share),
    )
    bounds = replace(own, low=low, high=high)
    return task._replace(models=[replace(one, bounds=bounds) for one in task.models])


def rest_controller(
    task: Task, data: Dataset, actions: Array, horizon: int
) -> Feedback:
    """The linear-quadratic regulator at the best state to rest at.

    From the logged states of the highest rewards Newton's method looks for states and
    actions at which the model does not move. Where there are none, it is the regulator
    at the best of these states.
    """
    model, order = task.models[0], np.argsort(-data.rewards, kind="stable")[:N_BEST]
    logged = np.asarray(data.observations, dtype=np.float64)
    d_s, typical = logged.shape[1], model.bounds.typical_step.numpy()
    every = np.concatenate([logged, actions], axis=1)
    low, high, unit = every.min(axis=0), every.max(axis=0), every.std(axis=0) + 1e-12
    points = every[order]
    for _ in range(N_SOLVING):
        found = derivatives(model, points[None, :, :d_s], points[None, :, d_s:])
        missed = (found.outcomes.next_states[0] - points[:, :d_s]) / typical
        slopes = (found.moving[0] - np.eye(d_s, every.shape[1])) / typical[:, None]
        # The least change, in deviations: what need not change stays.
        inverse = np.linalg.pinv(slopes * unit, rcond=1e-3)
        change = -np.einsum("bij,bj->bi", inverse, missed)
        points = np.clip(points + np.clip(change, -1.0, 1.0) * unit, low, high)
    after = model.arrays.step(points[:, :d_s], points[:, d_s:])
    moved = np.abs((after.next_states - points[:, :d_s]) / typical).max(axis=1)
    is_resting = (moved < RESTING) & (after.out_of_support < RESTING)
    chosen = every[order[0]]
    if is_resting.any():
        chosen = points[np.where(is_resting, after.rewards, -np.inf).argmax()]
    held = np.tile(chosen, (horizon, 1, 1))
    states, taken = held[..., :d_s], held[..., d_s:]
    gains = np.zeros((horizon, 1, actions.shape[1], d_s))
    still = Feedback(states, taken, gains)
    return still._replace(gains=gains + regulator(task, still))


def _begun(
    task: Task,
    data: Dataset,
    actions: Array,
    starts: Array,
    policies: Sequence[Policy],
    holding: Feedback,
) -> Feedback:
    """Where paths from every start begin.

    As if it held already, back to the best episode, and as earlier policies would.
    """
    horizon, count = len(holding.states), len(starts)
    every = consecutive(data, np.ones(len(data), dtype=bool))
    run = max(every, key=lambda rows: float(np.sum(data.rewards[rows])))
    logged = np.asarray(data.observations, dtype=np.float64)
    paths = [(logged[run][:, None], actions[run][:, None])]
    for policy in policies:
        made = model_rollout(
            task.models[0], actor_of(policy), starts, task.gamma, horizon
        )
        paths.append((made.states, made.actions))
    found = [Feedback(*(np.repeat(field, count, axis=1) for field in holding))]
    for states, taken in paths:
        steps = np.minimum(np.arange(horizon), len(states) - 1)  # rests at its end
        x, u = states[steps], taken[steps]
        path = Feedback(x, u, np.zeros((*u.shape, x.shape[2])))
        if x.shape[1] < count:  # it starts elsewhere
            path = tracking(task, path)
        repeats = count // x.shape[1]
        found.append(Feedback(*(np.repeat(field, repeats, axis=1) for field in path)))
    return Feedback(
        *(np.concatenate(field, axis=1) for field in zip(*found, strict=True))
    )


def _caught(
    task: Task, controllers: Feedback, holding: Feedback, starts: Array
) -> Feedback:
    """The controllers, each up to the moment from which it is best to hold."""
    horizon, n = controllers.states.shape[:2]
    moments = np.linspace(0, horizon, N_CATCHES + 1).astype(int)  # the last is never
    count = len(moments)
    is_later = np.arange(horizon)[:, None] >= np.repeat(moments, n)  # (T, count n)
    every = controllers.of_paths(np.tile(np.arange(n), count))
    tried = Feedback(
        *(
            np.where(is_later.reshape(horizon, -1, *[1] * (own.ndim - 2)), held, own)
            for own, held in zip(every, holding, strict=True)
        )
    )
    earned = task.returns(tried, np.tile(starts, (count, 1)))
    best = earned.reshape(count, n).argmax(axis=0)
    return tried.of_paths(best * n + np.arange(n))


def _without_detours(
    task: Task, controllers: Feedback, holding: Feedback, starts: Array
) -> Feedback:
    """The controllers after cuts, and some iterations after each, while they gain."""
    for _ in range(N_CUTS):
        shorter = _shortened(task, controllers, holding, starts)
        if (shorter.actions == controllers.actions).all():
            break
        found = _shared(task, optimised(task, shorter, starts, N_CUTTING), starts)
        if (
            task.returns(found, starts).mean()
            <= task.returns(controllers, starts).mean()
        ):
            break
        controllers = found
    return controllers


def _shortened(
    task: Task, controllers: Feedback, holding: Feedback, starts: Array
) -> Feedback:
    """The controllers, each without the detour that costs it most.

    A detour begins at one of some moments and ends at a later one at which the path is
    nearest to where it was. From there what follows is tried at once, and what it earns
    is compared with going on; all that were spared is held at the end.
    """
    horizon, n = controllers.states.shape[:2]
    made = task.follow(controllers, starts)
    x = made.states / np.maximum(made.states.std(axis=(0, 1)), 1e-12)
    moments = np.unique(np.linspace(0, horizon - 2, N_FROM).astype(int))
    tried = [
        (path, i, j)
        for path in range(n)
        for i in moments
        for j in (i, *_nearest_later(x[:, path], i))
    ]
    path, first, last = np.array(tried).T
    longer = Feedback(
        *(
            np.concatenate([own, np.repeat(held[:1], n, axis=1)])
            for own, held in zip(controllers, holding, strict=True)
        )
    )
    ahead = np.minimum(np.arange(horizon)[:, None] + last, horizon)  # (T, tried)
    then = Feedback(*(field[ahead, path] for field in longer))
    # One model will do to choose; what comes of it is held against all of them.
    earned = task._replace(models=task.models[:1]).returns(
        then, made.states[first, path]
    )
    going_on = np.maximum.accumulate(np.where(first == last, np.arange(len(path)), 0))
    gains = task.gamma**first * (earned - earned[going_on])
    worth = SHORTER * np.abs(made.returns)
    steps = np.tile(np.arange(horizon)[:, None], n)  # (T, n)
    for one in range(n):
        best = np.where(path == one, gains, -np.inf).argmax()
        if gains[best] > worth[one]:
            later = steps[:, one] >= first[best]
            steps[later, one] += last[best] - first[best]
    steps = np.minimum(steps, horizon)
    return Feedback(*(field[steps, np.arange(n)] for field in longer))


def _nearest_later(x: Array, i: int) -> Array:
    """Later moments at which a path (T, d) comes nearest to where it is at `i`."""
    away = np.linalg.norm(x[i + 1 :] - x[i], axis=1).round(2)  # in deviations
    is_near = (away[1:-1] <= away[:-2]) & (away[1:-1] <= away[2:])
    near = np.flatnonzero(is_near)[::-1] + 1  # of a rest, its end
    return np.asarray(i + 1 + near[np.argsort(away[near], kind="stable")[:N_TO]])


def _shared(task: Task, controllers: Feedback, starts: Array) -> Feedback:
    """One controller a start: the one that is best for all, where it is good enough."""
    n = controllers.states.shape[1]
    every = controllers.of_paths(np.repeat(np.arange(n), len(starts)))
    earned = task.returns(every, np.tile(starts, (n, 1))).reshape(n, -1)
    common, own = earned.mean(axis=1).argmax(), earned.max(axis=0)
    is_fine = earned[common] >= own - ALIKE * np.abs(own)
    return controllers.of_paths(np.where(is_fine, common, earned.argmax(axis=0)))


def _disturbed(
    task: Task, controllers: Feedback, starts: Array, generator: np.random.Generator
) -> DistillationTargets:
    """What the controllers do in rollouts whose actions are disturbed.

    Rollouts that lose by it are left out: from there the feedback knows no way back.
    """
    horizon, n, d_a = controllers.actions.shape
    copies, held = max(2, N_DISTURBED // n), max(1, horizon // N_DRAWS)
    levels = np.concatenate([[0.0], np.geomspace(*LEVELS, copies - 1)])
    draws = generator.uniform(-0.5, 0.5, (-(-horizon // held), copies * n, d_a))
    noise = np.repeat(draws, held, axis=0)[:horizon] * np.ptp(task.limits, axis=0)
    noise *= np.repeat(levels, n)[:, None]
    every = controllers.of_paths(np.tile(np.arange(n), copies))
    paths = task.follow(every, np.tile(starts, (copies, 1)), noise)
    calm = np.tile(paths.returns[:n], copies)
    running = running_probability(paths.outcomes)[:-1]
    running = running * (paths.returns >= calm - ALIKE * np.abs(calm))
    rows = np.argwhere(running[: int(USED * horizon)] > 0.5)
    rows = rows[generator.permutation(len(rows))[:N_ROWS]]
    states, actions = (x[rows[:, 0], rows[:, 1]] for x in (paths.states, paths.actions))
    return DistillationTargets(states, actions, np.ones(len(states)), 1)
