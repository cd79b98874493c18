"""Trajectory optimisation in a learned model: iterative LQR from the task's starts.

The actions of a path are changed together with a linear feedback around it, which keeps an unstable
path near its own prediction: a backward pass finds the best change and the gains in a linear model
of the motion and a quadratic one of the rewards, and a forward pass goes as far as the return rises
(Li and Todorov, 2004; with limits of actions as by Tassa et al., 2014), for all paths.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nopg.compiled import compiled, packed
from nopg.dynamics.compiled import PathFeedback
from nopg.dynamics.curvature import Derivatives, SecondDerivatives, derivatives, second_derivatives
from nopg.dynamics.rollouts import ModelRollout, discounted_return
from nopg.dynamics.transition_model import ArrayTransitionModel, PredictedStep, TransitionModel
from nopg.policies.arrays import Array
from nopg.threads import parallel_map, threads_for

STEP_SIZES = 0.3 ** np.arange(4)  # shares of a change that are tried, all at once
DAMPING = (1e-5, 1.0, 1e4)
"""Least, first and largest damping, in curvatures of the return by the actions: first
changes are small, or a long path is lost at once."""
TRACKED = 1e-2  # the same of gains that lead back to a path which is not to change
FASTER, SLOWER = 0.25, 4.0  # what a success and a failure do to it
GAIN = 1e-4  # smallest gain that counts, as a share of |J|
PATIENCE = 10  # iterations without one after which a path is left alone


class Feedback(NamedTuple):
    """B controllers a_t = u_t + K_t (s_t - x_t) of T steps, within the actions' range.

    States x need not follow from one another: a controller may begin as a pull towards a place.
    """

    states: Array  # (T, B, d_s)
    actions: Array  # (T, B, d_a)
    gains: Array  # (T, B, d_a, d_s)

    def of_paths(self, paths: NDArray[np.int64]) -> "Feedback":
        """Those of some paths, by their indices."""
        return self.each(lambda field: field[:, paths])

    def each(self, function: Callable[..., Any], *others: "Feedback") -> "Feedback":
        """What a function makes of each field, and of those of others."""
        return Feedback(*map(function, self, *others))


class StatePenalty(NamedTuple):
    """A cost of states beyond limits: the square of how far, in typical steps."""

    low: Array  # (d_s,)
    high: Array  # (d_s,)
    unit: Array  # typical steps, (d_s,)
    weight: float

    def beyond(self, states: Array) -> Array:
        """How far, with a sign, (.., d_s)."""
        return np.asarray((states - np.clip(states, self.low, self.high)) / self.unit)

    def cost(self, states: Array) -> Array:
        """What they cost, (..)."""
        return np.asarray(self.weight * np.square(self.beyond(states)).sum(axis=-1))

    def added_to(self, found: Derivatives, states: Array) -> Derivatives:
        """The derivatives of steps from these states, with those of their cost."""
        away, columns = self.beyond(states), np.arange(states.shape[-1])
        earning, bending = found.earning.copy(), found.bending.copy()
        earning[..., columns] -= 2.0 * self.weight * away / self.unit
        bending[..., columns, columns] -= 2.0 * self.weight * (away != 0.0) / self.unit**2
        return found._replace(earning=earning, bending=bending)


class Task(NamedTuple):
    """What controllers are to do in which models."""

    models: Sequence[TransitionModel]  # directions are those of the first
    limits: Array  # lowest and highest action, (2, d_a)
    gamma: float
    penalty: StatePenalty | None = None

    def follow(
        self,
        controllers: Feedback,
        starts: Array,
        noise: Array | None = None,
        model: ArrayTransitionModel | None = None,
    ) -> ModelRollout:
        """Roll out B controllers from their starts in a model, by default the first.

        `noise` disturbs the actions, (T, B, d_a); those given back are as meant.
        """
        outcomes, returns = self._made(controllers, starts, noise, model)
        states, (x, u, gains) = _states(starts, outcomes), controllers
        meant = PathFeedback(u, x, gains, self.limits)
        return ModelRollout(states, meant.at(slice(None), states), outcomes, returns)

    def returns(self, controllers: Feedback, starts: Array) -> Array:
        """The lowest return in the models, (B,): one's errors do not fool the other."""
        every = parallel_map(
            lambda one: self._made(controllers, starts, None, one.arrays)[1], self.models
        )
        found = np.min(every, axis=0)
        return np.where(np.isfinite(found), found, -np.inf)

    def _made(
        self,
        controllers: Feedback,
        starts: Array,
        noise: Array | None,
        model: ArrayTransitionModel | None,
    ) -> tuple[PredictedStep[Array], Array]:
        """Steps, with what states cost, and returns."""
        x, u, gains = controllers
        taken = PathFeedback(u if noise is None else u + noise, x, gains, self.limits)
        outcomes = (model or self.models[0].arrays).follow(starts, taken)
        if self.penalty is not None:
            cost = self.penalty.cost(_states(starts, outcomes))
            outcomes = outcomes._replace(rewards=outcomes.rewards - cost)
        worst = self.models[0].value_limits(self.gamma)[0]
        return outcomes, discounted_return(outcomes, self.gamma, worst)


def _states(starts: Array, outcomes: PredictedStep[Array]) -> Array:
    """From which steps were taken."""
    return np.concatenate([starts[None], outcomes.next_states[:-1]])


def optimised(
    task: Task,
    controllers: Feedback,
    starts: Array,
    n_iterations: int,
    advance: Callable[[float], None] = lambda best: None,
) -> Feedback:
    """The controllers after so many iterations.

    Every path has a damping of its own, and is left alone where it no longer gains.
    """
    n_paths, found = len(starts), controllers.each(np.copy)
    returns = task.returns(found, starts)
    damping, waited = np.full(n_paths, DAMPING[1]), np.zeros(n_paths, dtype=int)
    for _ in range(n_iterations):
        paths = np.flatnonzero((waited < PATIENCE) & (damping < DAMPING[2]))
        if not len(paths):
            break
        some = found.of_paths(paths)
        change, gains = _backward(task, some, damping[paths])
        # Every share of the change of every path, share by share.
        k, shares = len(STEP_SIZES), np.repeat(STEP_SIZES, len(paths))[:, None]
        changed = some._replace(actions=change, gains=gains)
        tried = changed.of_paths(np.tile(np.arange(len(paths)), k))
        tried = tried._replace(actions=np.tile(some.actions, (1, k, 1)) + shares * tried.actions)
        earned = task.returns(tried, np.tile(starts[paths], (k, 1))).reshape(k, -1)
        best = earned.argmax(axis=0)
        best[earned.max(axis=0) <= returns[paths]] = k
        gained = earned.max(axis=0) - returns[paths]
        is_better, is_enough = gained > 0.0, gained > GAIN * np.abs(returns[paths])
        damping[paths] *= np.where(is_better & (best == 0), FASTER, np.where(best > 1, SLOWER, 1.0))
        damping = np.maximum(damping, DAMPING[0])
        waited[paths] = np.where(is_enough, 0, waited[paths] + 1)
        chosen = (best * len(paths) + np.arange(len(paths)))[is_better]
        if len(chosen):
            kept, better = paths[is_better], tried.of_paths(chosen)
            made = task.follow(better, starts[kept])
            around = Feedback(made.states, made.actions, better.gains)
            # Around what the first model makes of it, it may fail in another.
            again = task.returns(around, starts[kept])
            returns[kept] = earned.ravel()[chosen]
            is_as_good = again >= returns[kept] - GAIN * np.abs(returns[kept])
            for whole, new, old in zip(found, around, better, strict=True):
                whole[:, kept] = np.where(is_as_good.reshape(-1, *[1] * (new.ndim - 2)), new, old)
        advance(float(returns.max()))
    return found


def regulator(task: Task, still: Feedback) -> Array:
    """Gains of the first step, (B, d_a, d_s), of controllers that stay where they are.

    After many steps backward they are those of the linear-quadratic regulator.
    """
    damping = np.full(still.states.shape[1], DAMPING[0])
    there = second_derivatives(task.models[0], still.states[0], still.actions[0])
    return np.asarray(_backward(task, still, damping, there)[1][0])


def tracking(task: Task, path: Feedback) -> Feedback:
    """The path with gains that lead back to it, best for what it is to earn."""
    return path._replace(gains=_backward(task, path, np.full(path.states.shape[1], TRACKED))[1])


def _backward(
    task: Task, controllers: Feedback, damping: Array, there: SecondDerivatives | None = None
) -> tuple[Array, Array]:
    """The best change of the actions, (T, B, d_a), and gains, (T, B, d_a, d_s).

    With V and v the curvature and slope of U_{t+1}, in the words of `rollout_gradients`, and F =
    ds'/d(s, a):

        Q = dU_t / d(s, a),  Q'' = r'' + gamma (1 - p)(1 - o) F' V F

    Changes end at the limits of the actions. Where all steps are at one place the motion's second
    derivatives are known, and v' s'' is a part of Q'' (differential dynamic programming, Mayne
    1966).
    """
    n_steps, n_paths, d_s = controllers.states.shape
    model, limits, gamma = task.models[0], task.limits, task.gamma
    worst = model.value_limits(gamma)[0]
    found = derivatives(model, controllers.states, controllers.actions, are_paths=True)
    if task.penalty is not None:
        found = task.penalty.added_to(found, controllers.states)
    change = np.zeros(controllers.actions.shape)
    gains = controllers.gains.copy()  # those of steps that are never made stay
    value, slope = np.zeros(n_paths), np.zeros((n_paths, d_s))
    bend = np.zeros((n_paths, d_s, d_s))
    unit = np.maximum(0.5 * (limits[1] - limits[0]), 1e-9)  # of the actions
    least = max(1e-12 * float(np.ptp(model.rewards)), 1e-300)
    is_made = (found.outcomes.terminated < 1.0).any(axis=1)
    library = compiled("nopg.algorithms.search", "backward.c", False)
    if library is not None and there is None:
        _, after, rewards, terminated, out, _ = found.outcomes
        fields: list[Any] = [is_made.astype(np.int64), damping, limits, unit, *controllers[:2]]
        fields += [after, rewards, terminated, out, *found[1:], change, gains]
        fields = [np.ascontiguousarray(field) for field in fields]
        sizes = (n_paths, n_steps, d_s, len(unit), float(gamma), float(worst), least)
        if library.nopg_backward_pass(packed(*sizes, *fields), threads_for(n_paths)):
            raise MemoryError("There is no memory for changes of paths.")
        return change, gains
    for t in np.flatnonzero(is_made)[::-1].tolist():
        outcome = PredictedStep(*(field[t] for field in found.outcomes))
        ahead = slope
        if t + 1 < n_steps:  # what follows begins elsewhere
            gap = outcome.next_states - controllers.states[t + 1]
            ahead = slope + np.einsum("bij,bj->bi", bend, gap)
        stays, out = 1.0 - outcome.terminated, outcome.out_of_support
        expected = (1.0 - out) * value + out * worst
        moving, going = found.moving[t], gamma * stays * (1.0 - out)
        q = found.earning[t] + going[:, None] * np.einsum("bi,bij->bj", ahead, moving)
        q -= (gamma * expected)[:, None] * found.ending[t]
        q += (gamma * stays * (worst - value))[:, None] * found.leaving[t]
        curved = np.swapaxes(moving, 1, 2) @ bend @ moving
        bending = found.bending[t] if there is None else there.of_return(going[:, None] * ahead)
        qq = bending + going[:, None, None] * curved
        value = outcome.rewards + gamma * stays * expected
        by_action = qq[:, d_s:, d_s:]
        # Damped in units of the largest curvature, so that no unit of rewards matters.
        scale = np.einsum("bii,i->b", -by_action, unit**2) + np.abs(q[:, d_s:]) @ unit
        scale = np.maximum(damping * scale, least)
        inverse = np.linalg.inv(by_action - scale[:, None, None] * np.diag(unit**-2.0))
        step = -np.einsum("bij,bj->bi", inverse, q[:, d_s:])
        low, high = limits[:, None] - controllers.actions[t]
        step = np.clip(step, np.minimum(low, 0.0), np.maximum(high, 0.0))
        gain = -(inverse @ qq[:, d_s:, :d_s])
        change[t], is_here = step, outcome.terminated < 1.0
        gains[t, is_here] = gain[is_here]
        turned, across = np.swapaxes(gain, 1, 2), qq[:, :d_s, d_s:]
        pushed = q[:, d_s:] + np.einsum("bij,bj->bi", by_action, step)
        slope = q[:, :d_s] + np.einsum("bij,bj->bi", turned, pushed)
        slope += np.einsum("bij,bj->bi", across, step)
        bend = qq[:, :d_s, :d_s] + turned @ by_action @ gain
        bend += turned @ np.swapaxes(across, 1, 2) + across @ gain
        bend = 0.5 * (bend + np.swapaxes(bend, 1, 2))
    return change, gains
