"""C files of this library, compiled when they are first needed and loaded by ctypes.

Where a loop is some dozens of operations on small arrays, calls cost more than their
arithmetic. Such loops are written in C: compiled in half a second, and nothing is left
on the disk. Without a compiler the same is done in NumPy or torch, to rounding.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.resources
import logging
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O3", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")
"""Not -ffast-math: it may reorder what makes the digits the same on any thread."""
SAFE = ("-fno-math-errno", "-fno-trapping-math")
TUNED = (("-march=native",), ())
"""For this processor, or for any like it where the compiler does not know how."""


@functools.cache
def compiled(package: str, name: str, *, is_single: bool = False) -> Any:
    """The functions of a C file of `package`, or None where they cannot be had.

    Every file begins with `shared.h`; its numbers are float if `is_single`.
    """
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        logger.info("A C compiler (cc) would make this several times faster.")
        return None
    shared = importlib.resources.files("nopg") / "shared.h"
    source = importlib.resources.files(package) / name
    text = b"#define SINGLE\n" * is_single + shared.read_bytes() + source.read_bytes()
    for tuned in TUNED:
        command = [compiler, *FLAGS, *SAFE, *tuned, "-x", "c", "-", "-lm", "-o"]
        try:
            with tempfile.TemporaryDirectory() as folder:
                out = str(Path(folder) / "compiled.so")
                subprocess.run(
                    [*command, out],
                    input=text,
                    capture_output=True,
                    check=True,
                    timeout=60,
                )
                return ctypes.CDLL(out)
        except (OSError, subprocess.SubprocessError) as error:
            reason = error
    logger.info("%s is done without C, the compiler failed: %s", name, reason)
    return None


def compiled_for(like: Tensor, package: str, name: str) -> Any:
    """The functions for tensors like this one, None where there are none."""
    if not like.is_cpu or like.dtype not in (torch.float32, torch.float64):
        return None
    return compiled(package, name, is_single=like.dtype == torch.float32)


def structure(text: str) -> list[tuple[str, Any]]:
    """Fields of a ctypes structure from their kinds and names, in the order of C."""
    kinds = {"whole": ctypes.c_int64, "real": ctypes.c_double, "at": ctypes.c_void_p}
    lines = (line.split() for line in text.strip().splitlines())
    return [(name, kinds[kind]) for kind, *names in lines for name in names]


def at(tensor: Tensor | None) -> int | None:
    """Where the numbers of a tensor lie, one after the other; whose it is keeps it."""
    assert tensor is None or tensor.is_contiguous()
    return None if tensor is None else tensor.data_ptr()
