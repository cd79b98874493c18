"""The one shape all data take: transitions (s, a, r, s') and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg.data.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    as_actions,
    as_episodes,
    as_flags,
    as_matrix,
    as_vector,
    preview,
    require_same_length,
)
from nopg.errors import DataError

if TYPE_CHECKING:
    from gymnasium.spaces import Space


@dataclass(frozen=True, eq=False, init=False)
class Dataset:
    """Logged transitions, in any order, validated once and never changed.

    Rows need not form trajectories: a grid of states and actions is as good as
    an episode. Integer `actions` are labels of a discrete action; floats are a
    continuous action in your own units.

    Args:
        observations: States s, (n, d_s).
        actions: Actions a, (n, d_a), or integer labels (n,).
        rewards: Rewards r, (n,).
        next_observations: Successors s', (n, d_s).
        terminations: True where s' ends the task for good: nothing is earned after.
        truncations: True where only the recording stopped; the value goes on. A row
            may carry both flags (a task that ends in its last allowed step): the
            termination decides.
        episodes: Episode id of each row; rows of one id are in time order.
        observation_names: A name a state column, for reports and plots.
        action_names: A name an action column.
        observation_space: Gymnasium space of the states, if known.
        action_space: Gymnasium space of the actions, if known; data outside it
            are refused.

    Raises:
        DataError: If the arrays cannot be transitions; the sentence says why.
    """

    observations: FloatArray
    actions: FloatArray | IntArray
    rewards: FloatArray
    next_observations: FloatArray
    terminations: BoolArray
    truncations: BoolArray
    episodes: IntArray | None
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    observation_space: Space[Any] | None
    action_space: Space[Any] | None

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
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
    ) -> None:
        states = as_matrix("observations", observations)
        n = len(states)
        arrays: dict[str, Any] = {
            "observations": states,
            "actions": as_actions(actions),
            "rewards": as_vector("rewards", rewards),
            "next_observations": as_matrix("next_observations", next_observations),
            "terminations": as_flags("terminations", terminations, n),
            "truncations": as_flags("truncations", truncations, n),
        }
        ids = as_episodes(episodes)
        lengths = {name: len(array) for name, array in arrays.items()}
        require_same_length(lengths | ({} if ids is None else {"episodes": len(ids)}))
        _require_transitions(arrays)
        _require_inside(arrays["actions"], action_space)
        for name, array in (arrays | {"episodes": ids}).items():
            if array is not None:
                array.setflags(write=False)
            object.__setattr__(self, name, array)
        d_a = 1 if arrays["actions"].ndim == 1 else arrays["actions"].shape[1]
        names = {
            "observation_names": _names("s", observation_names, states.shape[1]),
            "action_names": _names("a", action_names, d_a),
            "observation_space": observation_space,
            "action_space": action_space,
        }
        for name, value in names.items():
            object.__setattr__(self, name, value)

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
        """Number of discrete actions: the space's if known, else those seen."""
        if not self.is_discrete:
            raise DataError(
                "`n_actions` exists for discrete actions only, these are continuous; "
                "use actions.shape[1] for their dimension."
            )
        known = getattr(self.action_space, "n", None)
        return int(known) if known is not None else int(self.actions.max()) + 1

    @property
    def n_episodes(self) -> int:
        """Number of distinct episode ids, 0 when rows have none."""
        return 0 if self.episodes is None else len(np.unique(self.episodes))

    def first_states(self) -> FloatArray:
        """The first observation of each episode, (n_episodes, d_s).

        Raises:
            DataError: If the data have no episode ids.
        """
        if self.episodes is None:
            raise DataError(
                "Initial states come from the first row of each episode, but these "
                "data have no `episodes`; pass `initial_states` yourself."
            )
        _, first_rows = np.unique(self.episodes, return_index=True)
        return self.observations[np.sort(first_rows)]

    @classmethod
    def load(cls, path: str | Path) -> Dataset:
        """Read a dataset from a file; nothing in the file is ever executed.

        Args:
            path: An `.npz` file with arrays named like the constructor's arguments.

        Raises:
            DataError: If the file is missing, damaged or not a dataset.
        """
        from nopg.data.npz import read_npz

        return read_npz(Path(path))

    def save(self, path: str | Path) -> None:
        """Write the dataset to `path` whole or not at all."""
        from nopg.data.npz import write_npz

        write_npz(self, Path(path))

    def subset(self, rows: Any) -> Dataset:
        """The transitions at `rows` (indices or a mask), all else unchanged."""
        return Dataset(
            self.observations[rows],
            self.actions[rows],
            self.rewards[rows],
            self.next_observations[rows],
            self.terminations[rows],
            self.truncations[rows],
            None if self.episodes is None else self.episodes[rows],
            observation_names=self.observation_names,
            action_names=self.action_names,
            observation_space=self.observation_space,
            action_space=self.action_space,
        )


def _require_transitions(arrays: dict[str, Any]) -> None:
    n = len(arrays["observations"])
    if n < 2:
        raise DataError(
            f"A dataset needs at least two transitions, got {n}; kernel regression "
            "has nothing to interpolate between."
        )
    d_s, d_next = (
        arrays[key].shape[1] for key in ("observations", "next_observations")
    )
    if d_s != d_next:
        raise DataError(
            "`observations` and `next_observations` must have the same columns, got "
            f"{d_s} and {d_next}; select the same ones for both."
        )


def _require_inside(actions: Any, space: Space[Any] | None) -> None:
    if space is None:
        return
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if actions.ndim == 1:
        count = getattr(space, "n", None)
        if count is None or int(getattr(space, "start", 0)) != 0:
            raise DataError(
                f"Integer `actions` need a Discrete action space starting at 0, got "
                f"{space}; pass actions.astype(float) if they are continuous."
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
            f"({preview(rows)}); clip them if the system did, or pass a wider space."
        )


def _names(prefix: str, given: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if given is None:
        return tuple(f"{prefix}{i}" for i in range(count))
    names = tuple(str(name) for name in given)
    if len(names) != count or len(set(names)) != count:
        raise DataError(
            f"There must be {count} distinct column names, got {list(names)}; name "
            "each column once."
        )
    return names
