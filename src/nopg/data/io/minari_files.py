"""Minari datasets, read without jax and without building their environment."""

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from nopg.data.files import open_plain, reading
from nopg.data.io.array_files import arrays_inside, unpacked_bytes
from nopg.data.io.arrays import dataset_arguments
from nopg.data.io.options import ReadOptions
from nopg.data.transitions import ARRAYS
from nopg.data.validation import as_matrix
from nopg.errors import DataError, require_extra

MINARI_ID = re.compile(r"(?:[\w-]+/)*[\w-]+-v\d+")  # such as `lab/arm-v0`


def read_minari(source: str | Path, options: ReadOptions) -> dict[str, Any]:
    """The arguments of `Dataset` from a local dataset, by folder or id."""
    h5py = require_extra("h5py", "minari")
    for module in ("PIL", "minari"):  # Minari imports PIL and does not declare it
        require_extra(module, "minari")
    from minari.dataset.minari_storage import MinariStorage

    folder = _folder(source)
    advice = "create it again, or check MINARI_DATASETS_PATH"
    with reading(source, "a Minari dataset on this machine", advice):
        _require_plain(folder)
        metadata = MinariStorage.read_raw_metadata(folder)
        if not {"observation_space", "action_space"} <= set(metadata):
            raise ValueError("its spaces are not stored, only an environment to run")
        if (kind := metadata.get("data_format", "hdf5")) != "hdf5":
            raise ValueError(f"it is kept as {kind}, only HDF5 is read")
        for path in folder.rglob("*.hdf5"):
            with h5py.File(path, "r") as file:
                nodes = arrays_inside(file, path).values()
                options.require_size(sum(map(unpacked_bytes, nodes)), path)
        return _arguments(MinariStorage.read(folder), options)


def _require_plain(folder: Path) -> None:
    """Refuse links and devices in a folder of somebody else."""
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            continue
        try:
            open_plain(path).close()
        except OSError as error:
            raise DataError(
                f"`{path}` must be an ordinary file, got {error.strerror or error}; "
                "copy the data set without links."
            ) from None


def _folder(source: str | Path) -> Path:
    if not (folder := Path(source)).is_dir():
        from minari.storage.datasets_root_dir import get_dataset_path

        folder = get_dataset_path(str(source))
    if not folder.is_dir():
        raise DataError(
            f"`{source}` must be a Minari dataset on this machine, found none at "
            f"{folder}; fetch it with: minari download {source}"
        )
    return folder if (folder / "metadata.json").exists() else folder / "data"


def _arguments(storage: Any, options: ReadOptions) -> dict[str, Any]:
    space = storage.action_space
    for kind in (storage.observation_space, space):
        if kind.shape is None:
            raise DataError(
                f"Observations and actions must be vectors, got {kind}; use FlattenObservation."
            )
    width = 16 * (math.prod(storage.observation_space.shape) + 4)
    options.require_size(width * int(storage.total_steps), "the Minari dataset")
    episodes, n_steps = [], 0
    for episode in _episodes(storage.get_episodes(range(storage.total_episodes)), space):
        n_steps += len(episode[0])  # what is there, whatever was declared
        options.require_size(width * n_steps, "the Minari dataset")
        episodes.append(episode)
    if not episodes:
        raise DataError("A Minari dataset must have at least one step, this has none; record some.")
    arrays = dict(zip(ARRAYS, map(np.concatenate, zip(*episodes, strict=True)), strict=True))
    metadata = {
        "observation_space": _vector_space(storage.observation_space),
        "action_space": _vector_space(space),
        "notes": (f"Read {len(episodes)} Minari episodes; s' is the next observation of each.",),
    }
    return dataset_arguments(arrays, options, metadata)


def _episodes(
    stored: Iterable[dict[str, Any]], action_space: Space[Any]
) -> Iterator[tuple[NDArray[Any], ...]]:
    """The arrays of each episode, in the order of `ARRAYS`, empty ones left out."""
    start = getattr(action_space, "start", None)
    for episode in stored:
        states, actions = (_flat(episode[n]) for n in ("observations", "actions"))
        if start is not None:
            actions = actions[:, 0].astype(np.int64) - int(start)
        length = len(episode["rewards"])
        if len(states) != length + 1 or len(actions) != length:
            raise DataError(
                f"Episode {episode['id']} must have one observation more than rewards "
                f"and as many actions, got {len(states)} observations, {len(actions)} "
                f"actions and {length} rewards; create the dataset again."
            )
        if length:
            rewards = np.asarray(episode["rewards"], dtype=np.float64)
            flags = [np.asarray(episode[n], dtype=bool) for n in ("terminations", "truncations")]
            ids = np.full(length, int(episode["id"]))
            yield states[:-1], actions, rewards, states[1:], *flags, ids


def _flat(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    return as_matrix("observations", array.reshape(len(array), -1), is_finite=False)


def _vector_space(space: Any) -> Any:
    """The space of flat columns, with labels counted from zero; None if unknown."""
    if isinstance(space, Discrete):
        return Discrete(int(space.n))
    return space if isinstance(space, Box) and len(space.shape) == 1 else None
