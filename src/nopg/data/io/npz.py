"""The project's own file format: one npz archive, no pickle, spaces and names kept.

An archive says how large its arrays are before they are unpacked. Both sizes, the
one in the archive's directory and the one in the array's header, are held against
the limit and against each other first, so that no file can fill the memory.
"""

import math
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from nopg.data.files import reading, write_atomically
from nopg.data.io.arrays import file_arguments, wanted
from nopg.data.io.metadata import metadata_to_json
from nopg.data.io.options import ReadOptions
from nopg.data.transitions import TransitionTable

_KEY = "metadata"


def write_npz(table: TransitionTable, path: Path) -> None:
    """Write every array, the names, the spaces and the notes."""
    arrays = table.arrays() | {_KEY: np.array(metadata_to_json(table))}

    def write(stream: BinaryIO) -> None:
        np.savez_compressed(stream, allow_pickle=False, **arrays)

    write_atomically(path, write)


def read_npz(path: Path, options: ReadOptions) -> dict[str, Any]:
    """The arguments of `Dataset` from an archive of arrays named like them."""
    advice = "write it with numpy.savez or Dataset.save"
    with (
        reading(path, "an npz archive of plain arrays", advice),
        zipfile.ZipFile(path) as archive,
    ):
        members = {i.filename.removesuffix(".npy"): i for i in archive.filelist}
        named = wanted(members, _KEY)
        options.require_size(sum(members[name].file_size for name in named), path)
        arrays = {a: _read_array(archive, members[name]) for name, a in named.items()}
    stored = arrays.pop(_KEY, None)
    text = None if stored is None else str(stored)
    return file_arguments(arrays, text, options, path)


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array, once its header agrees with the size the archive gives."""
    with archive.open(info) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy speaks of files from Python 2
        is_first = npy.read_magic(stream) == (1, 0)
        read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
        shape, is_fortran, dtype = read(stream)
        if dtype.hasobject:
            raise ValueError(
                f"{info.filename} holds Python objects, which only a pickle can store"
            )
        declared = stream.tell() + math.prod(shape) * dtype.itemsize
        if declared != info.file_size:
            raise ValueError(
                f"{info.filename} declares {declared:,} bytes, has {info.file_size:,}"
            )
        content = np.frombuffer(stream.read(), dtype=dtype)
    return content.reshape(shape, order="F" if is_fortran else "C")
