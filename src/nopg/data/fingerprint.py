"""The SHA-256 of a data set: the same transitions, the same 64 digits."""

import hashlib

import numpy as np

from nopg.data.transitions import ARRAYS, TransitionTable


def fingerprint(dataset: TransitionTable) -> str:
    """A digest of every array of `dataset`, whatever file it came from.

    Names, notes and spaces do not count: no update depends on them.
    """
    total = hashlib.sha256()
    for name in ARRAYS:
        array = getattr(dataset, name)
        if array is None:
            total.update(f"{name} none\n".encode())
            continue
        # Little-endian, so that every machine finds the same digits.
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        total.update(f"{name} {plain.dtype.str} {plain.shape}\n".encode())
        total.update(plain.tobytes())
    return total.hexdigest()
