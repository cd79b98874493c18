"""HDF5 files: our own layout and D4RL's, which differ only in what they leave out.

Both keep one array a name at the root. D4RL calls the flags `terminals` and
`timeouts`, has no episode ids and often no `next_observations`; these
are filled in. Only plain arrays inside the file are read: links to other files,
external storage and Python objects are refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nopg.data.extras import require_extra
from nopg.data.files import write_atomically
from nopg.data.io.about import about_to_json, parse_about
from nopg.data.io.arrays import ARRAYS, dataset_from_arrays, wanted
from nopg.data.io.reading import Reading
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset

_KEY = "nopg"


def write_hdf5(dataset: Dataset, path: Path) -> None:
    """Write every array at the root, and names, spaces and notes as an attribute."""
    h5py = require_extra("h5py", "data")
    about = json.dumps(about_to_json(dataset))

    def write(stream: BinaryIO) -> None:
        with h5py.File(stream, "w") as file:
            for name in ARRAYS:
                array = getattr(dataset, name)
                if array is not None:
                    file.create_dataset(name, data=array, compression="gzip")
            # An attribute may hold 64 KiB at most; notes can be longer.
            file.create_dataset(_KEY, data=np.frombuffer(about.encode(), np.uint8))

    write_atomically(path, write)


def read_hdf5(path: Path, reading: Reading) -> Dataset:
    """Read arrays named like the `Dataset` arguments or as D4RL names them.

    Raises:
        DataError: If the file is missing, damaged, too large or lacks an array.
    """
    h5py = require_extra("h5py", "data")
    if not path.is_file():
        raise DataError(f"`{path}` must exist, found no such file; check the path.")
    try:
        with h5py.File(path, "r") as file:
            found = {name: _plain(h5py, file, name) for name in file}
            named = {
                name: array
                for name, array in wanted(list(found)).items()
                if found[name] is not None
            }
            about = found.get(_KEY)
            nodes = [found[name] for name in named] + ([] if about is None else [about])
            reading.require_size(sum(map(_declared_bytes, nodes)), path)
            arrays: dict[str, NDArray[Any]] = {
                array: found[name][()] for name, array in named.items()
            }
            text = None if about is None else about[()].tobytes()
    except DataError:
        raise
    except Exception as error:  # h5py reports damage by almost every built-in error
        raise DataError(
            f"`{path}` must be an HDF5 file of plain arrays, reading it failed "
            f"({str(error)[:200]}); write it again."
        ) from None
    return dataset_from_arrays(arrays, parse_about(text), reading, path)


def _plain(h5py: Any, file: Any, name: str) -> Any:
    """The array called `name`, or None if it is a group, a link or made of objects."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return None
    node = file[name]
    is_array = isinstance(node, h5py.Dataset) and node.dtype.kind in "biuf"
    is_inside = is_array and not node.external and not node.is_virtual
    return node if is_inside else None


def _declared_bytes(node: Any) -> int:
    return int(np.prod(node.shape, dtype=object)) * int(node.dtype.itemsize)
