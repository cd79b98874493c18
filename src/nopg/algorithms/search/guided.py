"""Policies from trajectories that were optimised in the learned models.

Paths from the task's starts are optimised together with their feedback (`trajectories.py`). They
begin as what the log and the plans have to offer, and every start may take over what was found from
another (`splices.py`). The feedback then acts in disturbed rollouts, and a policy learns what it
did there: not the path alone, but the way back.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import torch

from nopg.algorithms.search.candidates import FoundPolicy
from nopg.algorithms.search.distillation import MAX_STEPS, distil
from nopg.algorithms.search.planning import DistillationTargets
from nopg.algorithms.search.refinement import Policies
from nopg.algorithms.search.splices import ALIKE, caught, shared, without_detours
from nopg.algorithms.search.trajectories import (
    Feedback,
    StatePenalty,
    Task,
    optimised,
    regulator,
    tracking,
)
from nopg.data.dataset import Dataset
from nopg.discount import discount_horizon
from nopg.dynamics.bounds import StateBounds
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.replays import consecutive
from nopg.dynamics.rollouts import model_rollout, running_probability
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel, regression_actions
from nopg.fitted.history import TRAJECTORIES, CandidateMethod
from nopg.policies.arrays import Array, actor_of
from nopg.policies.families import Policy
from nopg.threads import parallel_map

Advance = Callable[[float], None]  # told the best return so far

N_STARTS, N_TAUGHT, N_STEPS = 3, 50, 2_000
"""Starts whose paths are optimised, and those that take them over, at most; and steps
of the former, from which on there is one of them."""
N_OWN, SHARES, N_MOVED = 15, (0.25, 0.5, 0.75, 1.0), 5
"""Starts that get paths of their own if those of the first do not do for them; shares of the way
there, and iterations at each."""
N_WAYS = 4  # paths that are taught at most, if students earn less than was hoped
N_ITERATIONS = 10  # iterations from everything there is, and as many from the best of it
SEEN = 0.1  # weight gamma^T at which paths end
N_BEST, N_SOLVING, DAMPED, SOLVED, RESTING = 200, 30, 1e-6, 1e-6, 0.05
"""Logged states of the highest rewards from which one to rest at is looked for; the solver's steps,
damping and least change that counts, in deviations; and the most it may move, in typical steps."""
AUTHORITY = 0.8  # share of the actions' range that a path uses; the rest is left to its feedback
PENALTIES, N_PENALISED, APART = np.geomspace(0.03, 10.0, 6), 15, 2.0
"""What a path pays for where it passes a break of the law, first and last, as shares of
|J|; iterations with each; and typical steps that it is to stay away from there."""
LEVELS = (0.02, 0.5)
"""Least and largest disturbance of an action, in halves of its range: a policy that has
only met small ones does not make up for the errors of the models."""
N_DISTURBED, N_DRAWS, N_MODELS = 150, 50, 8
"""Disturbed rollouts, disturbances of each, and models drawn in all to teach and to test in."""
USED = 2.0 / 3.0  # share of a path that is taught: near its end nothing matters any more
N_LESSONS, N_ROWS = 3, 30_000  # lessons at most, each twice as long, and states from each model


def trajectory_candidate(
    models: Sequence[TransitionModel],  # what starts share is good in all of them
    data: Dataset,  # what they were learned from
    starts: Array,  # where the task starts, (B, d_s)
    policies: Policies,  # what was found before: paths begin as theirs, too
    fresh: Policy,  # an untrained one
    gamma: float,
    generator: np.random.Generator,  # of disturbances
    advance: Advance = lambda best: None,
) -> FoundPolicy:
    """Optimise paths in the models, and teach the best of them to a copy of `fresh`."""
    task, starts = Task(tuple(models), _limits(data), gamma), starts[:N_TAUGHT]
    student, most, known = fresh, -np.inf, -np.inf  # from all starts, and from those of the paths
    for hoped, lead in islice(_attempts(task, data, starts, policies, advance), N_WAYS):
        wanted = hoped - ALIKE * abs(hoped)
        if known >= wanted:  # what is there earns that already
            continue
        found = lead()
        led, own = _spread(task, found, starts), slice(found.states.shape[1])
        taught, earned, does = _taught(task, data, led, starts, fresh, generator)
        if earned.mean() > most or student is fresh:
            student, most, known = taught, float(earned.mean()), float(earned[own].mean())
        # From there it may earn less than they, if it does as well from all: it knows more places.
        if known >= wanted or (does and task.returns(found, starts[own]).mean() >= hoped):
            break
    return FoundPolicy(CandidateMethod(TRAJECTORIES), student)


def _limits(data: Dataset, share: float = 1.0) -> Array:
    """Ends of a share of the range of logged actions, (2, d_a)."""
    actions = regression_actions(data).numpy()
    ends = np.stack([actions.min(axis=0), actions.max(axis=0)])
    return np.asarray(share * ends + (1.0 - share) * ends.mean(axis=0))


def _attempts(
    task: Task, data: Dataset, starts: Array, policies: Policies, advance: Advance
) -> Iterator[tuple[float, Callable[[], Feedback]]]:
    """What controllers of some starts are to earn, and how they are made, one way after another."""
    # Small differences between models decide whether a long path can be led inside: with the slopes
    # of the other model, without cuts, or begun otherwise it is another path.
    inner, horizon = _limits(data, AUTHORITY), discount_horizon(task.gamma, SEEN)
    some = starts[: min(max(N_STEPS // horizon, 1), N_STARTS)]
    for models in (task.models, task.models[::-1]):
        task = task._replace(models=models, limits=inner)
        holding = rest_controller(task, data, horizon)
        # The log may pass where the models end: paths begin as if they did not.
        loose = _loosened(task, data)
        found = _begun(loose, data, some, policies, holding)
        every = np.tile(some, (found.states.shape[1] // len(some), 1))
        found = optimised(loose, found, every, N_ITERATIONS, advance)
        found = caught(loose, found, holding, every)
        whole = shared(loose, found, some)
        shorter = without_detours(loose, whole, holding, some)
        others = np.flatnonzero((found.actions != whole.actions[:, :1]).any(axis=(0, 2)))
        ways = [shorter] + ([] if (shorter.actions == whole.actions).all() else [whole])
        ways += [shared(loose, found.of_paths(others), some)] if len(others) else []
        for begun in ways:
            hoped = float(loose.returns(begun, some).mean())
            yield hoped, partial(_led_inside, task, loose, begun, holding, some, advance)


def _loosened(task: Task, data: Dataset) -> Task:
    """The task in the first model with bounds around all the data, beyond a break, too."""
    # Beyond it models disagree, and no path would be good in all of them.
    states, actions, _, reached, _ = model_columns(data)
    around, _ = StateBounds.of(states, actions, reached)
    own = task.models[0].bounds
    if torch.equal(around.low, own.low) and torch.equal(around.high, own.high):
        return task
    bounds = replace(own, low=around.low, high=around.high)
    return task._replace(models=[replace(task.models[0], bounds=bounds)])


def _led_inside(
    task: Task, loose: Task, found: Feedback, holding: Feedback, starts: Array, advance: Advance
) -> Feedback:
    """Paths that may pass a break, led to where the models hold, and optimised there."""
    task, found = (task, found) if loose is task else _avoiding(task, loose, found, starts)
    found = without_detours(task, found, holding, starts)
    found = optimised(task, found, starts, N_ITERATIONS, advance)
    return caught(task, found, holding, starts)


def _avoiding(task: Task, loose: Task, found: Feedback, starts: Array) -> tuple[Task, Feedback]:
    """Paths that stay away from a break, and the task of doing so."""
    # By a penalty that grows: out of support there is no slope to follow. It stays a part of the
    # task, or paths would go as near to the break as they can.
    bounds = task.models[0].bounds
    low, high, unit = (bounds.low.numpy(), bounds.high.numpy(), bounds.typical_step.numpy())
    apart = np.minimum(APART * unit, 0.25 * (high - low))
    penalty = StatePenalty(low + apart, high - apart, unit, 1.0)
    made = loose.follow(found, starts)
    paid = loose.gamma ** np.arange(len(made.states)) @ penalty.cost(made.states)
    if paid.max() > 0.0:
        for weight in PENALTIES * np.abs(made.returns).mean() / paid.mean():
            task = task._replace(penalty=penalty._replace(weight=float(weight)))
            found = optimised(loose._replace(penalty=task.penalty), found, starts, N_PENALISED)
    return task, found


def rest_controller(task: Task, data: Dataset, horizon: int) -> Feedback:
    """The linear-quadratic regulator at the best state to rest at.

    From the logged states of the highest rewards Newton's method looks for states and actions at
    which the model does not move. Where there are none, it is the regulator at the best of these.
    """
    model, order = task.models[0], np.argsort(-data.rewards, kind="stable")[:N_BEST]
    every = np.concatenate([data.observations, regression_actions(data).numpy()], axis=1)
    d_s, typical = data.observations.shape[1], model.bounds.typical_step.numpy()
    low, high, unit = every.min(axis=0), every.max(axis=0), every.std(axis=0) + 1e-12
    points, moving = every[order], np.arange(len(order))
    for _ in range(N_SOLVING):
        x, u = (torch.from_numpy(part) for part in np.split(points[moving], [d_s], axis=1))
        step = model.step(x, u)
        by = model.jacobians(x, u, step)
        missed = (step.next_states - x).numpy() / typical
        slopes = (by.next_states @ by.reached).numpy() - np.eye(d_s, every.shape[1])
        # About the least change, in deviations: what need not change stays.
        slopes = slopes / typical[:, None] * unit
        square = slopes @ slopes.swapaxes(1, 2)
        size = 1e-6 + np.trace(square, axis1=1, axis2=2)[:, None, None]
        found = np.linalg.solve(square + DAMPED * size * np.eye(d_s), missed[..., None])
        change = np.clip(-(slopes.swapaxes(1, 2) @ found)[..., 0], -1.0, 1.0)
        before = points[moving]
        points[moving] = np.clip(before + change * unit, low, high)
        moving = moving[(np.abs(points[moving] - before) > SOLVED * unit).any(axis=1)]
    after = model.arrays.step(points[:, :d_s], points[:, d_s:])
    moved = np.abs((after.next_states - points[:, :d_s]) / typical).max(axis=1)
    is_resting = (moved < RESTING) & (after.out_of_support < RESTING)
    best = points[np.where(is_resting, after.rewards, -np.inf).argmax()]
    held = np.tile(best if is_resting.any() else every[order[0]], (horizon, 1, 1))
    gains = np.zeros((horizon, 1, every.shape[1] - d_s, d_s))
    still = Feedback(held[..., :d_s], held[..., d_s:], gains)
    return still._replace(gains=gains + regulator(task, still))


def _begun(task: Task, data: Dataset, starts: Array, like: Policies, holding: Feedback) -> Feedback:
    """Where paths from every start begin."""
    # As if it held already, back to the best episode, and as earlier policies would.
    horizon, count = len(holding.states), len(starts)
    every = consecutive(data, np.ones(len(data), dtype=bool))
    run = max(every, key=lambda rows: float(np.sum(data.rewards[rows])))
    actions = regression_actions(data).numpy()[run][:, None]
    paths = [(np.asarray(data.observations, dtype=np.float64)[run][:, None], actions)]
    for policy in like:
        made = model_rollout(task.models[0], actor_of(policy), starts, task.gamma, horizon)
        paths.append((made.states, made.actions))
    found = [holding.each(lambda field: np.repeat(field, count, axis=1))]
    for states, taken in paths:
        steps = np.minimum(np.arange(horizon), len(states) - 1)  # rests at its end
        x, u = states[steps], taken[steps]
        path = Feedback(x, u, np.zeros((*u.shape, x.shape[2])))
        if x.shape[1] < count:  # it starts elsewhere
            path = tracking(task, path)
        found.append(path.of_paths(np.repeat(np.arange(x.shape[1]), count // x.shape[1])))
    return _together(*found)


def _together(*found: Feedback) -> Feedback:
    return found[0].each(lambda *fields: np.concatenate(fields, axis=1), *found[1:])


def _spread(task: Task, found: Feedback, starts: Array) -> Feedback:
    """A controller for every start: what was found from the first, or one of its own."""
    n, each = found.states.shape[1], shared(task, found, starts)
    hoped = float(task.returns(found, starts[:n]).mean())
    does = np.median(task.returns(each, starts)) >= hoped - ALIKE * abs(hoped)
    if does or task.models[0].termination is None:  # feedback has all the time there is
        return each
    # It may not lead back from so far off before the end. So paths are moved there, from the
    # nearest start that has one, and a little at a time.
    some, unit = starts[:N_OWN], starts.std(axis=0) + 1e-12
    first = np.linalg.norm((some[:, None] - starts[:n]) / unit, axis=2).argmin(axis=1)
    own, home = found.of_paths(first), starts[first]
    for share in SHARES:
        own = optimised(task, own, home + share * (some - home), N_MOVED)
    own = optimised(task, own, some, N_ITERATIONS)
    return shared(task, _together(found, own), starts)


def _taught(
    task: Task,
    data: Dataset,
    controllers: Feedback,
    starts: Array,
    fresh: Policy,
    generator: np.random.Generator,
) -> tuple[Policy, Array, bool]:
    """A policy that does what controllers do, what it earns, (P,), and whether that is as much."""
    # It learns from more and more rollouts in drawn models, until it earns about as much as they do
    # in others and in the models themselves: what is wrong about one is not to matter. The one that
    # earns most there is kept. It does where that is about what they earn in the models alone.
    student, lessons, columns = copy.deepcopy(fresh), [], model_columns(data)
    n_each = -(-N_MODELS // len(task.models))
    # Of many starts every drawn model has some: together they pass more states than are taught.
    paths = np.arange(n_each * min(len(starts), N_DISTURBED // N_MODELS)) % len(starts)
    many, teachers = starts[paths], controllers.of_paths(paths)

    def drawn() -> list[ArrayTransitionModel]:
        pairs = zip(task.models, generator.spawn(len(task.models)), strict=True)
        return parallel_map(lambda pair: drawn_models(pair[0], columns, n_each, pair[1]), pairs)

    others = [*drawn(), *(one.arrays for one in task.models)]
    each = [task.follow(teachers, many, None, one).returns.mean() for one in others]
    least = [w - ALIKE * abs(w) for w in (np.mean(each), np.mean(each[-len(task.models) :]))]
    best, most = student, np.full(len(many), -np.inf)
    for lesson in range(N_LESSONS):
        lessons += [_disturbed(task, teachers, many, one, generator) for one in drawn()]
        x, u = (np.concatenate(part) for part in zip(*lessons, strict=True))
        targets = DistillationTargets(x, u, np.ones(len(x)), 1)
        distil(student, targets, MAX_STEPS // 2 ** (N_LESSONS - 1 - lesson))
        rest = (actor_of(student), many, task.gamma, len(controllers.states))
        made = [model_rollout(task.models[0], *rest, steps=one) for one in others]
        earned = np.mean([one.returns for one in made], axis=0)  # in models and drawn ones
        if earned.mean() > most.mean():
            best, most = copy.deepcopy(student), earned
        if lesson and most.mean() >= least[0]:  # one alone may be luck
            break
    return best, most, bool(most.mean() >= least[1])


def _disturbed(
    task: Task,
    controllers: Feedback,
    starts: Array,
    model: ArrayTransitionModel,
    generator: np.random.Generator,
) -> tuple[Array, Array]:
    """States and what the controllers do there, in rollouts calm and disturbed."""
    # Each has a level of disturbance of its own. Rollouts that lose by it are left out: from there
    # the feedback knows no way back.
    horizon, n, d_a = controllers.actions.shape
    copies, held = max(1, N_DISTURBED // n), max(1, horizon // N_DRAWS)
    calm, found = task.follow(controllers, starts, None, model), []
    least = calm.returns - ALIKE * np.abs(calm.returns)
    for copied in range(copies + 1):
        paths = calm
        if copied:
            draws = generator.uniform(-0.5, 0.5, (-(-horizon // held), n, d_a))
            noise = np.repeat(draws, held, axis=0)[:horizon]
            ratio = (LEVELS[1] / LEVELS[0]) ** generator.uniform(size=(n, 1))
            noise *= LEVELS[0] * ratio * np.ptp(task.limits, axis=0)
            paths = task.follow(controllers, starts, noise, model)
        running = running_probability(paths.outcomes)[:-1] * (paths.returns >= least)
        rows = np.argwhere(running[: int(USED * horizon)] > 0.5)
        found.append([x[rows[:, 0], rows[:, 1]] for x in (paths.states, paths.actions)])
    states, actions = (np.concatenate(part) for part in zip(*found, strict=True))
    some = generator.permutation(len(states))[:N_ROWS]
    return states[some], actions[some]
