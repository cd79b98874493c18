"""Planning in the learned system: the best action at each of many states.

A gradient finds the nearest hill; a plan sees the whole landscape, if blurred. States
of the data are the places of a small decision process: each of a few actions is held
for some steps of the learned system, and where that leads is shared among the places
nearby. Value iteration does the rest. The blur of sharing grows with the number of
decisions, so that holding an action for longer gives a sharper, if coarser, plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.stepper import Array
from nopg.dynamics.transition_model import TransitionModel

N_PLACES = 1000
"""States of the data that are planned for; a random part of more."""
N_LEVELS = 9
"""Actions tried at each place, where there is one dimension of them."""
MAX_ACTIONS = 32
"""Actions tried at each place, where there are several."""
LONGEST_HOLD = 10
"""Steps an action is held at most."""
BATCH = 4096
"""Steps predicted at once: their kernels take some tens of megabytes."""
MAX_SWEEPS = 2000


class Plan(NamedTuple):
    """What to do at each place."""

    states: Array  # (n, d_s)
    actions: Array  # (n, d_a), the best one
    stakes: Array  # (n,), what the worst one would cost, on average 1
    hold: int  # steps each action was held


def actions_to_try(actions: Array, generator: np.random.Generator) -> Array:
    """A few actions that span those of the data, (A, d_a).

    Levels of equal distance in one dimension; in more, actions that were taken.

    Args:
        actions: Of the data, (n, d_a).
        generator: Chooses among them.
    """
    if actions.shape[1] == 1:
        return np.linspace(actions.min(axis=0), actions.max(axis=0), N_LEVELS)
    different = np.unique(actions, axis=0)
    return different[generator.permutation(len(different))[:MAX_ACTIONS]]


@dataclass(frozen=True)
class Outlook:
    """Where each action leads from each place, when it is held.

    Attributes:
        model: The learned system.
        places: Where one may be.
        actions: What one may do, (A, d_a).
        steps: What happens step by step to every action at every place, action by
            action within a place: rewards, ends, losses and states.
    """

    model: TransitionModel
    places: Places
    actions: Array
    steps: list[HeldStep]

    @classmethod
    def of(
        cls,
        model: TransitionModel,
        states: Array,
        actions: Array,
        generator: np.random.Generator,
    ) -> Outlook:
        """Hold every action at some of the states of the data, (n, d_s)."""
        places = Places.of(states[generator.permutation(len(states))[:N_PLACES]])
        here = torch.from_numpy(np.repeat(places.states, len(actions), axis=0))
        held = torch.from_numpy(np.tile(actions, (len(places.states), 1)))
        steps = []
        for _ in range(LONGEST_HOLD):
            step = _step(model, here, held)
            steps.append(HeldStep(*(column.numpy() for column in step)))
            here = step[-1]
        return cls(model, places, actions, steps)

    def plan(self, gamma: float, hold: int | None = None) -> Plan:
        """The best action at each place, by value iteration.

        Args:
            gamma: Discount factor of one step.
            hold: Steps an action is held; by default until it has led elsewhere.
        """
        hold = self._enough() if hold is None else hold
        earned, alive = self._earned(gamma, hold)
        shares = self.places.shares(self.steps[hold - 1].states)
        n, far = len(self.places.states), gamma**hold
        value = np.full(n, self.model.worst_value(gamma))
        for _ in range(MAX_SWEEPS):
            by_action = (earned + far * alive * (shares @ value)).reshape(n, -1)
            best = by_action.max(axis=1)
            change = np.abs(best - value).max()
            value = best
            if change <= 1e-4 * np.abs(value).max():
                break
        stakes = value - by_action.min(axis=1)
        stakes /= max(stakes.mean(), 1e-300)
        chosen = _chosen(by_action, self.actions)
        return Plan(self.places.states, chosen, stakes, hold)

    def _enough(self) -> int:
        """Steps after which most actions have left for other places."""
        start = np.repeat(self.places.states, len(self.actions), axis=0)
        for t, step in enumerate(self.steps, start=1):
            moved = np.linalg.norm((step.states - start) / self.places.unit, axis=1)
            if np.median(moved) >= 2.0 * self.places.spacing:
                return t
        return len(self.steps)

    def _earned(self, gamma: float, hold: int) -> tuple[Array, Array]:
        """Discounted rewards on the way, what was lost included, and who goes on."""
        worst = self.model.worst_value(gamma)
        earned = np.zeros(len(self.steps[0].rewards))
        alive = np.ones_like(earned)
        for t, step in enumerate(self.steps[:hold]):
            given_up = (1.0 - step.ends) * step.lost
            earned += gamma**t * alive * (step.rewards + gamma * worst * given_up)
            alive = alive * (1.0 - step.ends - given_up)
        return earned, alive


class HeldStep(NamedTuple):
    """One step of every action at every place."""

    rewards: Array  # (n A,)
    ends: Array  # (n A,)
    lost: Array  # (n A,)
    states: Array  # (n A, d_s)


@dataclass(frozen=True)
class Places:
    """States that stand for those around them.

    Attributes:
        states: Where they are, (n, d_s).
        unit: Deviation of each dimension, (d_s,).
        tree: The same in these units, for finding neighbours.
        spacing: Typical distance to as many neighbours as enclose a place.
    """

    states: Array
    unit: Array
    tree: Any
    spacing: float

    @classmethod
    def of(cls, states: Array) -> Places:
        """Places at the given states, (n, d_s)."""
        from scipy.spatial import cKDTree

        unit = states.std(axis=0)
        unit = np.where(unit > 1e-12, unit, 1.0)
        tree = cKDTree(states / unit)
        count = min(len(states), states.shape[1] + 2)
        distances, _ = tree.query(states / unit, k=[count])
        return cls(states, unit, tree, max(float(np.median(distances)), 1e-9))

    def shares(self, states: Array) -> Any:
        """How much of each place there is in each state, sparse (m, n), rows sum to 1.

        Nadaraya-Watson weights of the nearest places.
        """
        from scipy import sparse

        count = min(len(self.states), 2 * states.shape[1] + 2)
        distances, nearest = self.tree.query(states / self.unit, k=range(1, count + 1))
        weights = np.exp(-0.5 * (distances / self.spacing) ** 2) + 1e-12
        weights /= weights.sum(axis=1, keepdims=True)
        ends = np.arange(0, weights.size + 1, count)
        shape = (len(states), len(self.states))
        return sparse.csr_matrix((weights.ravel(), nearest.ravel(), ends), shape)


def _step(model: TransitionModel, states: Tensor, actions: Tensor) -> list[Tensor]:
    """Rewards, ends, losses and next states of many steps, some at a time."""
    parts = []
    for first in range(0, len(states), BATCH):
        some = slice(first, first + BATCH)
        step = model.step(states[some], actions[some])
        parts.append((step.rewards, step.ends, step.lost, step.next_states))
    return [torch.cat(column) for column in zip(*parts, strict=True)]


def _chosen(by_action: Array, actions: Array) -> Array:
    """The best action at each place; between two levels, the top of a parabola."""
    best = by_action.argmax(axis=1)
    chosen: Array = actions[best]
    if actions.shape != (N_LEVELS, 1):
        return chosen
    middle = np.clip(best, 1, N_LEVELS - 2)
    rows = np.arange(len(best))
    left, top, right = (by_action[rows, middle + i] for i in (-1, 0, 1))
    bend = np.minimum(left - 2.0 * top + right, -1e-300)
    is_peak = left - 2.0 * top + right < -1e-12
    offset = np.where(is_peak, 0.5 * (left - right) / bend, best - middle)
    between: Array = middle + np.clip(offset, -1.0, 1.0)
    chosen = actions[0] + between[:, None] * (actions[1] - actions[0])
    return chosen
