"""`nopg.Dataset`: the table of transitions, its files and its description."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from gymnasium.spaces import Space

from nopg.data.diagnostics.description import Description, describe
from nopg.data.io.array_files import write_npz
from nopg.data.io.load import load
from nopg.data.io.options import MAX_BYTES, ReadOptions
from nopg.data.past import with_history
from nopg.data.transitions import TransitionTable


class Dataset(TransitionTable):
    """Logged transitions, in any order, validated once and never changed.

    Rows need not form trajectories: a grid of states and actions is as good as an episode. Integer
    `actions` are labels of a discrete action; floats are a continuous action in your own units.

    Args:
        observations: States s, (n, d_s).
        actions: Actions a, (n, d_a), or integer labels (n,).
        rewards: Rewards r, (n,).
        next_observations: Successors s', (n, d_s).
        terminations: True where s' ends the task for good: nothing is earned after.
        truncations: True where only the recording stopped; if the task ended too, that decides.
        episodes: Episode id of each row; rows of one id are in time order.
        observation_names: One name per state column, for reports and plots.
        action_names: One name per action column.
        sample_time: Time from one row of an episode to the next, if known.
        observation_space: Gymnasium space of the states, if known.
        action_space: Gymnasium space of the actions, if known; data outside it
            are refused, and labels it has beyond those seen count as actions.
        notes: Sentences that say how the rows came to be, and what was dropped.
        history: Which columns of the state are past ones; `with_history` sets it.

    Raises:
        DataError: If the arrays cannot be transitions; the sentence says why.

    Example:
        >>> states = np.array([[0.0], [0.5], [0.8]])
        >>> pushes = np.array([[1.0], [0.5], [0.0]])
        >>> rewards, ends = [0.0, 1.0, 2.0], [False, False, True]
        >>> data = nopg.Dataset(states, pushes, rewards, states + 0.1, ends)
        >>> len(data), data.terminations.tolist()
        (3, [False, False, True])
    """

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
        time: str | None = None,
        is_discrete: bool | None = None,
        missing: Literal["error", "drop", "hold"] = "error",
        repeated: Literal["keep", "drop"] = "keep",
        gap: float | None = None,
        resample: float | None = None,
        decimal: Literal[".", ","] | None = None,
        time_limit: int | None = None,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> Self:
        """Read a data set from a file; nothing in the file is ever executed.

        The column names are for tables (`.csv`, `.csv.gz`, `.tsv`, `.parquet`). Those left out are
        found by their usual names, such as `reward`, `done`, `episode`, `u` and `action_0`; other
        numbers are the state. `notes` says what was taken for what. Without `next_observations`
        the successor of a row is the state in the following row of the same episode.

        Args:
            source: A file (`.npz`, `.csv`, `.parquet`, `.h5`, `.mat`, `.mcap`), a folder of LeRobot
                or Minari, or the id of a local Minari dataset such as `"lab/arm-v0"`.
            observations: Columns of the state s.
            actions: Columns of the action a.
            reward: Column of the reward, or a function of (s, a, s').
            next_observations: Columns of the successor s', in the order of s.
            episode: Column whose values tell the episodes apart.
            termination: Column that is true where the task ended for good.
            truncation: Column that is true where only the recording stopped.
            time: Column of times, numbers or ISO dates; `""` reads without a clock.
            is_discrete: Whether the action is a label 0, 1, 2, ...; by default it is
                if it is one column of whole numbers without a sign.
            missing: `"error"` refuses empty cells, `"drop"` leaves their rows out, `"hold"` gives
                rows without an action the one before, for states and actions logged at two rates.
            repeated: Whether repeats of a row, time included, are kept with a warning or dropped.
            gap: Interval from which on an episode is cut; by default one far longer than others.
            resample: Lay the rows on a grid of this sample time: states on a line between rows,
                actions as the last one before, rewards by their sum.
            decimal: How a CSV writes decimals, found by default: `0.5` or `0,5`.
            time_limit: Steps after which recordings were cut: terminations there are truncations.
            observation_space: Gymnasium space of the states.
            action_space: Gymnasium space of the actions.
            max_bytes: Refuse files that would unpack to more; 2 GiB by default.

        Raises:
            DataError: If the file is missing, damaged or not a data set.

        Example:
            >>> lines = ["x;u;r", "0,0;1,0;0", "0,5;0,5;1", "0,8;0,0;2"]
            >>> _ = Path("log.csv").write_text(chr(10).join(lines))
            >>> data = nopg.Dataset.load("log.csv")
            >>> data.observations[:, 0], data.actions[:, 0]
            (array([0. , 0.5]), array([1. , 0.5]))
            >>> "Decimal commas were read." in data.notes
            True
        """
        given = {k: v for k, v in vars().items() if k not in ("cls", "source")}
        return cls(**load(source, ReadOptions(**given)))

    def save(self, path: str | Path) -> None:
        """Write the data set to an `.npz` file, whole or not at all."""
        write_npz(self, Path(path))

    def describe(self, action_space: Space[Any] | None = None) -> Description:
        """What the data are and what that means for learning; print it.

        Args:
            action_space: Bounds to hold the actions against, if the data know none.
        """
        return describe(self, action_space)

    def with_history(
        self, steps: int = 0, *, observations: int | None = None, actions: int | None = None
    ) -> Self:
        """The data with past observations and actions as columns of the state.

        For systems that answer late or do not show all of their state. Observations are added as
        differences. No row is dropped: before an episode nothing has changed, and the action is the
        constant that best explains how episodes begin. A policy keeps such columns as it acts.

        Args:
            steps: Past steps to add, of both.
            observations: Past observations, if their number differs.
            actions: Past actions, if their number differs.
        """
        observations = steps if observations is None else observations
        return with_history(self, observations, steps if actions is None else actions)
