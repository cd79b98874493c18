"""The file under recording: whole episodes, saved one by one, never overwritten."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nopg.data import Dataset
from nopg.errors import ConfigError
from nopg.record.simulator import Transition

Episode = tuple[Transition, ...]
_MIN_TRANSITIONS = 2  # what a Dataset needs


class Demonstrations:
    """Episodes of one recording.

    Every change writes the whole file through a temporary one, so what lies on the
    disk is always a complete dataset.
    """

    def __init__(
        self,
        path: Path,
        columns: Mapping[str, Any],  # names and spaces of states and actions
    ) -> None:
        if path.exists():
            raise ConfigError(
                f"`{path}` must not exist, a recording never overwrites; choose "
                "another name, and join the two with nopg.data.merge."
            )
        self.path, self.columns = path, columns
        self._episodes: list[Episode] = []

    @property
    def n_episodes(self) -> int:
        """Episodes in the file."""
        return len(self._episodes)

    @property
    def n_transitions(self) -> int:
        """Transitions in the file."""
        return sum(map(len, self._episodes))

    def add(self, episode: Episode) -> None:
        """Append `episode` and save; on an error the file and this object stay."""
        self._save([*self._episodes, episode])
        self._episodes.append(episode)

    def drop_last(self) -> None:
        """Take back the last episode and save."""
        self._save(self._episodes[:-1])
        del self._episodes[-1:]

    def _save(self, episodes: list[Episode]) -> None:
        rows = [(*row, i) for i, episode in enumerate(episodes) for row in episode]
        if len(rows) < _MIN_TRANSITIONS:
            # One row is no dataset yet: it is written together with the next episode.
            self.path.unlink(missing_ok=True)
            return
        Dataset(*zip(*rows, strict=True), **self.columns).save(self.path)
