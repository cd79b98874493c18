"""One reader and many broken files, in a process that may do little."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.reliability.fuzz_mutations import CANARY, mutated

from nopg.errors import NopgError

SLOW, HUNG = 5.0, 20.0
"""Seconds from which a file stops the reader, and after which it is stopped."""
LEAST, TURN = 400, 0.3
"""Files that a reader gets in any case, and seconds after which it is another's turn:
quick ones read more of them."""
CAP = 2**29
"""Bytes that a reader may take beyond what the libraries do: files here are small, and
readers of data are told to unpack 16 MiB at most."""
FORBIDDEN = (
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn",
    "subprocess.Popen", "pickle.find_class", "ctypes.dlopen", "socket.connect",
    "socket.bind", "socket.getaddrinfo", "os.remove", "os.rename", "os.symlink",
)  # fmt: skip
"""What Python reports when a program is run, a pickle is built, a host is called or
a file is changed: nothing of it has a place in reading."""
_SOURCES = ("/proc", sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]))
"""Where programs come from: modules are imported late, tracebacks quote them."""
FINE = ("good", "refused")
WANTS_MORE, RESERVED = "wants more:", "reserved in vain,"
RIGHT: tuple[type[Exception], ...] = (NopgError,)


@dataclass(frozen=True)
class Target:
    """A reader, a good file to begin with, and the name it must have."""

    name: str
    good: bytes
    file: Path
    read: Callable[[Path], object]
    is_sealed: bool = False
    """Whether a checksum should tell every changed file from the good one."""
    seal: Callable[[bytes], bytes] | None = None
    """Packs what was broken so that it looks whole: checksums, archives."""
    refusals: tuple[type[Exception], ...] = RIGHT

    def write(self, content: bytes) -> None:
        """Put `content` where the reader looks."""
        self.file.write_bytes(content if self.seal is None else self.seal(content))


@dataclass
class Batch:
    """What became of some files of one reader."""

    outcomes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # "seed/index" of a failure
    slowest: float = 0.0  # seconds
    memory: int = 0  # most bytes beyond those at the start

    def add(self, result: str, place: str, seconds: float = 0.0) -> None:
        """Count one file."""
        self.outcomes[result] += 1
        self.slowest = max(self.slowest, seconds)
        if result not in FINE:  # one place of each kind
            self.examples.setdefault(result, place)


class Watch:
    """Notes what Python reports of the process: once on, it cannot be taken off."""

    def __init__(self, folder: Path) -> None:
        self.seen: list[str] = []
        self._folder, self._is_on = str(folder), False

    def start(self) -> None:
        """Look from now on."""
        sys.addaudithook(self._hook)
        self._is_on = True

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_on:
            return
        if event in FORBIDDEN:
            self.seen.append(event)
        elif event == "exec":
            name = getattr(arguments[0], "co_filename", "<text>")
            if not (Path(name).is_file() or "frozen" in name or _is_importing()):
                self.seen.append(f"exec of {name}")
        elif event == "open" and isinstance(arguments[0], (str, bytes)):
            path, mode = os.fsdecode(arguments[0]), arguments[1]
            if any(letter in str(mode) for letter in "wax+"):
                if not path.startswith(self._folder):
                    self.seen.append(f"open {path}, {mode}")
            elif not path.startswith((self._folder, *_SOURCES)):
                self.seen.append(f"open {path}")


def _is_importing() -> bool:
    """Whether a module is being imported: those of Python build classes from text."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
    return False


def outcome(target: Target, content: bytes) -> str:
    """Read `content` as `target` does: "good", "refused", or what went wrong."""
    target.write(content)
    began = time.monotonic()
    try:
        target.read(target.file)
        found = "good"
    except Exception as error:
        found = _verdict(error, target)
    return found if time.monotonic() - began < SLOW else f"slow, {found}"


def _verdict(error: BaseException, target: Target) -> str:
    behind: BaseException | None = error
    while behind is not None:  # a refusal may hide that the memory was not enough
        if isinstance(behind, MemoryError) or "allocation failed" in str(behind):
            return f"{WANTS_MORE} {type(behind).__name__}: {behind}"[:200]
        behind = behind.__context__
    if isinstance(error, target.refusals):
        return "refused" if "\n" not in str(error) else "refused in several lines"
    line = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(line.filename).name}: {error}"[:200]


def content_of(target: Target, seed: int, index: int) -> bytes:
    """The broken file of that number: the same wherever and whenever it is made."""
    rng = random.Random(f"{seed}/{target.name}/{index}")
    while (content := mutated(target.good, rng)) == target.good:
        pass
    return content


def fuzz_capped(target: Target, n_files: int, seed: int) -> Batch:
    """So many broken files in processes with little memory; a death is an outcome."""
    context = multiprocessing.get_context("fork")
    batch, done = Batch(), 0
    while done < n_files:
        place = context.Value("q", done, lock=False)
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(target, n_files, seed, place, theirs))
        child.start()
        theirs.close()
        try:
            while True:
                result, index, seconds, memory = ours.recv()
                if result.startswith(WANTS_MORE):
                    result = _uncapped(target, content_of(target, seed, index), result)
                batch.add(result, f"{seed}/{index}", seconds)
                batch.memory = max(batch.memory, memory)
        except EOFError:
            pass
        child.join()
        done = int(place.value)
        if done < n_files:  # it died on the way
            is_hung = child.exitcode == -signal.SIGALRM
            died = f"the process died ({child.exitcode})"
            batch.add(f"hung {HUNG:.0f} s" if is_hung else died, f"{seed}/{done}")
            done += 1
    return batch


def _uncapped(target: Target, content: bytes, result: str) -> str:
    """Whether a file that was denied memory would really have taken it.

    A library may reserve what a damaged length asks for and touch none of it: that
    costs nothing, and is counted apart.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def work() -> None:
        start = _peak()
        found = outcome(target, content)
        theirs.send((found.startswith((*FINE, WANTS_MORE)), _peak() - start))

    child = context.Process(target=work)
    child.start()
    theirs.close()
    try:
        is_fine, memory = ours.recv()
    except EOFError:
        is_fine, memory = False, 0
    child.join()
    is_fine = is_fine and memory < CAP // 8
    return f"{RESERVED} {result}" if is_fine else f"over the cap: {result}"


def _work(target: Target, n_files: int, seed: int, place: Any, pipe: Any) -> None:
    os.chdir(target.file.parent)
    watch = Watch(_root(target.file))
    if outcome(target, target.good) != "good":
        raise SystemExit(f"{target.name}: the good file is refused")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + CAP
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    start = _peak()
    watch.start()
    busy = time.process_time()
    for index in range(place.value, n_files):
        if index >= LEAST and time.process_time() - busy > TURN:
            break
        content = content_of(target, seed, index)
        place.value = index
        signal.setitimer(signal.ITIMER_REAL, HUNG)
        began = time.monotonic()
        result = outcome(target, content)
        seconds = time.monotonic() - began
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if result == "good" and target.is_sealed:
            result = "a changed file is believed"
        if watch.seen or (target.file.parent / CANARY).exists():
            result = f"executed: {watch.seen[:1]}"
            watch.seen.clear()
        pipe.send((result, index, seconds, _peak() - start))
    place.value = n_files


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _root(path: Path) -> Path:
    """The temporary folder that all files of the trial are in."""
    return next(p for p in path.parents if p.name.startswith("nopg-fuzz"))
