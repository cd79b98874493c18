"""Broken files by the thousand: each is read as good or refused in one sentence.

    python -m scripts.reliability.fuzz --files 100000

Every reader has a process of its own whose memory is capped: what needs more ends in a
MemoryError, which no reader may raise, or kills the process, which is counted too. By
default files are changed at random: bits, cuts, splices, numbers and words that
hurt. With atheris installed, `--engine atheris --target policy` lets coverage guide it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from scripts.reliability.fuzz_targets import Target, targets
from scripts.reliability.totals import keep

from nopg.errors import NopgError

HURTFUL = (
    b"null", b"true", b"-1", b"0", b"1e999", b"-1e308", b"NaN", b"9" * 40, b"[]", b"{}",
    b'""', b"[" * 3000, b"\x00", b"\xff\xff\xff\xff", b"\n", b",", b'"', b"../../etc",
    b"2147483648", b"0.5", b"\xc3\x28", b"inf", b"1_000", b"{" * 50, b"<script>",
)  # fmt: skip
SLOW = 5.0
"""Seconds from which a single file counts as a way to stop the reader."""
CAP = 2**29
"""Bytes that a reader may take beyond what the libraries do: files here are small, and
readers of data are told to unpack 16 MiB at most."""


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
    """Replace a run of digits, wherever one is."""
    digits = [i for i, byte in enumerate(content[:100_000]) if 48 <= byte <= 57]
    if digits:
        at = rng.choice(digits)
        end = at
        while end < len(content) and 48 <= content[end] <= 57:
            end += 1
        content[at:end] = rng.choice(HURTFUL)


def outcome(target: Target, content: bytes) -> str:
    """Read `content` as `target` does: "good", "refused", or what went wrong."""
    target.file.write_bytes(content)
    began = time.monotonic()
    try:
        target.read(target.file)
        found = "good"
    except NopgError as error:
        found = "refused" if "\n" not in str(error) else "refused in several lines"
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        found = f"{type(error).__name__} in {Path(line.filename).name}: {error}"[:200]
    return found if time.monotonic() - began < SLOW else f"slow, {found}"


def fuzz(target: Target, n_files: int, rng: random.Random) -> Counter[str]:
    """Outcomes of so many broken files."""
    found: Counter[str] = Counter()
    while sum(found.values()) < n_files:
        content = mutated(target.good, rng)
        if content == target.good:
            continue
        result = outcome(target, content)
        is_believed = result == "good" and target.is_sealed
        found["a changed file is believed" if is_believed else result] += 1
    target.file.write_bytes(target.good)  # other readers look at it too
    if outcome(target, target.good) != "good":
        found["the good file is refused"] += 1
    return found


def fuzz_capped(target: Target, n_files: int, seed: int) -> Counter[str]:
    """The same in a process whose address space is capped; its death is an outcome."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def work() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + CAP
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        theirs.send(fuzz(target, n_files, random.Random(f"{seed}/{target.name}")))

    child = context.Process(target=work)
    child.start()
    theirs.close()
    try:
        found: Counter[str] = ours.recv()
    except EOFError:
        found = Counter({"the process died": 1})
    child.join()
    return found


def main() -> None:
    """Fuzz every reader in turn and keep the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000, help="of all readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["mutate", "atheris"], default="mutate")
    parser.add_argument("--target", default="", help="only this one")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        chosen = [t for t in targets(Path(folder)) if options.target in ("", t.name)]
        if options.engine == "atheris":
            _guided(chosen[0])
            return
        counts: dict[str, Any] = {}
        n_files, began = -(-options.files // len(chosen)), time.monotonic()
        for target in chosen:
            found = fuzz_capped(target, n_files, options.seed)
            counts[target.name] = dict(found)
            seconds = time.monotonic() - began
            print(f"{seconds:.0f} s", target.name, dict(found), flush=True)
    wrong = {
        name: {k: v for k, v in found.items() if k not in ("good", "refused")}
        for name, found in counts.items()
    }
    keep(
        "fuzz",
        {
            "files": sum(sum(found.values()) for found in counts.values()),
            "seconds": round(time.monotonic() - began),
            "memory_cap": CAP,
            "outcomes": counts,
            "wrong": {name: found for name, found in wrong.items() if found},
        },
    )
    if any(wrong.values()):
        raise SystemExit("A reader failed.")


def _guided(target: Target) -> None:
    """Let atheris choose the bytes; it stops at the first failure and keeps it."""
    import atheris

    def check(content: bytes) -> None:
        found = outcome(target, content)
        if found not in ("good", "refused"):
            raise RuntimeError(found)

    atheris.instrument_all()
    atheris.Setup([sys.argv[0]], check)
    atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
