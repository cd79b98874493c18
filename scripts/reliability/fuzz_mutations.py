"""What is done to a good file, and which odd things are handed over as observations."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

CANARY = "nopg-was-here"
"""The file that appears where the files run programs are run if one of the hostile
texts is executed."""
HURTFUL = (
    b"null", b"true", b"-1", b"0", b"1e999", b"-1e308", b"NaN", b"9" * 40, b"[]", b"{}",
    b'""', b"[" * 3000, b"\x00", b"\xff\xff\xff\xff", b"\n", b",", b'"', b"../../etc",
    b"2147483648", b"0.5", b"\xc3\x28", b"inf", b"1_000", b"{" * 50, b"<script>",
    b"9223372036854775807", b"100000000", b"1e-320", b";", b"/dev/zero", b"\x80" * 9,
    f"cposix\nsystem\n(S'touch {CANARY}'\ntR.".encode(),  # a pickle
    f"__import__('os').system('touch {CANARY}')".encode(),
    f"!!python/object/apply:os.system ['touch {CANARY}']".encode(),
    f"$(touch {CANARY})".encode(),
)  # fmt: skip
ODD: tuple[Any, ...] = (
    0.0, -0.0, 1.0, -1.5, 3.0, 1e-320, 1e30, -1e100, 1e149, 1e154, 1e200, 1.7e308,
    float("nan"), float("inf"), -float("inf"), 10**400, 2**70, True, None, "1", "x",
    b"1", 1j, (), [1.0], {}, object(), np.datetime64("2026-01-01"), np.float16(2.0),
)  # fmt: skip
TYPES = ("f8", "f8", "f8", "f4", "f2", "i8", "u1", "?", "c16", "O", "U3", "S2", "M8[s]")


def mutated(good: bytes, rng: random.Random) -> bytes:
    """A copy of `good` with one to four things wrong."""
    content = bytearray(good)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content) + 1)
        kind = rng.randrange(7)
        if kind == 0 and content:
            content[at - 1] ^= 1 << rng.randrange(8)
        elif kind == 1:
            content[at : at + rng.choice([0, 1, 4, 20])] = rng.choice(HURTFUL)
        elif kind == 2:
            del content[at:]
        elif kind == 3:
            del content[at : at + rng.randint(1, 40)]
        elif kind == 4:
            other = rng.randrange(len(good) + 1)
            content[at:at] = good[other : other + rng.randint(1, 60)]
        elif kind == 5:
            content[at : at + 8] = rng.randbytes(8)
        else:
            _spoil_a_number(content, rng)
    return bytes(content)


def _spoil_a_number(content: bytearray, rng: random.Random) -> None:
    """Replace a run of digits, the first one after some place."""
    start = rng.randrange(len(content) + 1)
    digits = (i for i in range(start, len(content)) if 48 <= content[i] <= 57)
    at = next(digits, None)
    if at is not None:
        end = at
        while end < len(content) and 48 <= content[end] <= 57:
            end += 1
        content[at:end] = rng.choice(HURTFUL)


def odd_observation(rng: random.Random) -> Any:
    """Something that a program may hand over where an observation should be."""
    width = rng.choice([0, 1, 2, 3, 3, 3, 3, 4, 7])
    row = [rng.choice(ODD[:13]) if rng.random() < 0.9 else rng.choice(ODD)
           for _ in range(width)]  # fmt: skip
    kind = rng.randrange(8)
    if kind == 0:
        return row
    if kind == 1:
        return [row, *([rng.choice(ODD)] for _ in range(rng.randrange(3)))]
    if kind == 2:
        return rng.choice(ODD)
    shape = [rng.randrange(4) for _ in range(rng.randrange(4))]
    shape = rng.choice([[width], [2, width], [width, 1], [1, 1, width], shape])
    numbers = np.array([rng.choice(ODD[:15]) for _ in range(int(np.prod(shape)))])
    with np.errstate(all="ignore"):
        array = numbers.astype("f8").reshape(shape)
        if kind == 3:
            return torch.tensor(array)
        if kind == 4:
            return np.ma.masked_invalid(array)
        name = rng.choice(TYPES)
        array = np.nan_to_num(array) if name[0] in "iuM?" else array
        array = array.astype(name)
        return array[::-1] if array.ndim and rng.random() < 0.2 else array
