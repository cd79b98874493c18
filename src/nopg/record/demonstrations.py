"""The file under recording: whole episodes, saved one by one, never overwritten."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium.spaces import Space

from nopg.data import Dataset
from nopg.errors import ConfigError, DataError
from nopg.record.simulator import Transition

Episode = tuple[Transition, ...]
Row = tuple[Any, ...]  # the numbers of a transition and, last, the id of its episode
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

    def __init__(self, path: Path, layout: Layout, *, append: bool = False) -> None:
        self.path, self.layout = path, layout
        self._before = _rows(path, layout, append=append) if path.exists() else []
        self._ids_before = {int(row[-1]) for row in self._before}
        self._episodes: list[Episode] = []

    @property
    def n_new(self) -> int:
        """Episodes recorded by this session."""
        return len(self._episodes)

    @property
    def n_episodes(self) -> int:
        """Episodes in the file."""
        return self.n_new + len(self._ids_before)

    @property
    def n_transitions(self) -> int:
        """Transitions in the file."""
        return len(self._before) + sum(map(len, self._episodes))

    def add(self, episode: Episode) -> None:
        """Append `episode` and save; on an error the file and this object stay."""
        self._save([*self._episodes, episode])
        self._episodes.append(episode)

    def drop_last(self) -> None:
        """Take back the last episode of this session and save."""
        self._save(self._episodes[:-1])
        del self._episodes[-1:]

    def _save(self, episodes: list[Episode]) -> None:
        rows, first_id = list(self._before), 1 + max(self._ids_before, default=-1)
        for episode_id, episode in enumerate(episodes, first_id):
            rows += [(*row, episode_id) for row in episode]
        if len(rows) < _MIN_TRANSITIONS:
            # One row is no dataset yet: it is written together with the next episode.
            self.path.unlink(missing_ok=True)
            return
        Dataset(*zip(*rows, strict=True), **vars(self.layout)).save(self.path)


def _rows(path: Path, layout: Layout, *, append: bool) -> list[Row]:
    """Rows of an existing file, if it fits and may grow."""
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
    states, following = before.observations, before.next_observations
    ends = (before.terminations, before.truncations, before.episodes)
    return [*zip(states, before.actions, before.rewards, following, *ends, strict=True)]
