"""Before a policy is switched on: what it is compared with, what a verdict rests on."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import nn

from nopg.data.dataset import Dataset
from nopg.dynamics.replays import held_out_folds
from nopg.dynamics.rewards import NOTE
from nopg.dynamics.transition_model import regression_actions
from nopg.errors import ConfigError, DataError
from nopg.evaluation.comparison import Comparison, compared_with_actor, compared_with_log
from nopg.evaluation.rollouts import evenly_drawn
from nopg.evaluation.support import USUAL_SHARE
from nopg.evaluation.verdict import LIKELY, MEAN_ACTION, Grounds, guessed_share
from nopg.policies.arrays import Array, actor_of
from nopg.policies.families import CategoricalPolicy, DeterministicPolicy
from nopg.randomness import Seed

if TYPE_CHECKING:
    from nopg.fitted.policy import FittedPolicy

N_PLACES = 300  # visited states that are looked at
_OTHER_LABEL = 1e6  # distance of another label: rows are compared with their own kind
_ENTRIES = 2_000_000  # kernel entries that are worth taking at once


def grounds_of(policy: "FittedPolicy") -> Grounds:
    """Estimate, comparison, replay and untried steps of a policy."""
    if policy.evaluator == "model":
        states, visits = policy.visited()
        untried = float((untried_at(policy, states[evenly_drawn(visits, N_PLACES)]) > 1.0).mean())
    else:
        untried = policy.support().share_beyond(policy.kernel.usual_distance())
    data = policy.require_data()
    return Grounds(policy.expected_return(), _beside_the_log(policy, data), policy.check(), untried)


def untried_at(policy: "FittedPolicy", states: Array) -> Array:
    """How little the data say of the policy's actions in these states, (m,)."""
    # Above 1 it counts as untried: by learned models, more than half of a prediction is a guess; by
    # kernels, the nearest row is farther than rows are from each other.
    if policy.evaluator == "model":
        return guessed_share(policy.model.models[0], policy.policy, states) / LIKELY
    size = max(64, _ENTRIES // len(policy.require_data()))
    parts = [states[first : first + size] for first in range(0, len(states), size)]
    distances = np.concatenate([policy.support(part).distance for part in parts])
    return distances / policy.kernel.usual_distance()


def guard_distance(policy: "FittedPolicy") -> float:
    """Bandwidths from the nearest sample up to which a guard lets the policy act."""
    # What 99 of 100 samples have at most from each other; where replay has shown that models
    # predict held-out rows, what 99 of 100 of these have from the others.
    usual, h = policy.kernel.usual_distance(), policy.bandwidths
    if policy.evaluator != "model" or not policy.check().ok:
        return usual
    data = policy.require_data()
    _, folds = held_out_folds(data, Seed(policy.seed).numpy("replay"))
    taken = regression_actions(data).numpy()
    taken = taken * _OTHER_LABEL if data.is_discrete else taken / np.asarray(h.action)
    places = np.concatenate([data.observations / np.asarray(h.state), taken], axis=1)
    apart = np.concatenate([cKDTree(places[~fold]).query(places[fold])[0] for fold in folds])
    alike = apart[apart < _OTHER_LABEL]
    return max(usual, float(np.quantile(alike, USUAL_SHARE))) if len(alike) else usual


def _beside_the_log(policy: "FittedPolicy", data: Dataset) -> Comparison:
    """With the recorded episodes; without any, with what was done on average."""
    try:
        return policy.compare()
    except DataError:  # rows are in no order
        usual = regression_actions(data).mean(dim=0)  # of labels, how often each was chosen
        layer = nn.Linear(data.observations.shape[1], len(usual), dtype=torch.float64)
        layer.load_state_dict({"weight": torch.zeros_like(layer.weight), "bias": usual})
        kind = CategoricalPolicy if data.is_discrete else DeterministicPolicy
        starts = np.array(policy.initial_states, dtype=np.float64)
        given = (policy.model, policy.actor, actor_of(kind(nn.Sequential(layer))), starts)
        return compared_with_actor(*given, 0.95, MEAN_ACTION)


def compared(policy: "FittedPolicy", other: Any, level: float) -> Comparison:
    """A policy against recorded episodes, another policy or a function."""
    data, model, actor = policy.require_data(), policy.model, policy.actor
    if other is None or isinstance(other, Dataset):
        log = data if other is None else alike(other, policy)
        return compared_with_log(model, actor, log, level)
    starts = np.array(policy.initial_states, dtype=np.float64)
    if isinstance(other, type(policy)):
        if other.data is None or _widths(other.data) != _widths(data):
            found = "unknown ones" if other.data is None else _named(other.data)
            raise DataError(
                f"Policies that are compared must have the same columns, {_named(data)}, the other "
                f"has {found}; pass a function of observations instead."
            )
        against, theirs = "a policy", other.actor
    elif callable(other):
        against, theirs = "a function", _FunctionActor(other, data)
    else:
        raise ConfigError(
            "`other` must be a Dataset, a fitted policy or a function of observations, "
            f"got {type(other).__name__}; leave it out for the episodes of the data."
        )
    return compared_with_actor(model, actor, theirs, starts, level, against)


def alike(episodes: Dataset, policy: "FittedPolicy") -> Dataset:
    """Recordings with the columns and the reward function of the policy's data."""
    data = policy.require_data()
    if not isinstance(episodes, Dataset):
        raise DataError(f"Episodes must be a Dataset, got {type(episodes).__name__}; load them.")
    layout = data.history
    if layout is not None and episodes.history is None:
        episodes = episodes.with_history(observations=layout.observations, actions=layout.actions)
    if _widths(episodes) != _widths(data):
        raise DataError(f"Episodes must have the columns {_named(data)}, got {_named(episodes)}.")
    known = None if policy.models is None else policy.models[0].known_reward
    if known is None:
        return episodes
    states, following = episodes.observations, episodes.next_observations
    taken = regression_actions(episodes).numpy()
    found = known.of_arrays(np.array(states), taken, np.array(following))
    return episodes.with_note(NOTE, rewards=found)


class _FunctionActor:
    """A function of observations as it acts on states, its answers checked."""

    def __init__(self, function: Callable[[Array], Any], data: Dataset) -> None:
        self._function = function
        self._n_seen = None if data.history is None else data.history.n_observed
        self._labels = data.n_actions if data.is_discrete else None
        self._width = 1 if data.is_discrete else data.actions.shape[1]

    def act(self, states: Array) -> Array:
        """Actions, (m, d_a); labels are one-hot rows."""
        seen = states[:, : self._n_seen]
        try:
            found = np.asarray(self._function(seen.copy()), dtype=np.float64)
            actions = found.reshape(len(states), self._width)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"A function that is compared with must turn observations {seen.shape} "
                f"into actions ({len(states)}, {self._width}), it failed with: {error}."
            ) from error
        labels, what, fits = self._labels, "finite actions", np.isfinite(actions)
        if labels is not None:
            what, fits = f"labels 0 to {labels - 1}", np.isin(actions, range(labels))
        if not fits.all():
            raise ConfigError(
                f"A function that is compared with must return {what}, got "
                f"{actions.min():g} to {actions.max():g}; act as the data do."
            )
        return actions if labels is None else np.eye(labels)[actions[:, 0].astype(np.int64)]


def _widths(data: Dataset) -> tuple[int, tuple[int, ...]]:
    return data.observations.shape[1], data.actions.shape[1:]


def _named(data: Dataset) -> str:
    return ", ".join((*data.observation_names, *data.action_names))
