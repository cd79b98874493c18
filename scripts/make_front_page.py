"""Learns and exports the front page's pendulum: `python -m scripts.make_front_page`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset, swing_up

FILE = Path(__file__).parents[1] / "docs" / "assets" / "pendulum" / "policy.js"
N_STARTS = 24
"""Other starts than the bottom: who is pushed starts anywhere."""
GUARD_POINTS = 100
"""Fewer than the 450 there are: the page is to stay small."""


def main() -> None:
    """Learn from the paper's grid of 450 transitions, and write the script."""
    data = grid_dataset()
    rows = np.random.default_rng(0).choice(len(data), N_STARTS, replace=False)
    starts = np.concatenate([[BOTTOM], data.observations[rows]])
    policy = nopg.learn(data, starts, gamma=0.97, seed=0, progress=False)
    policy.policy.float()  # fewer digits: the page is to stay small
    done = nopg.export_policy(policy, FILE, guard_points=GUARD_POINTS)
    done.contract.unlink()  # the page needs none
    print(f"return {swing_up(policy).total:.0f}, {FILE.stat().st_size:,} bytes")
    assert done.guard is not None
    print(done.guard.told(done.lost))


if __name__ == "__main__":
    main()
