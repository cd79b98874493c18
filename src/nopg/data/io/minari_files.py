"""Minari datasets, by our own reader.

An episode of T steps stores T+1 observations beside T actions, so s' of step t is
observation t+1 of the same episode. Each episode is cut on its own before anything
is joined; joining first shifts every later episode by one more row.

A dataset folder names the environment it came from. Minari would build that
environment, and thereby run code the folder chooses, if the spaces are not stored;
such a folder is refused instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.data.extras import require_extra
from nopg.data.io.arrays import ARRAYS, dataset_from_arrays
from nopg.data.io.progress import steps_bar
from nopg.data.io.reading import Reading
from nopg.data.validation import as_matrix
from nopg.errors import DataError

if TYPE_CHECKING:
    from gymnasium.spaces import Space

_ID = re.compile(r"(?:[\w-]+/)*[\w-]+-v\d+")
KEY = "nopg"
"""Where a dataset that we wrote keeps its names, notes and episode ids."""


def is_minari_id(text: str) -> bool:
    """Whether `text` has the form of a dataset id, such as `lab/arm-v0`."""
    return _ID.fullmatch(text) is not None


def read_minari(source: str | Path, reading: Reading) -> Dataset:
    """Read a local dataset by folder or id; nothing is downloaded or executed.

    Raises:
        DataError: If there is no such dataset or it is damaged.
    """
    require_extra("minari", "minari")
    require_extra("PIL", "minari")  # its HDF5 storage imports it undeclared
    from minari.dataset.minari_storage import MinariStorage

    folder = _folder(source)
    try:
        metadata = MinariStorage.read_raw_metadata(folder)
        if not {"observation_space", "action_space"} <= set(metadata):
            raise ValueError("its spaces are not stored, only an environment to run")
        return from_minari(MinariStorage.read(folder), reading)
    except DataError:
        raise
    except Exception as error:  # each storage backend has errors of its own
        raise DataError(
            f"`{source}` must be a Minari dataset on this machine, reading it failed "
            f"({str(error)[:200]}); create it again, or check MINARI_DATASETS_PATH."
        ) from None


def _folder(source: str | Path) -> Path:
    folder = Path(source)
    if not folder.is_dir():
        from minari.storage.datasets_root_dir import get_dataset_path

        folder = get_dataset_path(str(source))
    if not folder.is_dir():
        raise DataError(
            f"`{source}` must be a Minari dataset on this machine, found none at "
            f"{folder}; fetch it with: minari download {source}"
        )
    return folder if (folder / "metadata.json").exists() else folder / "data"


def from_minari(dataset: Any, reading: Reading | None = None) -> Dataset:
    """Transitions of an open `minari.MinariDataset` or of its storage.

    Raises:
        DataError: If an episode's arrays do not fit each other.
    """
    reading = reading or Reading()
    storage = getattr(dataset, "storage", dataset)
    kept = getattr(dataset, "episode_indices", range(storage.total_episodes))
    about = storage.metadata.get(KEY)
    space = storage.action_space
    d_s = _width(storage.observation_space)
    reading.require_size(16 * int(storage.total_steps) * d_s, "the Minari dataset")
    bar = steps_bar(len(kept), "Reading episodes", reading.progress)
    with bar:
        episodes = list(_episodes(storage.get_episodes(kept), space, bar))
    if not episodes:
        raise DataError("A Minari dataset must have at least one step, this has none.")
    arrays = {
        name: np.concatenate([episode[name] for episode in episodes]) for name in ARRAYS
    }
    notes = (
        f"Read {len(episodes)} Minari episodes; s' is the next observation of the same "
        "episode, the last one included.",
    )
    if about is not None:
        ids = np.asarray(about["episode_ids"], dtype=np.int64)
        arrays["episodes"] = ids[arrays["episodes"]]
        if not about["has_episodes"]:
            del arrays["episodes"]
        return dataset_from_arrays(arrays, about, reading, "the Minari dataset")
    about = {
        "observation_names": list(_names("s", storage.observation_space)),
        "action_names": list(_names("a", space)),
        "notes": notes,
    }
    data = dataset_from_arrays(arrays, about, reading, "the Minari dataset")
    return _with_spaces(data, storage, reading)


def _episodes(
    stored: Iterable[dict[str, Any]], action_space: Space[Any], bar: Any
) -> Iterator[dict[str, NDArray[Any]]]:
    """Each episode cut into transitions, empty ones left out."""
    from gymnasium.spaces import Discrete

    start = int(getattr(action_space, "start", 0))
    for episode in stored:
        bar.update(1)
        states = _flat(episode["observations"])
        actions: NDArray[Any] = _flat(episode["actions"])
        if isinstance(action_space, Discrete):
            actions = actions[:, 0].astype(np.int64) - start
        length = len(episode["rewards"])
        if len(states) != length + 1 or len(actions) != length:
            raise DataError(
                f"Episode {episode['id']} must have one observation more than rewards "
                f"and as many actions, got {len(states)} observations, {len(actions)} "
                f"actions and {length} rewards; create the dataset again."
            )
        if length:
            yield {
                "observations": states[:-1],
                "actions": actions,
                "rewards": np.asarray(episode["rewards"], dtype=np.float64),
                "next_observations": states[1:],
                "terminations": np.asarray(episode["terminations"], dtype=bool),
                "truncations": np.asarray(episode["truncations"], dtype=bool),
                "episodes": np.full(length, int(episode["id"])),
            }


def _flat(values: Any) -> NDArray[np.float64]:
    """Arrays, or dictionaries and tuples of them, side by side, (T, d)."""
    if isinstance(values, dict):
        return np.hstack([_flat(values[key]) for key in sorted(values)])
    if isinstance(values, tuple):
        return np.hstack([_flat(value) for value in values])
    array = np.asarray(values)
    return as_matrix("observations", array.reshape(len(array), -1))


def _names(prefix: str, space: Any) -> Iterator[str]:
    """A name a flat column, in the order of `_flat`."""
    from gymnasium.spaces import Dict, Tuple

    if isinstance(space, Dict):
        for key in sorted(space.spaces):
            yield from _names(str(key) + "_", space.spaces[key])
    elif isinstance(space, Tuple):
        for i, part in enumerate(space.spaces):
            yield from _names(f"{prefix}{i}_", part)
    else:
        for i in range(_width(space)):
            yield f"{prefix}{i}"


def _width(space: Any) -> int:
    parts = getattr(space, "spaces", None)
    if parts is None:
        return int(np.prod(space.shape or (1,)))
    return sum(map(_width, parts.values() if isinstance(parts, dict) else parts))


def _with_spaces(data: Dataset, storage: Any, reading: Reading) -> Dataset:
    """Add the stored spaces where they are plain vectors and the caller gave none."""
    from gymnasium.spaces import Box, Discrete

    spaces = {}
    for name in ("observation_space", "action_space"):
        space = getattr(storage, name)
        if isinstance(space, Discrete) and name == "action_space":
            space = Discrete(int(space.n))
        is_plain = isinstance(space, Discrete) or (
            isinstance(space, Box) and len(space.shape) == 1
        )
        if getattr(reading, name) is None and is_plain:
            spaces[name] = space
    return replace(data, **spaces)
