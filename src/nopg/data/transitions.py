"""The one shape all data take: transitions (s, a, r, s') and how they ended."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from nopg.data import validation
from nopg.data.history import HistoryLayout
from nopg.errors import DataError

ARRAYS: tuple[str, ...] = ("observations", "actions", "rewards", "next_observations")
ARRAYS += ("terminations", "truncations", "episodes")  # in the order of the arguments
SAME = 1e-6  # share of a spread by which s' and the next s may differ


@dataclass(frozen=True, eq=False, init=False)
class TransitionTable:
    """The rows of a `Dataset`, as readers, writers and diagnostics know them."""

    observations: validation.FloatArray
    actions: validation.FloatArray | validation.IntArray
    rewards: validation.FloatArray
    next_observations: validation.FloatArray
    terminations: validation.BoolArray
    truncations: validation.BoolArray
    episodes: validation.IntArray | None
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    sample_time: float | None
    observation_space: Space[Any] | None
    action_space: Space[Any] | None
    notes: tuple[str, ...]
    history: HistoryLayout | None

    def __init__(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        next_observations: Any,
        terminations: Any,
        truncations: Any = None,
        episodes: Any = None,
        *,
        observation_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        sample_time: float | None = None,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        notes: Sequence[str] = (),
        history: HistoryLayout | None = None,
    ) -> None:
        states = validation.as_matrix("observations", observations)
        n = len(states)
        arrays: dict[str, Any] = {
            "observations": states,
            "actions": validation.as_actions(actions),
            "rewards": validation.as_vector("rewards", rewards),
            "next_observations": validation.as_matrix("next_observations", next_observations),
            "terminations": validation.as_flags("terminations", terminations, n),
            "truncations": validation.as_flags("truncations", truncations, n),
            "episodes": validation.as_episodes(episodes),
        }
        validation.require_same_length(arrays)
        if n < 2:
            raise DataError(f"A dataset needs at least two transitions, got {n}; record more.")
        d_s, d_next = states.shape[1], arrays["next_observations"].shape[1]
        if d_s != d_next:
            raise DataError(f"States and successors must have one width, got {d_s} and {d_next}.")
        require_inside(arrays["actions"], action_space)
        sample_time = None if sample_time is None else float(sample_time)
        if sample_time is not None and not 0.0 < sample_time < np.inf:
            raise DataError(f"`sample_time` must be a positive time or None, got {sample_time!r}.")
        for array in arrays.values():
            if array is not None:
                array.setflags(write=False)
        d_a = 1 if arrays["actions"].ndim == 1 else arrays["actions"].shape[1]
        metadata = {
            "observation_names": _column_names("s", observation_names, d_s),
            "action_names": _column_names("a", action_names, d_a),
            "sample_time": sample_time,
            "observation_space": observation_space,
            "action_space": action_space,
            "notes": tuple(str(note) for note in notes),
            "history": history,
        }
        for name, value in (arrays | metadata).items():
            object.__setattr__(self, name, value)
        if history is not None:
            history.require_columns(d_s, self.n_actions if self.is_discrete else d_a)

    def __len__(self) -> int:
        return len(self.observations)

    def __repr__(self) -> str:
        kind = "discrete" if self.is_discrete else f"{self.actions.shape[1]}-d"
        return (
            f"Dataset({len(self)} transitions, {self.observations.shape[1]}-d states, "
            f"{kind} actions, {int(self.terminations.sum())} terminations, "
            f"{'no' if self.episodes is None else self.n_episodes} episodes)"
        )

    @property
    def is_discrete(self) -> bool:
        """Whether actions are integer labels."""
        return self.actions.ndim == 1

    @property
    def n_actions(self) -> int:
        """Number of discrete actions: from the space, else as seen in the data."""
        if not self.is_discrete:
            raise DataError("`n_actions` is for discrete actions, these are continuous.")
        if self.history is not None:
            return len(self.history.before)
        stated = getattr(self.action_space, "n", None)
        return int(stated) if stated is not None else int(self.actions.max()) + 1

    @property
    def n_episodes(self) -> int:
        """Number of distinct episode ids, 0 when rows have none."""
        return 0 if self.episodes is None else len(np.unique(self.episodes))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array there is, by its name."""
        found = {name: getattr(self, name) for name in ARRAYS}
        return {name: array for name, array in found.items() if array is not None}

    @cached_property
    def run_starts(self) -> tuple[validation.IntArray, validation.BoolArray]:
        """Rows in time order, and which of them is the first of its run, (n,) both."""
        # A run ends with its episode, at a flag, and where rows are missing in between.
        n, ids = len(self), self.episodes
        order = np.arange(n) if ids is None else np.argsort(ids, kind="stable")
        before, after = order[:-1], order[1:]
        slack = SAME * (np.ptp(self.observations, axis=0) + SAME)
        gap = np.abs(self.observations[after] - self.next_observations[before]) > slack
        is_first = np.ones(n, dtype=bool)
        if ids is not None:
            ended = (self.terminations | self.truncations)[before]
            is_first[1:] = (ids[before] != ids[after]) | ended | gap.any(axis=1)
        for kept in (order, is_first):  # by all who ask
            kept.setflags(write=False)
        return order, is_first

    def first_states(self) -> validation.FloatArray:
        """The first observation of each episode, (n_episodes, d_s)."""
        if self.episodes is None:
            raise DataError("Without `episodes` initial states are unknown; pass `initial_states`.")
        return self.observations[np.sort(np.unique(self.episodes, return_index=True)[1])]

    def subset(self, rows: Any) -> Self:
        """The transitions at `rows` (indices or a mask), all else unchanged."""
        return replace(self, **{name: array[rows] for name, array in self.arrays().items()})

    def with_note(self, note: str, **changes: Any) -> Self:
        """The same with `changes` and a sentence that says so added to the notes."""
        return replace(self, **changes, notes=(*self.notes, note))


def require_inside(actions: Any, space: Space[Any] | None) -> None:
    """Actions of the kind, the width and the range that `space` allows."""
    if space is None:
        return
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if actions.ndim == 1:
        if (count := getattr(space, "n", None)) is None or int(getattr(space, "start", 0)) != 0:
            raise DataError(
                f"Integer `actions` need a Discrete space from 0, got {space}; else pass floats."
            )
        outside = actions >= count
    elif low is None or high is None or np.shape(low) != actions.shape[1:]:
        raise DataError(
            f"Continuous `actions` of width {actions.shape[1]} need a Box action space "
            f"of the same shape, got {space}; correct the space or the actions."
        )
    else:
        # A float32 space rounds its bounds: allow what that rounding moves.
        slack = 1e-6 * (1.0 + np.maximum(np.abs(low), np.abs(high)))
        outside = ((actions < low - slack) | (actions > high + slack)).any(axis=1)
    if outside.any():
        rows = np.nonzero(outside)[0]
        raise DataError(
            f"`actions` must lie in the action space {space}, {len(rows)} rows do not "
            f"({validation.preview(rows)}); clip them if the system did, or pass a wider space."
        )


def _column_names(prefix: str, given: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """One distinct name per column: those given, else the prefix and a number."""
    if given is None:
        return tuple(f"{prefix}{i}" for i in range(count))
    names = tuple(str(name) for name in given)
    if len(names) != count or len(set(names)) != count:
        raise DataError(f"There must be {count} distinct column names, got {list(names)}.")
    return names
