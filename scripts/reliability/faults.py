"""Full disks, read-only folders, lying clocks, two processes, little memory.

    python -m scripts.reliability.faults

Each is made for real; each must end in one sentence or in the right bits.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scripts.reliability.kill import CONFIGS, REST
from scripts.reliability.totals import keep

import nopg
from nopg.cli.swing_up import grid_dataset
from nopg.runs.folder import RunFolder

LONGER = REST.replace("n_updates = 60", "n_updates = 150")
"""The history then outgrows a checkpoint, and limits on files meet it first."""
WRONG_CLOCKS = """
import random, time
_draw, _true = random.Random(3), time.time
time.time = lambda: _true() + _draw.uniform(-1e8, 1e8)
"""


def main() -> None:
    """Make every fault and keep what came of it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # So few that they are solved densely, by rows without a state of their own: a
        # checkpoint then is short.
        grid_dataset(11, 11).save(folder / "data.npz")
        plain = CONFIGS["stochastic"] + 'rows="nadaraya-watson"\n'
        (folder / "c.toml").write_text(plain + LONGER)
        whole = _train(folder, "whole")
        if whole.returncode != 0:
            raise SystemExit(whole.stdout)
        for fault in (
            _full_disk, _size_limit, _read_only, _wrong_clocks, _two_processes,
            _little_memory_foreseen, _little_memory_met,
        ):  # fmt: skip
            results[fault.__name__.strip("_")] = found = fault(folder)
            print(f"{fault.__name__.strip('_')}: {found}")
    keep("faults", results)
    bad = [name for name, found in results.items() if not found.get("holds", False)]
    if bad:
        raise SystemExit(f"Failed: {', '.join(bad)}")


def _run(
    words: list[str], limits: Callable[[], None] | None = None, prelude: str = ""
) -> subprocess.CompletedProcess[str]:
    """The command `nopg` in a process of its own, under limits if given."""
    program = f"{prelude}\nfrom nopg.cli.main import run\nrun()"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *words],
        preexec_fn=limits,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def _train(folder: Path, out: str, **given: Any) -> subprocess.CompletedProcess[str]:
    words = ["fit", str(folder / "data.npz"), "--config", str(folder / "c.toml")]
    words += ["--out", str(folder / out), "--checkpoint-every", "10"]
    return _run(words, **given)


def _resume(path: Path, **given: Any) -> subprocess.CompletedProcess[str]:
    return _run(["fit", "--resume", str(path)], **given)


def _sentence(done: subprocess.CompletedProcess[str], folder: Path) -> dict[str, Any]:
    """The last line a command printed, and whether it is a sentence of ours."""
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    # A run that only lacks its report is done, and says how to make one.
    wanted = 0 if last.startswith("There is no report (") else 1
    is_ours = last.startswith("nopg: ") or wanted == 0
    holds = is_ours and "Traceback" not in done.stdout and done.returncode == wanted
    return {"said": last.replace(str(folder), "FOLDER"), "holds": holds}


def _is_same(folder: Path, name: str) -> bool:
    """Whether a run ended with the bits of the one that met no fault."""
    models = [(folder / n / "policy.nopg").read_bytes() for n in (name, "whole")]
    return models[0] == models[1]


def _full_disk(folder: Path) -> dict[str, Any]:
    """File systems of a few dozen kilobytes fill up, each in another write."""
    place = folder / "small"
    place.mkdir()
    said = []
    holds = True
    for kilobytes in (16, 32, 48, 88, 120, 140):
        options = f"size={kilobytes}k"
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)],
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            return {"skipped": "no right to mount a file system", "holds": True}
        try:
            found = _sentence(_train(folder, "small/run"), folder)
            grown = ["mount", "-o", "remount,size=10m", str(place)]
            subprocess.run(grown, check=True)
            _carry_on(folder, "small/run")
            is_same = _is_same(folder, "small/run")
            said.append(found["said"])
            holds = holds and found["holds"] and is_same
        finally:
            subprocess.run(["umount", str(place)], check=True)
    return {"said": said, "resumed_to_the_same_bits": len(said), "holds": holds}


def _carry_on(folder: Path, out: str) -> None:
    """What a user does next: resume, or begin if nothing was, unless it is done."""
    path = folder / out
    if not (path / "run.json").exists():
        _train(folder, out)
    elif not RunFolder.open(path).is_done:
        _resume(path)


def _size_limit(folder: Path) -> dict[str, Any]:
    """No file may be longer than 30 kB: a checkpoint cannot be written."""
    found = _sentence(_train(folder, "limited", limits=_limit_files), folder)
    path = folder / "limited"
    resumed = _resume(path)
    is_same = resumed.returncode == 0 and _is_same(folder, "limited")
    return found | {"resumed_to_the_same_bits": is_same, "holds": found["holds"] and is_same}


def _read_only(folder: Path) -> dict[str, Any]:
    """A folder, and then a file system, that cannot be written."""
    place = folder / "locked"
    place.mkdir(mode=0o555)
    target = place / "run"
    if os.geteuid() == 0:  # root may write anywhere but to a read-only file system
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(place)],
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            return {"skipped": "root, and no right to mount", "holds": True}
    try:
        return _sentence(_train(folder, str(target.relative_to(folder))), folder)
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", str(place)], check=True)


def _wrong_clocks(folder: Path) -> dict[str, Any]:
    """The clock jumps by years at every look, before and after a cut."""
    path = folder / "clocks"
    _train(folder, "clocks", limits=_limit_files, prelude=WRONG_CLOCKS)
    was_cut = not RunFolder.open(path).is_done
    for file in path.rglob("*"):  # and every file is of another year
        moment = float(np.random.default_rng(len(file.name)).uniform(1e8, 4e9))
        os.utime(file, (moment, moment))
    resumed = _resume(path, prelude=WRONG_CLOCKS)
    is_same = resumed.returncode == 0 and _is_same(folder, "clocks")
    return {"was_cut": was_cut, "resumed_to_the_same_bits": is_same,
            "holds": was_cut and is_same}  # fmt: skip


def _limit_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))


def _two_processes(folder: Path) -> dict[str, Any]:
    """Eight processes resume one folder at once: one trains, the others are told."""
    path = folder / "shared"
    _train(folder, "shared", limits=_limit_files)
    program = "from nopg.cli.main import run\nrun()"
    words = [sys.executable, "-W", "ignore", "-c", program]
    words += ["fit", "--resume", str(path)]
    both = [
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for _ in range(8)
    ]  # fmt: skip
    said = [process.communicate()[0] for process in both]
    codes = [process.returncode for process in both]
    told = [s for s in said if "one writer at a time" in s or "are done" in s]
    holds = codes.count(0) == 1 and len(told) == 7 and _is_same(folder, "shared")
    return {"trained": codes.count(0), "refused": len(told), "holds": holds}


def _large(folder: Path, settings: str) -> list[str]:
    """A job of about a gigabyte."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(6000, 3))
    a = rng.uniform(-1, 1, size=(6000, 1))
    moved = np.clip(x + 0.1 * a, -1, 1)
    data = nopg.Dataset(x, a, -(x**2).sum(axis=1), moved, np.zeros(6000))
    data.save(folder / "large.npz")
    (folder / "large.toml").write_text(
        f"[model]\nneighbours = 2000\n{settings}\n[bandwidths]\n"
        "state = [0.5, 0.5, 0.5]\naction = [0.5]\n[fit]\nn_updates = 2\n"
        "initial_states = [[0.0, 0.0, 0.0]]\n"
    )
    words = ["fit", str(folder / "large.npz"), "--config", str(folder / "large.toml")]
    return [*words, "--out", str(folder / f"large-{time.monotonic_ns()}")]


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, resource.RLIM_INFINITY))


def _little_memory_foreseen(folder: Path) -> dict[str, Any]:
    """The plan sees the limit of the process and says what would fit."""
    found = _sentence(_run(_large(folder, ""), limits=_limit_memory), folder)
    found["holds"] = found["holds"] and "keep at most neighbours=" in found["said"]
    return found


def _little_memory_met(folder: Path) -> dict[str, Any]:
    """The plan is told there is plenty, and an allocation fails all the same."""
    words = _large(folder, "max_memory = 1e12")
    found = _sentence(_run(words, limits=_limit_memory), folder)
    found["holds"] = found["holds"] and "Budget: 6,000 samples" in found["said"]
    return found


if __name__ == "__main__":
    main()
