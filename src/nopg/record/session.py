"""The states of a recording and what each command does in them.

    READY --toggle or a driving key--> RUNNING <--toggle--> PAUSED
    RUNNING --the episode ends, or `keep`--> SAVED --toggle--> READY
                                       (or UNSAVED, if the disk refused)
    retry:   throw the attempt (or the saved episode) away, same start again
    discard: throw it away, new start

A time limit ends an episode as truncated, as does `keep`; the environment alone says terminated.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from nopg.data import Dataset
from nopg.errors import ConfigError, NopgError
from nopg.record.simulator import Simulator, Transition
from nopg.record.teleop import Controls, Teleop

Episode = tuple[Transition, ...]


class Demonstrations:
    """Episodes of one recording; what lies on the disk is always a complete dataset."""

    def __init__(self, path: Path, columns: Mapping[str, Any]) -> None:
        if path.exists():
            raise ConfigError(
                f"`{path}` must not exist, a recording never overwrites; name another and merge."
            )
        self.path, self.columns = path, columns  # names and spaces
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
        if len(rows := [(*row, i) for i, episode in enumerate(episodes) for row in episode]) < 2:
            # One row is no dataset yet: it is written together with the next episode.
            self.path.unlink(missing_ok=True)
            return
        Dataset(*zip(*rows, strict=True), **self.columns).save(self.path)


# Where a recording stands, and what the page may ask for; the page writes them in lower case.
Phase = StrEnum("Phase", ["READY", "RUNNING", "PAUSED", "SAVED", "UNSAVED", "FINISHED"])
Command = StrEnum("Command", ["TOGGLE", "HOLD", "KEEP", "RETRY", "DISCARD", "QUIT"])


def start_seed(seed: int, start: int) -> int:
    """The seed of start number `start`: with it an episode can be replayed exactly."""
    return int(np.random.SeedSequence(seed, spawn_key=(start,)).generate_state(1)[0])


class Session:
    """A recording in progress: it owns a running environment, so it is not frozen."""

    def __init__(
        self,
        simulator: Simulator,  # the environment
        teleop: Teleop,  # reads the controls
        demonstrations: Demonstrations,  # where finished episodes go
        *,
        seed: int,  # root of the seeds of the starts
        wanted: int | None = None,  # number of episodes to record, None for no end
        announce: Callable[[str], None] = lambda sentence: None,  # what happened
    ) -> None:
        self.simulator, self.teleop, self.demonstrations = simulator, teleop, demonstrations
        self._seed, self._announce, self.wanted = seed, announce, wanted
        self._start = 0
        self.notice = ""  # what went wrong last, for the page
        self._begin()

    def _begin(self) -> None:
        self.observation = self.simulator.reset(start_seed(self._seed, self._start))  # now, (d_s,)
        self.teleop.reset()
        self.rows: list[Transition] = []  # the episode so far, or that just ended
        self.ending = ""  # how it ended, empty while it goes on
        self.total = 0.0  # its rewards so far
        self.phase, self._is_armed = Phase.READY, False

    @property
    def is_complete(self) -> bool:
        """Whether as many episodes are saved as were wanted."""
        return self.wanted is not None and self.demonstrations.n_episodes >= self.wanted

    def handle(self, command: Command) -> None:
        """Do what `command` means in the present phase, or nothing."""
        self.notice = ""
        match command:
            case Command.TOGGLE:
                self._toggle()
            case Command.HOLD if self.phase is Phase.RUNNING:
                self.phase = Phase.PAUSED
            case Command.KEEP if self.rows and self.phase in (Phase.RUNNING, Phase.PAUSED):
                self.rows[-1] = self.rows[-1]._replace(truncated=True)
                self._save("stopped by you (truncated)")
            case Command.RETRY | Command.DISCARD if self.phase is not Phase.FINISHED:
                self._throw_away(is_same_start=command is Command.RETRY)
            # Not in the middle of an attempt: keep it or discard it first.
            case Command.QUIT if self.phase in (Phase.READY, Phase.SAVED):
                self.phase = Phase.FINISHED

    def tick(self, controls: Controls) -> bool:
        """Let one step of time pass; say whether the picture changed."""
        if self.phase is Phase.READY:
            # A key still held from the last episode must be let go first.
            self._is_armed = self._is_armed or controls.is_neutral
            if self._is_armed and not controls.is_neutral:
                self.phase = Phase.RUNNING
        if self.phase is not Phase.RUNNING or (action := self.teleop.decide(controls)) is None:
            return False
        row = self.simulator.step(action)
        self.rows.append(row)
        self.observation, self.total = row.next_observation, self.total + row.reward
        if row.terminated:
            self._save("the task ended (terminated)")
        elif row.truncated:
            self._save("time limit (truncated)")
        return True

    def _toggle(self) -> None:
        if self.phase in (Phase.READY, Phase.PAUSED):
            self.phase = Phase.RUNNING
        elif self.phase is Phase.RUNNING:
            self.phase = Phase.PAUSED
        elif self.phase is Phase.UNSAVED:
            self._save(self.ending)
        elif self.phase is Phase.SAVED and self.is_complete:
            self.phase = Phase.FINISHED
        elif self.phase is Phase.SAVED:
            self._start += 1
            self._begin()

    def _save(self, ending: str) -> None:
        self.ending = ending
        try:
            self.demonstrations.add(tuple(self.rows))
        except NopgError as error:
            self.phase, self.notice = Phase.UNSAVED, str(error)
            self._announce(f"An episode could not be saved: {error}")
            return
        self.phase = Phase.SAVED
        self._announce(
            f"Episode {self.demonstrations.n_episodes} saved: {len(self.rows)} steps, "
            f"return {self.total:.4g}, {ending}."
        )

    def _throw_away(self, *, is_same_start: bool) -> None:
        if self.phase is Phase.SAVED:
            try:
                self.demonstrations.drop_last()
            except NopgError as error:
                self.notice = str(error)
                return
            self._announce("The last episode was taken back.")
        if not is_same_start:
            self._start += 1
        self._begin()
