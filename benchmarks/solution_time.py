"""From data to a policy that swings up: seconds on the pendulum grid.

python -m benchmarks.solution_time --n 3200 --target -380
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from benchmarks.machine import THREADS

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset, swing_up
from nopg.fitted.history import Update
from nopg.fitted.policy import FittedPolicy

GAMMA = 0.99
"""The return counts 500 steps alike; 0.97 sees a hundred, and settles at about -400."""


def time_to_solution(
    side: int, target: float, *, n_updates: int = 300, every: int = 5, seed: int = 0
) -> dict[str, Any]:
    """Fit with the library's defaults, but gamma, until a rollout earns `target`.

    The clock runs from the data in memory to the first policy that is good enough:
    bandwidths, neighbour lists and updates count, rollouts that look do not.

    Args:
        side: Angles and velocities of the grid; there are two torques.
        target: Return over 500 steps from the bottom.
        n_updates: Where the step size reaches zero, and the most updates made.
        every: Updates between looks.
        seed: Seed of the policy.
    """
    data = grid_dataset(side, side)
    model = nopg.NOPG(gamma=GAMMA, seed=seed)
    looking, returns = 0.0, []

    def look(policy: FittedPolicy, update: Update) -> bool:
        nonlocal looking
        if update.step % every and update.step != n_updates:
            return True
        began = time.perf_counter()
        returns.append(swing_up(policy).total)
        looking += time.perf_counter() - began
        return bool(returns[-1] < target)

    began = time.perf_counter()
    model.fit(data, BOTTOM, n_updates=n_updates, callback=look, progress=False)
    seconds = time.perf_counter() - began - looking
    assert model.fitted.history is not None
    return {
        "n": len(data),
        "target": target,
        "reached": returns[-1],
        "updates": len(model.fitted.history),
        "seconds": seconds,
        "settings": f"nopg.NOPG(gamma={GAMMA}, seed={seed}), n_updates={n_updates}",
    }


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=3200)
    parser.add_argument("--target", type=float, default=-380.0)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    side = round((options.n / 2) ** 0.5)
    found = time_to_solution(side, options.target, n_updates=options.updates, seed=options.seed)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
