"""kill -9 at random moments of `nopg learn`: resumed, it ends with the same bits.

    python -m scripts.reliability.kill_search --kills 20

A run is killed after a random time and resumed, again and again, until it ends by
itself; then its policy is held against that of a run that nobody killed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import nopg
from nopg.cli.swing_up import grid_dataset

CONFIG = "[model]\ngamma = 0.95\n[fit]\ninitial_states = [[-1.0, 0.0, 0.0]]\n"
LEARN = [sys.executable, "-c", "from nopg.cli.main import run; run()", "learn"]


def bits(folder: Path) -> list[torch.Tensor]:
    """The parameters of a run's policy."""
    return list(nopg.load(folder / "policy.nopg").policy.state_dict().values())


def ends_within(words: list[str], folder: Path, seconds: float | None) -> bool:
    """Whether a command ends by itself; it is killed after so long."""
    victim = subprocess.Popen(
        [*LEARN, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        if victim.wait(seconds):
            raise SystemExit(f"{words} failed with {victim.returncode}")
    except subprocess.TimeoutExpired:
        victim.kill()
        victim.wait()
        return False
    return True


def main() -> None:
    """Kill, resume and compare, until there were so many kills."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance, kills, runs = random.Random(given.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grid_dataset(8, 8).save(folder / "data.npz")
        (folder / "start.toml").write_text(CONFIG)
        begin = ["data.npz", "--config", "start.toml", "--out"]
        started = time.perf_counter()
        ends_within([*begin, "whole"], folder, None)
        usual, expected = time.perf_counter() - started, bits(folder / "whole")
        print(f"unbroken: {usual:.1f} s")
        while kills < given.kills:
            runs += 1
            out, words = f"run-{runs}", [*begin, f"run-{runs}"]
            while not ends_within(words, folder, chance.uniform(0.0, usual)):
                kills += 1
                is_begun = (folder / out / "search" / "settings.json").exists()
                is_done = (folder / out / "status.json").exists()
                if is_done and not is_begun:
                    break
                words = ["--resume", out] if is_begun else words
            same = all(map(torch.equal, expected, bits(folder / out)))
            print(f"{out}: {kills} kills so far, {'same bits' if same else 'OTHER'}")
            if not same:
                raise SystemExit(1)
    print(f"{kills} kills, {runs} runs resumed to the same bits")


if __name__ == "__main__":
    main()
