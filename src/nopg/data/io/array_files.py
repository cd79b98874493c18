"""Files of one array per name, npz and HDF5: ours, and D4RL's."""

import json
import math
import warnings
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from nopg.data.files import reading, write_atomically
from nopg.data.io.arrays import file_arguments, wanted
from nopg.data.io.metadata import described
from nopg.data.io.options import ReadOptions
from nopg.data.transitions import TransitionTable
from nopg.errors import DataError, require_extra

_METADATA = "metadata"


def write_npz(table: TransitionTable, path: Path) -> None:
    """Write every array, the names, the spaces and the notes."""
    if path.suffix.lower() != ".npz":
        raise DataError(f"The name of a data file to write must end in .npz, got `{path}`.")
    arrays: dict[str, Any] = table.arrays() | {_METADATA: np.array(json.dumps(described(table)))}
    write_atomically(path, partial(np.savez_compressed, allow_pickle=False, **arrays))


def read_npz(path: Path, options: ReadOptions) -> dict[str, Any]:
    """The arguments of `Dataset` from an archive of arrays named like them."""
    advice = "write it with numpy.savez or Dataset.save"
    with reading(path, "an npz archive of plain arrays", advice), zipfile.ZipFile(path) as archive:
        members = {i.filename.removesuffix(".npy"): i for i in archive.filelist}
        named = wanted(members) | {n: n for n in members if n == _METADATA}
        options.require_size(sum(members[name].file_size for name in named), path)
        arrays = {a: _read_array(archive, members[name]) for name, a in named.items()}
    stored = arrays.pop(_METADATA, None)
    return file_arguments(arrays, None if stored is None else str(stored), options, path)


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array, once its header agrees with the size the archive gives."""
    with archive.open(info) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy speaks of files from Python 2
        is_first = npy.read_magic(stream) == (1, 0)
        read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
        shape, is_fortran, dtype = read(stream)
        if dtype.hasobject:
            raise ValueError(f"{info.filename} holds Python objects, which only a pickle can store")
        if (declared := stream.tell() + math.prod(shape) * dtype.itemsize) != info.file_size:
            raise ValueError(f"{info.filename} declares {declared:,} bytes, has {info.file_size:,}")
        content = np.frombuffer(stream.read(), dtype=dtype)
    return content.reshape(shape, order="F" if is_fortran else "C")


# How much one byte can become: gzip; lzf stops at the size of a chunk by itself.
_RATIO = {1: 1032, 32000: 1}
_SMALL, _CHECKSUM = 2**20, 4


def read_hdf5(path: Path, options: ReadOptions) -> dict[str, Any]:
    """The arguments of `Dataset` from arrays named like them or as D4RL does."""
    h5py, what = require_extra("h5py", "data"), "an HDF5 file of plain arrays"
    with reading(path, what, "write it again"), h5py.File(path, "r") as file:
        nodes = arrays_inside(file, path)
        named = wanted(n for n, node in nodes.items() if node.dtype.kind in "biuf")
        options.require_size(sum(unpacked_bytes(nodes[name]) for name in named), path)
        arrays = {array: nodes[name][()] for name, array in named.items()}
    return file_arguments(arrays, None, options, path)


def arrays_inside(file: Any, where: object) -> dict[str, Any]:
    """Every array of an open HDF5 file by its path."""
    h5py = require_extra("h5py", "data")
    found: dict[str, Any] = {}

    def leads_out(name: str, link: Any) -> str | None:
        if not isinstance(link, h5py.HardLink):
            return name
        if isinstance(node := file[name], h5py.Dataset):
            found[name] = node
            return name if node.external or node.is_virtual else None
        return None

    if (culprit := file.visititems_links(leads_out)) is not None:
        raise DataError(f"`{where}` must hold all its arrays, {culprit!r} leads out; copy it in.")
    return found


def unpacked_bytes(node: Any) -> int:
    """Bytes that reading an HDF5 array takes: all of it, and one chunk at least."""
    # The library unpacks a chunk whatever it becomes: suspicious ones are counted.
    chunk = math.prod(node.chunks or ()) * node.dtype.itemsize
    plist = node.id.get_create_plist()
    filters = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
    packers = [code for code in filters if code not in (2, 3)]  # shuffle, a checksum
    for i in range(node.id.get_num_chunks() if packers else 0):
        stored = node.id.get_chunk_info(i)
        if len(packers) > 1 or packers[0] not in _RATIO:
            raise DataError(f"Array {node.name!r} must have gzip or lzf alone, it has {filters}.")
        if stored.size * _RATIO[packers[0]] > max(chunk, _SMALL):
            _require_chunk(node, stored.chunk_offset, chunk)
    return int(max(math.prod(node.shape) * node.dtype.itemsize, chunk))


def _require_chunk(node: Any, offset: tuple[int, ...], n_bytes: int) -> None:
    """Unpack a chunk piece by piece and refuse one that does not end in time."""
    mask, packed = node.id.read_direct_chunk(offset)
    if mask:  # some filter was left out for it: it is stored as it is
        return
    unpacking, found = zlib.decompressobj(), 0
    while packed and not unpacking.eof:
        found += len(unpacking.decompress(packed, _SMALL))
        packed = unpacking.unconsumed_tail
        if found > n_bytes + _CHECKSUM:
            raise DataError(f"Array {node.name!r} must unpack to {n_bytes:,} bytes, it goes on.")
