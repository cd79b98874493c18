"""Broken files by the thousand: each is read as good or refused in one sentence.

    python -m scripts.reliability.fuzz --files 1000000

Every reader has a process of its own whose memory is capped (`fuzz_child.py`): what
needs more ends in a MemoryError, which no reader may raise, or kills the process, which
is counted too, as are files that take long, and whatever runs a program, builds a
pickle, calls a host or opens a file elsewhere. Files are changed at random: bits, cuts,
splices, numbers and words that hurt. Totals are kept after every round, and the next
call goes on from there; `--anew` begins again. `--replay READER SEED/INDEX` shows what
became of one file. With atheris installed, `--engine atheris --target policy` lets
coverage guide it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from scripts.reliability.fuzz_child import (
    CAP,
    FINE,
    RESERVED,
    Batch,
    Target,
    content_of,
    fuzz_capped,
    outcome,
)
from scripts.reliability.fuzz_targets import targets
from scripts.reliability.totals import RESULTS, keep

ROUND = 2000
"""Files of each reader in a round, at most."""
RIGHT = (*FINE, RESERVED)
KINDS = {
    **{name: (name,) for name in FINE},
    "reserved_in_vain": (RESERVED,),  # a refusal that had asked for memory
    "slow": ("slow", "hung"),
    "over_the_cap": ("over the cap",),
    "executed": ("executed",),
    "died": ("the process died",),
}
"""Columns of the table, and how the outcomes in them begin."""


def main() -> None:
    """Fuzz every reader in turn, round after round, and keep the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000, help="of all readers")
    parser.add_argument("--anew", action="store_true", help="forget earlier rounds")
    parser.add_argument("--engine", choices=["mutate", "atheris"], default="mutate")
    parser.add_argument("--target", default="", help="only this one, keeping nothing")
    parser.add_argument("--replay", default="", help="SEED/INDEX of a file of --target")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    memory = Path("/dev/shm")  # a disk would be most of the time
    root = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="nopg-fuzz", dir=root) as folder:
        found = targets(Path(folder))
        chosen = [t for t in found if options.target in ("", t.name)]
        if options.engine == "atheris":
            _guided(chosen[0])
        elif options.replay:
            _replay(chosen[0], *map(int, options.replay.split("/")))
        elif options.target:
            print(_row(fuzz_capped(chosen[0], options.files, 0)))
        else:
            _rounds(chosen, options.files, {} if options.anew else _kept())


def _rounds(chosen: list[Target], n_files: int, totals: dict[str, Any]) -> None:
    """Go on from `totals` until so many files were read."""
    readers: dict[str, Any] = totals.get("readers", {})
    seconds = totals.get("seconds", 0)
    seed = totals.get("rounds", 0)
    total = sum(row["files"] for row in readers.values())
    while total < n_files:
        began = time.monotonic()
        for target in chosen:
            batch = fuzz_capped(target, ROUND, seed)
            target.write(target.good)  # other readers look at it too
            readers[target.name] = _sum(readers.get(target.name), _row(batch))
        seed, seconds = seed + 1, seconds + round(time.monotonic() - began)
        total = sum(row["files"] for row in readers.values())
        wrong = {name: row["wrong"] for name, row in readers.items() if row["wrong"]}
        keep(
            "fuzz",
            {
                "files": total,
                "rounds": seed,
                "seconds": seconds,
                "memory_cap": CAP,
                "largest_memory": max(row["memory"] for row in readers.values()),
                "slowest": max(row["slowest"] for row in readers.values()),
                "wrong": wrong,
                "readers": readers,
            },
            is_quiet=True,
        )
        print(f"{total:,} files, {seconds} s, wrong: {wrong}", flush=True)
    if any(row["wrong"] for row in readers.values()):
        raise SystemExit("A reader failed.")


def _row(batch: Batch) -> dict[str, Any]:
    """What a batch adds to the totals of its reader."""
    counts = {
        name: sum(n for result, n in batch.outcomes.items() if result.startswith(words))
        for name, words in KINDS.items()
    }
    return {
        "files": batch.outcomes.total(),
        **counts,
        "slowest": round(batch.slowest, 3),
        "memory": batch.memory,
        "wrong": {r: f"{n}, first {batch.examples[r]}"
                  for r, n in batch.outcomes.items() if not r.startswith(RIGHT)},
    }  # fmt: skip


def _sum(before: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Both together: counts add up, extremes stay."""
    if before is None:
        return new
    extremes = ("slowest", "memory")
    found = {
        name: max(before[name], value) if name in extremes else before[name] + value
        for name, value in new.items()
        if name != "wrong"
    }
    return found | {"wrong": new["wrong"] | before["wrong"]}


def _kept() -> dict[str, Any]:
    """Totals of earlier rounds, where there are some."""
    path = RESULTS / "fuzz.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found if "rounds" in found else {}


def _replay(target: Target, seed: int, index: int) -> None:
    """Show one file and what the reader says of it, with the whole traceback."""
    content = content_of(target, seed, index)
    print(content[:2000])
    print(outcome(target, content))
    target.read(target.file)


def _guided(target: Target) -> None:
    """Let atheris choose the bytes; it stops at the first failure and keeps it."""
    import atheris

    def check(content: bytes) -> None:
        found = outcome(target, content)
        if found not in FINE:
            raise RuntimeError(found)

    atheris.instrument_all()
    atheris.Setup([sys.argv[0]], check)
    atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
