"""The file under recording: whole episodes, saved one by one, never overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from nopg.data import Dataset
from nopg.errors import ConfigError, DataError
from nopg.record.simulator import Transition

Episode = tuple[Transition, ...]
_MIN_TRANSITIONS = 2  # what a Dataset needs


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What every row of the file looks like."""

    observation_space: Space[Any]
    action_space: Space[Any]
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]


class Demonstrations:
    """Episodes of one recording and those the file already held.

    Every change writes the whole file through a temporary one, so what lies on the
    disk is always a complete dataset.
    """

    def __init__(self, path: Path, layout: Layout, before: Dataset | None) -> None:
        self.path = path
        self.layout = layout
        self._before = before
        self._episodes: list[Episode] = []

    @property
    def n_new(self) -> int:
        """Episodes recorded by this session."""
        return len(self._episodes)

    @property
    def n_episodes(self) -> int:
        """Episodes in the file."""
        return self.n_new + (self._before.n_episodes if self._before else 0)

    @property
    def n_transitions(self) -> int:
        """Transitions in the file."""
        before = len(self._before) if self._before else 0
        return before + sum(map(len, self._episodes))

    def add(self, episode: Episode) -> None:
        """Append `episode` and save; on an error the file and this object stay.

        Raises:
            NopgError: If the rows are no transitions or the file cannot be written.
        """
        self._save([*self._episodes, episode])
        self._episodes.append(episode)

    def drop_last(self) -> None:
        """Take back the last episode of this session and save."""
        self._save(self._episodes[:-1])
        del self._episodes[-1:]

    def _save(self, episodes: list[Episode]) -> None:
        rows = [row for episode in episodes for row in episode]
        if self._before is None and len(rows) < _MIN_TRANSITIONS:
            # One row is no dataset yet: it is written together with the next episode.
            self.path.unlink(missing_ok=True)
            return
        ids = [k for k, episode in enumerate(episodes) for _ in episode]
        self._dataset(rows, ids).save(self.path)

    def _dataset(self, rows: Sequence[Transition], ids: list[int]) -> Dataset:
        before, first_id = self._before, 0
        if before is not None and before.episodes is not None:
            if not rows:
                return before
            first_id = int(before.episodes.max()) + 1
        columns: dict[str, Any] = {
            "observations": [row.observation for row in rows],
            "actions": [row.action for row in rows],
            "rewards": [row.reward for row in rows],
            "next_observations": [row.next_observation for row in rows],
            "terminations": [row.terminated for row in rows],
            "truncations": [row.truncated for row in rows],
            "episodes": np.array(ids) + first_id,
        }
        if before is not None:
            columns = {
                name: np.concatenate([getattr(before, name), column])
                for name, column in columns.items()
            }
        return Dataset(**columns, **vars(self.layout))


def open_demonstrations(path: Path, layout: Layout, *, append: bool) -> Demonstrations:
    """The file to record into: a new one, or an old one that fits and may grow.

    Args:
        path: Where the episodes go.
        layout: Spaces and names of the environment.
        append: Whether an existing file may be added to.

    Raises:
        ConfigError: If the file exists and `append` is False, or it does not fit.
        DataError: If the existing file is damaged.
    """
    if not path.exists():
        return Demonstrations(path, layout, before=None)
    if not append:
        raise ConfigError(
            f"`{path}` must not exist, a recording never overwrites; choose another "
            "name, or pass --append to add episodes to it."
        )
    before = Dataset.load(path)
    if before.episodes is None:
        raise DataError(
            f"`{path}` must have episode ids to be added to, it has none; record into "
            "another file."
        )
    for name, mine in vars(layout).items():
        if (theirs := getattr(before, name)) != mine:
            raise DataError(
                f"`{path}` must come from the same environment, it has "
                f"{name.replace('_', ' ')} {theirs} in place of {mine}; record into "
                "another file."
            )
    return Demonstrations(path, layout, before)
