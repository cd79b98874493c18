"""The project's own file format: one npz archive, no pickle, spaces and names kept."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from nopg.data.files import write_atomically
from nopg.data.spaces import space_from_json, space_to_json
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset

ARRAYS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminations",
    "truncations",
    "episodes",
)
ALIASES = {"terminals": "terminations", "timeouts": "truncations"}


def write_npz(dataset: Dataset, path: Path) -> None:
    """Write every array, the names and the spaces of `dataset`."""
    about = {
        "observation_names": dataset.observation_names,
        "action_names": dataset.action_names,
        "observation_space": space_to_json(dataset.observation_space),
        "action_space": space_to_json(dataset.action_space),
    }
    arrays = {name: getattr(dataset, name) for name in ARRAYS}
    present = {name: array for name, array in arrays.items() if array is not None}

    def write(stream: BinaryIO) -> None:
        np.savez_compressed(
            stream, about=np.array(json.dumps(about)), allow_pickle=False, **present
        )

    write_atomically(path, write)


def read_npz(path: Path) -> Dataset:
    """Read an archive whose arrays carry the names of the `Dataset` arguments.

    Raises:
        DataError: If the file is missing, damaged or lacks an array.
    """
    from nopg.data.dataset import Dataset

    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {ALIASES.get(name, name): archive[name] for name in archive.files}
    except FileNotFoundError:
        raise DataError(
            f"`{path}` must exist, found no such file; check the path."
        ) from (None)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise DataError(
            f"`{path}` must be an npz archive of plain arrays, reading it failed "
            f"({error}); write it with numpy.savez or Dataset.save."
        ) from None
    missing = [name for name in ARRAYS[:5] if name not in arrays]
    if missing:
        raise DataError(
            f"`{path}` must hold the arrays {', '.join(ARRAYS[:5])}; it lacks "
            f"{', '.join(missing)} and has {', '.join(sorted(arrays)) or 'nothing'}."
        )
    about = _about(arrays.get("about"))
    return Dataset(*(arrays.get(name) for name in ARRAYS), **about)


def _about(stored: Any) -> dict[str, Any]:
    if stored is None:
        return {}
    try:
        about = json.loads(str(stored))
        return {
            "observation_names": about["observation_names"],
            "action_names": about["action_names"],
            "observation_space": space_from_json(about["observation_space"]),
            "action_space": space_from_json(about["action_space"]),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"The names and spaces of the file must be JSON written by Dataset.save, "
            f"reading them failed ({error}); write the file again."
        ) from None
