"""C files of this library, compiled when they are first needed and loaded by ctypes.

Where a loop is some dozens of operations on small arrays, calls cost more than their arithmetic.
Without a compiler the same is done in NumPy or torch, to rounding.
"""

import ctypes
import functools
import hashlib
import importlib.resources
import logging
import os
import shutil
import struct
import subprocess
import tempfile
from ctypes import c_char_p, c_void_p
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

logger = logging.getLogger(__name__)

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O3", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")
"""Not -ffast-math: it may reorder what makes the digits the same on any thread."""
SAFE = ("-fno-math-errno", "-fno-trapping-math")
TUNED = (("-march=native",), ())  # for this processor, or for any like it
STANDARD = b"#include <math.h>\n#include <pthread.h>\n#include <stdint.h>\n#include <stdlib.h>\n"
MOST_THREADS = 64  # that are asked for at most; C takes what its work is worth
_pools: list[int | None] = []  # threads of each file that was loaded
_locks: dict[Any, Lock] = {}
if hasattr(os, "register_at_fork"):  # in a forked process nobody is left to open them
    os.register_at_fork(after_in_child=_locks.clear)


@functools.cache
def compiled(package: str, name: str, is_single: bool) -> Any:
    """The functions of a C file, in floats if `is_single`; None if there are none."""
    with _locks.setdefault((package, name, is_single), Lock()):  # once, whoever asks meanwhile
        return _compiled(package, name, is_single)


def _compiled(package: str, name: str, is_single: bool) -> Any:
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        logger.info("A C compiler (cc) would make this several times faster.")
        return None
    source = (importlib.resources.files(package) / name).read_bytes()
    given = ["-I", str(importlib.resources.files("nopg")), *["-DSINGLE"] * is_single]
    for tuned in TUNED:
        try:
            return _loaded([compiler, *FLAGS, *SAFE, *tuned], [*given, "-x", "c", "-"], source)
        except (OSError, subprocess.SubprocessError) as error:
            reason = error
    logger.info("%s is done without C, the compiler failed: %s", name, reason)
    return None


@functools.cache
def _machine(*compiler: str) -> bytes:
    """Every macro and our headers: what tells compilers and processors apart."""
    ours = sorted(Path(str(importlib.resources.files("nopg"))).rglob("*.h"))
    run: Any = functools.partial(subprocess.run, capture_output=True, check=True)
    macros = run([*compiler, "-E", "-dM", "-x", "c", "-"], input=STANDARD).stdout
    return bytes(macros + b"".join(path.read_bytes() for path in ours))


def _loaded(compiler: list[str], given: list[str], source: bytes) -> ctypes.CDLL:
    """The library that a compiler makes of a source, made once for all processes."""
    command = [*compiler, *given]
    run: Any = functools.partial(subprocess.run, input=source, capture_output=True, check=True)
    # A home may be shared among machines.
    name = hashlib.sha256(_machine(*compiler) + source + repr(command).encode()).hexdigest()
    with tempfile.TemporaryDirectory() as fallback:
        folder = _own_folder() or Path(fallback)
        path = folder / f"{name}.so"
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                made = Path(scratch) / path.name
                run([*command, "-lm", "-o", made], timeout=60)
                made.replace(path)
        try:
            library = ctypes.CDLL(str(path))
        except OSError:  # cut short: the next one is whole
            path.unlink(missing_ok=True)
            raise
    if hasattr(library, "nopg_pool"):  # threads; those of others would be in the way
        pool = c_void_p.in_dll(library, "nopg_pool")
        _pools.append(pool.value)
        pool.value = _pools[0]
    return library


def _own_folder() -> Path | None:
    """Where libraries are kept, unless anybody else might write there: they are executed."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "nopg").expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):
        return None
    is_own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return folder if is_own and not found.st_mode & 0o022 and os.access(folder, os.W_OK) else None


@functools.cache
def addresses(*names: str) -> NDArray[np.int64] | None:
    """Where routines of LAPACK and BLAS are, SciPy's; None if their integers are not int."""
    from scipy.linalg import cython_blas, cython_lapack

    every, api, found = cython_blas.__pyx_capi__ | cython_lapack.__pyx_capi__, ctypes.pythonapi, []
    api.PyCapsule_GetName.restype, api.PyCapsule_GetPointer.restype = c_char_p, c_void_p
    for capsule in map(ctypes.py_object, map(every.get, names)):
        signature = api.PyCapsule_GetName(capsule)
        if b", int *" not in signature:
            return None
        found.append(api.PyCapsule_GetPointer(capsule, c_char_p(signature)))
    return np.array(found)


def compile_ahead(*paths: str) -> None:
    """Compile files that will be needed, in this order, beside whatever goes on."""
    left = iter(paths)

    def next_ones() -> None:
        for path in left:  # which nobody else took
            package, _, name = f"nopg/{path}".rpartition("/")
            compiled(package.replace("/", "."), name, False)

    for _ in range(min(len(paths), os.cpu_count() or 1)):  # of more the first would be the last
        Thread(target=next_ones, daemon=True).start()


def compiled_for(like: Tensor, package: str, name: str) -> Any:
    """The functions of a file for tensors like this one, None where there are none."""
    if not like.is_cpu or like.dtype not in (torch.float32, torch.float64):
        return None
    return compiled(package, name, like.dtype == torch.float32)


def packed(*fields: float | Tensor | NDArray[Any] | None) -> bytes:
    """A structure for C: int64_t, double, pointers; whoever calls keeps what they point to."""
    given: list[float] = []
    for field in fields:
        if isinstance(field, Tensor):
            assert field.is_contiguous()
            field = field.data_ptr()
        elif isinstance(field, np.ndarray):
            assert field.flags.c_contiguous
            field = field.ctypes.data
        given.append(0 if field is None else field)
    kinds = ["d" if isinstance(field, float) else "q" for field in given]
    return struct.pack("".join(kinds), *given)
