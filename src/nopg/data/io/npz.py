"""The project's own file format: one npz archive, no pickle, spaces and names kept.

An archive says how large its arrays are before they are unpacked. Both sizes, the
one in the archive's directory and the one in the array's header, are held against
the limit and against each other first, so that no file can fill the memory.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nopg.data.files import write_atomically
from nopg.data.io.about import about_to_json, parse_about
from nopg.data.io.arrays import ARRAYS, dataset_from_arrays, wanted
from nopg.data.io.npy_header import read_npy_header
from nopg.data.io.reading import Reading
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset


def write_npz(dataset: Dataset, path: Path) -> None:
    """Write every array, the names, the spaces and the notes of `dataset`."""
    about = json.dumps(about_to_json(dataset))
    arrays = {name: getattr(dataset, name) for name in ARRAYS}
    present = {name: array for name, array in arrays.items() if array is not None}

    def write(stream: BinaryIO) -> None:
        np.savez_compressed(
            stream, about=np.array(about), allow_pickle=False, **present
        )

    write_atomically(path, write)


def read_npz(path: Path, reading: Reading | None = None) -> Dataset:
    """Read an archive whose arrays carry the names of the `Dataset` arguments.

    Raises:
        DataError: If the file is missing, damaged, too large or lacks an array.
    """
    reading = reading or Reading()
    try:
        with zipfile.ZipFile(path) as archive:
            members = {
                info.filename.removesuffix(".npy"): info for info in archive.filelist
            }
            named = wanted(list(members))
            sizes = [members[name].file_size for name in [*named, *_about_in(members)]]
            reading.require_size(sum(sizes), path)
            arrays = {
                array: _read_array(archive, members[name])
                for name, array in named.items()
            }
            about = [_read_array(archive, members[name]) for name in _about_in(members)]
    except FileNotFoundError:
        raise DataError(
            f"`{path}` must exist, found no such file; check the path."
        ) from None
    except _DAMAGE as error:
        raise DataError(
            f"`{path}` must be an npz archive of plain arrays, reading it failed "
            f"({error}); write it with numpy.savez or Dataset.save."
        ) from None
    stored = parse_about(str(about[0])) if about else None
    return dataset_from_arrays(arrays, stored, reading, path)


# What zipfile, zlib and numpy raise on archives that are cut, forged or encrypted.
_DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
    *(MemoryError, OverflowError),
)


def _about_in(members: dict[str, Any]) -> list[str]:
    return [name for name in members if name == "about"]


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array, once its header agrees with the size the archive gives."""
    with archive.open(info) as stream:
        header = read_npy_header(stream)
        if header.dtype.hasobject:
            raise ValueError(
                f"{info.filename} holds Python objects, which only a pickle can store"
            )
        declared = stream.tell() + header.n_bytes
        if declared != info.file_size:
            raise ValueError(
                f"{info.filename} declares {declared:,} bytes, has {info.file_size:,}"
            )
        content = np.frombuffer(stream.read(), dtype=header.dtype)
    return content.reshape(header.shape, order="F" if header.is_fortran else "C")
