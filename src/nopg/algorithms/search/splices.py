"""Controllers made of parts of others: caught where it is best to rest, and shortened.

Small changes do not make a path shorter, however long it is. So detours are cut out of it where it
comes near a later part of itself, as a pendulum does with every swing: what follows then is tried
at once, and the feedback closes the gap.
"""

import numpy as np

from nopg.algorithms.search.trajectories import Feedback, Task, optimised
from nopg.policies.arrays import Array

N_CATCHES = 20  # moments of a path at which holding is tried
N_CUTS, N_FROM, N_TO, N_CUTTING = 10, 30, 6, 4
"""Detours that are cut out of a path at most, moments at which one may begin, places
nearest to each where it may end, and iterations after each cut."""
SHORTER = 0.01  # least gain of a cut, as a share of |J|
ALIKE = 0.1
"""Share of the return that one controller for all starts may cost: two ways to do the
same are one too many for a policy."""


def caught(task: Task, controllers: Feedback, holding: Feedback, starts: Array) -> Feedback:
    """The controllers, each up to the moment from which it is best to hold."""
    horizon, n = controllers.states.shape[:2]
    moments = np.linspace(0, horizon, N_CATCHES + 1).astype(int)  # the last is never
    count = len(moments)
    is_later = np.arange(horizon)[:, None] >= np.repeat(moments, n)  # (T, count n)
    tried = controllers.of_paths(np.tile(np.arange(n), count))
    tried = tried.each(lambda own, held: np.where(is_later.T, held.T, own.T).T, holding)
    earned = task.returns(tried, np.tile(starts, (count, 1)))
    return tried.of_paths(earned.reshape(count, n).argmax(axis=0) * n + np.arange(n))


def without_detours(task: Task, controllers: Feedback, held: Feedback, starts: Array) -> Feedback:
    """The controllers after cuts, and some iterations after each, while they gain."""
    best = task.returns(controllers, starts).mean()
    for _ in range(N_CUTS):
        shorter = shortened(task, controllers, held, starts)
        if (shorter.actions == controllers.actions).all():
            break
        shorter = shared(task, optimised(task, shorter, starts, N_CUTTING), starts)
        earned = task.returns(shorter, starts).mean()
        if earned <= best:
            break
        controllers, best = shorter, earned
    return controllers


def shortened(task: Task, controllers: Feedback, holding: Feedback, starts: Array) -> Feedback:
    """The controllers, each without the detour that costs it most."""
    # A detour begins at one of some moments and ends at a later one at which the path is nearest to
    # where it was. From there what follows is tried at once, and what it earns is compared with
    # going on; all that were spared is held at the end.
    horizon, n = controllers.states.shape[:2]
    made = task.follow(controllers, starts)
    x = made.states / np.maximum(made.states.std(axis=(0, 1)), 1e-12)
    moments = np.unique(np.linspace(0, horizon - 2, N_FROM).astype(int))
    pairs = ((one, i) for one in range(n) for i in moments)
    tried = [(one, i, j) for one, i in pairs for j in (i, *_nearest_later(x[:, one], i))]
    path, first, last = np.array(tried).T
    longer = controllers.each(
        lambda own, held: np.concatenate([own, np.repeat(held[:1], n, axis=1)]), holding
    )
    ahead = np.minimum(np.arange(horizon)[:, None] + last, horizon)  # (T, tried)
    then = longer.each(lambda field: field[ahead, path])
    # One model will do to choose; what comes of it is held against all of them.
    earned = task._replace(models=task.models[:1]).returns(then, made.states[first, path])
    going_on = np.maximum.accumulate(np.where(first == last, np.arange(len(path)), 0))
    gains = task.gamma**first * (earned - earned[going_on])
    worth = SHORTER * np.abs(made.returns)
    steps = np.tile(np.arange(horizon)[:, None], n)  # (T, n)
    for one in range(n):
        best = np.where(path == one, gains, -np.inf).argmax()
        if gains[best] > worth[one]:
            steps[steps[:, one] >= first[best], one] += last[best] - first[best]
    steps = np.minimum(steps, horizon)
    return longer.each(lambda field: field[steps, np.arange(n)])


def _nearest_later(x: Array, i: int) -> Array:
    """Later moments at which a path (T, d) comes nearest to where it is at `i`."""
    away = np.linalg.norm(x[i + 1 :] - x[i], axis=1).round(2)  # in deviations
    is_near = (away[1:-1] <= away[:-2]) & (away[1:-1] <= away[2:])
    near = np.flatnonzero(is_near)[::-1] + 1  # of a rest, its end
    return np.asarray(i + 1 + near[np.argsort(away[near], kind="stable")[:N_TO]])


def shared(task: Task, controllers: Feedback, starts: Array) -> Feedback:
    """One controller a start: the one that is best for all, where it is good enough."""
    n = controllers.states.shape[1]
    every = controllers.of_paths(np.repeat(np.arange(n), len(starts)))
    earned = task.returns(every, np.tile(starts, (n, 1))).reshape(n, -1)
    common, own = earned.mean(axis=1).argmax(), earned.max(axis=0)
    is_fine = earned[common] >= own - ALIKE * np.abs(own)
    return controllers.of_paths(np.where(is_fine, common, earned.argmax(axis=0)))
