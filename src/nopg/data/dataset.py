"""The one shape all data take: transitions (s, a, r, s') and how they ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nopg.data.consistency import (
    column_names,
    require_inside,
    require_transitions,
)
from nopg.data.io.reading import MAX_BYTES
from nopg.data.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    as_actions,
    as_episodes,
    as_flags,
    as_matrix,
    as_vector,
    require_same_length,
)
from nopg.errors import DataError

if TYPE_CHECKING:
    from gymnasium.spaces import Space

    from nopg.data.diagnostics.description import Description


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
        notes: Sentences that say how the rows came to be: what was taken as s',
            what was dropped and why. Readers and transforms add to them.

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
    notes: tuple[str, ...]

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
        notes: Sequence[str] = (),
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
        require_transitions(arrays)
        require_inside(arrays["actions"], action_space)
        for name, array in (arrays | {"episodes": ids}).items():
            if array is not None:
                array.setflags(write=False)
            object.__setattr__(self, name, array)
        d_a = 1 if arrays["actions"].ndim == 1 else arrays["actions"].shape[1]
        about = {
            "observation_names": column_names("s", observation_names, states.shape[1]),
            "action_names": column_names("a", action_names, d_a),
            "observation_space": observation_space,
            "action_space": action_space,
            "notes": tuple(str(note) for note in notes),
        }
        for name, value in about.items():
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
        """Number of discrete actions: from the space, else as seen in the data."""
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
    def load(
        cls,
        source: str | Path,
        *,
        observations: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        reward: str | Callable[..., Any] | None = None,
        next_observations: Sequence[str] | None = None,
        episode: str | None = None,
        termination: str | None = None,
        truncation: str | None = None,
        is_discrete: bool | None = None,
        missing: Literal["error", "drop"] = "error",
        time_limit: int | None = None,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        progress: bool = True,
        max_bytes: int = MAX_BYTES,
    ) -> Dataset:
        """Read a dataset from a file; nothing in the file is ever executed.

        The column names are for tables (`.csv`, `.csv.gz`, `.tsv`, `.parquet`);
        those left out are guessed from their names, and `notes` says what was
        guessed. Without `next_observations` the successor of a row is the state in
        the following row of the same episode.

        Args:
            source: A file (`.npz`, `.csv`, `.parquet`, `.h5`, `.npy`), a folder of a
                Minari dataset, or the id of a local one such as `"lab/arm-v0"`.
            observations: Columns of the state s.
            actions: Columns of the action a.
            reward: Column of the reward, or a function of (s, a, s').
            next_observations: Columns of the successor s', in the order of s.
            episode: Column whose values tell the episodes apart.
            termination: Column that is true where the task ended for good.
            truncation: Column that is true where only the recording stopped.
            is_discrete: Whether the action is a label 0, 1, 2, ...; by default it is
                if it is one column of whole numbers without a sign.
            missing: `"error"` refuses empty cells, `"drop"` leaves their rows out.
            time_limit: Steps after which the recording was cut; terminations at
                exactly this length are taken as truncations.
            observation_space: Gymnasium space of the states.
            action_space: Gymnasium space of the actions.
            progress: Whether a long read shows a bar on a terminal.
            max_bytes: Refuse files that would unpack to more; 2 GiB by default.

        Raises:
            DataError: If the file is missing, damaged or not a dataset.
        """
        from nopg.data.io.load import load
        from nopg.data.io.reading import Reading

        reading = Reading(
            observations=observations,
            actions=actions,
            reward=reward,
            next_observations=next_observations,
            episode=episode,
            termination=termination,
            truncation=truncation,
            is_discrete=is_discrete,
            missing=missing,
            time_limit=time_limit,
            observation_space=observation_space,
            action_space=action_space,
            progress=progress,
            max_bytes=max_bytes,
        )
        return load(source, reading)

    def save(self, path: str | Path) -> None:
        """Write the dataset whole or not at all, in the format its suffix names.

        Args:
            path: Ends in `.npz`, `.csv`, `.csv.gz`, `.parquet` or `.h5`; a name such
                as `"lab/arm-v0"` without a suffix makes a local Minari dataset.
        """
        from nopg.data.io.load import save

        save(self, path)

    def describe(self, action_space: Space[Any] | None = None) -> Description:
        """What the data are and what that means for learning; print it.

        Args:
            action_space: Bounds to hold the actions against, if the data know none.
        """
        from nopg.data.diagnostics.describe import describe

        return describe(self, action_space)

    def subset(self, rows: Any) -> Dataset:
        """The transitions at `rows` (indices or a mask), all else unchanged."""
        return replace(
            self,
            observations=self.observations[rows],
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            next_observations=self.next_observations[rows],
            terminations=self.terminations[rows],
            truncations=self.truncations[rows],
            episodes=None if self.episodes is None else self.episodes[rows],
        )
