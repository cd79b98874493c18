"""Fitted value iteration in a learned model: the best action at each of many states.

Gradient ascent finds the nearest optimum; value iteration sees the whole state space, if blurred.
Some states of the data are the anchors of a small decision process: each of a few actions is
repeated for some steps of the learned model, and where that leads is interpolated among the anchors
nearby. Once there is a policy most of them may lie along its paths, closer together where it
matters. The blur grows with the number of decisions, so that a larger action repeat gives a
sharper, if coarser, policy. In a noisy system every action meets a few gusts, the same at every
anchor, and what they lead to is averaged.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nopg.compiled import MOST_THREADS, compiled, packed
from nopg.data.dataset import Dataset
from nopg.discount import discount_horizon
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.rollouts import discounted_return, erring_steps, running_probability
from nopg.dynamics.transition_model import PredictedStep, TransitionModel
from nopg.policies.arrays import Actor, Array
from nopg.threads import n_workers, threads_for

N_ANCHORS = 1000  # states of the data that are planned for; a random part of more
N_LEVELS = 9  # actions tried at each anchor, where there is one dimension of them
MAX_ACTIONS = 32  # actions tried at each anchor, where there are several
MAX_REPEAT = 10  # steps an action is repeated for at most
MAX_SWEEPS, LEVEL = 2000, 1e-4  # and the change over the largest value at which they end
N_GUSTS = 6  # noisy paths that an action is averaged over, where the system is noisy

FAR, N_PLANNED = 0.5, 4
"""Distance of neighbouring anchors, in deviations of the states, from which plans are
too blurred to do without trajectories; and columns up to which more data mend that."""
ALONG, N_PATHS, ERRING, AHEAD = 0.7, 60, 0.3, 0.1
"""Share of the anchors along paths of a policy, and the paths; how often one of these begins to do
something else at most, for about three steps; and the weight gamma^T at which they end."""


class DistillationTargets(NamedTuple):
    """What a policy should do at each anchor."""

    states: Array  # (n, d_s)
    actions: Array  # (n, d_a), the best one
    advantage_weights: Array  # (n,), value of the best over the worst, on average 1
    action_repeat: int  # steps each action was repeated for


def actions_to_try(actions: Array, generator: np.random.Generator) -> Array:
    """A few actions that span those of the data, (n, d_a) to (A, d_a).

    Levels of equal distance in one dimension; in more, actions that were taken.
    """
    if actions.shape[1] == 1:
        return np.linspace(actions.min(axis=0), actions.max(axis=0), N_LEVELS)
    different = np.unique(actions, axis=0)
    return different[generator.permutation(len(different))[:MAX_ACTIONS]]


def is_sparse(data: Dataset, generator: np.random.Generator, is_fast: bool = False) -> bool:
    """Whether states are too far apart to plan among, and actions are numbers.

    Or the clock `is_fast`: steps are short beside any distance.
    """
    states = np.asarray(data.observations, dtype=np.float64)
    n_moving = np.count_nonzero(np.ptp(states, axis=0))  # what never changes is no distance
    if data.is_discrete or data.history is not None or n_moving <= N_PLANNED:
        return False
    some = states[generator.permutation(len(states))[:N_ANCHORS]]
    return is_fast or Anchors.of(some).spacing > FAR


def states_along(
    model: TransitionModel,
    actor: Actor,
    starts: Array,  # (B, d_s)
    actions: Array,  # what may be done instead, (A, d_a)
    gamma: float,
    generator: np.random.Generator,
) -> Array:
    """Where a policy passes in the model, and where it gets by errors, (n, d_s)."""
    often, n_steps = generator.uniform(0.0, ERRING, N_PATHS), discount_horizon(gamma, AHEAD)
    errs, other = np.zeros(N_PATHS, dtype=bool), actions[np.zeros(N_PATHS, dtype=int)]
    given = np.full((n_steps, *other.shape), np.nan)
    for t in range(n_steps):
        draw = generator.uniform(size=N_PATHS)
        chosen = actions[generator.integers(len(actions), size=N_PATHS)]
        other = np.where(errs[:, None], other, chosen)
        errs = np.where(errs, draw > 1.0 / 3.0, draw < often)
        given[t, errs] = other[errs]
    begins = starts[np.arange(N_PATHS) % len(starts)]
    states, _, outcomes = erring_steps(model.arrays, actor, begins, given)
    return np.asarray(states[running_probability(outcomes)[:-1] > 0.5])


@dataclass(frozen=True)
class ActionOutcomes:
    """Where each action leads from each anchor, when it is repeated."""

    model: TransitionModel
    anchors: "Anchors"  # states that are planned for
    actions: Array  # what one may do, (A, d_a)
    # Steps of every action at every anchor, action by action within an anchor and gust by gust
    # within an action, (T, n A G, ...).
    outcomes: PredictedStep[Array]
    n_gusts: int = 1  # how often each action is rolled out, G; once without noise

    @classmethod
    def of(
        cls, model: TransitionModel, states: Array, actions: Array, generator: np.random.Generator
    ) -> "ActionOutcomes":
        """Repeat every action at each of some states, (n, d_s)."""
        anchors = Anchors.of(states)
        n_pairs, n_gusts, draws = len(anchors.states) * len(actions), 1, None
        if model.noise is not None:
            n_gusts = N_GUSTS
            draws = noise_draws(MAX_REPEAT, n_gusts, states.shape[1], generator)
            # What a next gust takes back, as a sensor's noise is, does not add up.
            lasting = np.minimum(model.noise.lasting, 1.0)
            draws[..., : len(lasting)] *= lasting
            draws = np.tile(draws, (1, n_pairs, 1))
        starts = np.repeat(anchors.states, len(actions) * n_gusts, axis=0)
        every = np.tile(np.repeat(actions, n_gusts, axis=0), (len(anchors.states), 1))
        acted = np.tile(every, (MAX_REPEAT, 1, 1))
        return cls(model, anchors, actions, model.arrays.follow(starts, acted, draws), n_gusts)

    def value_iteration(self, gamma: float, repeat: int | None = None) -> DistillationTargets:
        """The best action at each anchor, repeated so often or until it leads away."""
        repeat = self._least_repeat() if repeat is None else repeat
        steps = PredictedStep(*(field[:repeat] for field in self.outcomes))
        worst, n = self.model.value_limits(gamma)[0], len(self.anchors.states)
        earned = discounted_return(steps, gamma, worst)
        weights = self.anchors.weights(steps.next_states[-1])
        ahead = gamma**repeat * running_probability(steps)[-1]
        if self.n_gusts > 1:
            earned = earned.reshape(-1, self.n_gusts).mean(axis=1)
            ends = np.arange(0, len(ahead) + 1, self.n_gusts)
            mean = type(weights)((ahead / self.n_gusts, np.arange(len(ahead)), ends))
            weights, ahead = mean @ weights, np.ones(len(earned))
        value, by_action = np.full(n, worst), np.empty((n, len(self.actions)))
        iterated(weights, earned, ahead, value, by_action)
        advantages = value - by_action.min(axis=1)
        advantages /= max(advantages.mean(), 1e-300)
        best_actions = _best_actions(by_action, self.actions)
        return DistillationTargets(self.anchors.states, best_actions, advantages, repeat)

    def _least_repeat(self) -> int:
        """Steps after which most actions have led to other anchors."""
        reached, unit = self.outcomes.next_states, self.anchors.unit
        group = reached.shape[1] // len(self.anchors.states)
        starts = np.repeat(self.anchors.states, group, axis=0)
        for t, after in enumerate(reached, start=1):
            moved = np.linalg.norm((after - starts) / unit, axis=1)
            if np.median(moved) >= 2.0 * self.anchors.spacing:
                return t
        return len(reached)


@dataclass(frozen=True)
class Anchors:
    """States that stand for those around them."""

    states: Array  # where they are, (n, d_s)
    unit: Array  # standard deviation of each dimension, (d_s,)
    tree: Any  # the states in these units, for finding neighbours
    spacing: float  # typical distance to as many neighbours as enclose an anchor

    @classmethod
    def of(cls, states: Array) -> "Anchors":
        """Anchors at the given states, (n, d_s)."""
        from scipy.spatial import cKDTree

        unit = states.std(axis=0)
        unit = np.where(unit > 1e-12, unit, 1.0)
        tree = cKDTree(states / unit)
        distances, _ = tree.query(states / unit, k=[min(len(states), states.shape[1] + 2)])
        return cls(states, unit, tree, max(float(np.median(distances)), 1e-9))

    def weights(self, states: Array) -> Any:
        """Nadaraya-Watson weights of the anchors nearest to each state.

        Sparse (m, n), rows sum to 1.
        """
        from scipy import sparse

        count, scaled = min(len(self.states), 2 * states.shape[1] + 2), states / self.unit
        distances, nearest = self.tree.query(scaled, range(1, count + 1), workers=n_workers())
        weights = np.exp(-0.5 * (distances / self.spacing) ** 2) + 1e-12
        weights /= weights.sum(axis=1, keepdims=True)
        rows = np.arange(0, weights.size + 1, count)
        shape = (len(states), len(self.states))
        return sparse.csr_matrix((weights.ravel(), nearest.ravel(), rows), shape)


def iterated(weights: Any, earned: Array, ahead: Array, value: Array, by_action: Array) -> None:
    """Iterate `value`, (n,), and with it `by_action`, (n, A), in place until it hardly changes.

    An action at an anchor earns some, (n A,), and what lies `ahead`, (n A,), times what anchors are
    worth by their sparse weights, (n A, n).
    """
    library = compiled("nopg.algorithms.search", "values.c", False)
    if library is not None:
        sparse = (weights.indptr.astype(np.int32), weights.indices.astype(np.int32), weights.data)
        arrays = (*sparse, earned, ahead, value, by_action)
        given = packed(*by_action.shape, MAX_SWEEPS, LEVEL, *arrays)
        if library.nopg_values(given, threads_for(MOST_THREADS)):
            raise MemoryError
        return
    for _ in range(MAX_SWEEPS):
        by_action[:] = (earned + ahead * (weights @ value)).reshape(by_action.shape)
        best = by_action.max(axis=1)
        change, value[:] = np.abs(best - value).max(), best
        if change <= LEVEL * np.abs(value).max():
            break


def _best_actions(by_action: Array, actions: Array) -> Array:
    """The best action at each anchor; between two levels, the top of a parabola."""
    best = by_action.argmax(axis=1)
    chosen: Array = actions[best]
    if actions.shape != (N_LEVELS, 1):
        return chosen
    middle, rows = np.clip(best, 1, N_LEVELS - 2), np.arange(len(best))
    left, top, right = (by_action[rows, middle + i] for i in (-1, 0, 1))
    bend = left - 2.0 * top + right
    is_peak = bend < -1e-12 * min(1.0, float(np.abs(by_action).max()))
    peak = 0.5 * (left - right) / np.where(is_peak, bend, 1.0)
    between: Array = middle + np.clip(np.where(is_peak, peak, best - middle), -1.0, 1.0)
    chosen = actions[0] + between[:, None] * (actions[1] - actions[0])
    return chosen
