"""The past as columns of the state: which they are, and how they move on.

    (o[t], o[t] - o[t-1], ..., o[t-j+1] - o[t-j], action[t-1], ..., action[t-k])

in differences, since successive observations are nearly the same. Before an episode its first
observation stands for earlier ones, a constant for actions. Labels are one column each, 0 before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from nopg.data.validation import FloatArray, IntArray
from nopg.errors import DataError


@dataclass(frozen=True)
class HistoryLayout:
    """Which columns of a state are the past, and how they move on."""

    n_observed: int  # columns of an observation, the first of the state, d_o
    observations: int  # past observations kept, j
    actions: int  # past actions kept, k
    before: tuple[float, ...]  # what stands for an action before the first, (d_a,)
    is_discrete: bool = False  # whether actions are labels, d_a of them

    @property
    def n_kept(self) -> int:
        """Columns of the past, j d_o + k d_a."""
        return self.observations * self.n_observed + self.actions * len(self.before)

    @property
    def width(self) -> int:
        """Columns of the state: an observation and the past."""
        return self.n_observed + self.n_kept

    @property
    def copied(self) -> IntArray:
        """Columns of (state, action) that are the past one step later, (n_kept,)."""
        d_o, d_a, j = self.n_observed, len(self.before), self.observations
        seen = np.arange(j * d_o)
        done = (j + 1) * d_o + np.arange((self.actions - 1) * d_a)
        last = self.width + np.arange(d_a if self.actions else 0)
        return np.concatenate([seen, last, done]).astype(np.int64)

    @property
    def first(self) -> IntArray:
        """Columns of (observation, before, 0) that are the first past, (n_kept,)."""
        d_o, d_a = self.n_observed, len(self.before)
        seen = np.full((self.observations, d_o), d_o + d_a)  # nothing has changed
        seen[:1] = np.arange(d_o)
        done = d_o + np.tile(np.arange(d_a), self.actions)
        return np.concatenate([seen.reshape(-1), done]).astype(np.int64)

    @property
    def n_changes(self) -> int:
        """Columns of the past that hold the observation before, d_o or 0."""
        return self.n_observed if self.observations else 0

    def changed(self, present: Any, past: Any) -> Any:
        """The past, its first observation taken from the present; twice undoes it."""
        c = self.n_changes
        past[:, :c] = present[:, :c] - past[:, :c]
        return past

    def join(self, observations: FloatArray, past: FloatArray) -> FloatArray:
        """States (m, width) of observations (m, d_o) and the past that was kept."""
        return np.concatenate([observations, self.changed(observations, np.array(past))], axis=1)

    def begin(self, observations: FloatArray) -> FloatArray:
        """The past to keep for an episode's first observations (m, d_o)."""
        before = np.tile([*self.before, 0.0], (len(observations), 1))
        return np.concatenate([observations, before], axis=1)[:, self.first]

    def after(self, states: FloatArray, actions: Any) -> FloatArray:
        """The past to keep after `actions` were taken in `states`, (m, n_kept)."""
        taken = np.asarray(actions)
        if self.is_discrete:
            taken = np.eye(len(self.before))[taken.reshape(-1).astype(np.int64)]
        taken = taken.reshape(len(states), len(self.before))
        return np.concatenate([states, taken], axis=1)[:, self.copied]

    def complete(self, states: FloatArray) -> FloatArray:
        """States (m, width); observations (m, d_o) are taken as an episode's first."""
        is_first = states.ndim == 2 and states.shape[1] == self.n_observed
        return self.join(states, self.begin(states)) if is_first else states

    def require_columns(self, n_states: int, n_actions: int) -> None:
        """Refuse a table that has other columns."""
        if (n_states, n_actions) != (self.width, len(self.before)):
            raise DataError(
                f"A state with its history must have {self.width} columns and {len(self.before)} "
                f"of the action, got {n_states} and {n_actions}; call with_history last."
            )

    @classmethod
    def from_json(cls, stored: Mapping[str, Any] | None) -> Self | None:
        """What `dataclasses.asdict` gave; None of None."""
        if stored is None:
            return None
        values = {field.name: stored[field.name] for field in fields(cls)}
        values["before"] = tuple(float(value) for value in values["before"])
        found = cls(**values)
        counts = (found.n_observed, found.observations, found.actions)
        is_whole = all(type(count) is int and 0 <= count < 10**6 for count in counts)
        if not is_whole or not found.n_observed or not found.n_kept:
            raise ValueError(f"{counts} are no numbers of columns and past steps")
        if not np.isfinite(found.before).all():
            raise ValueError("actions before the first are not finite")
        return found
