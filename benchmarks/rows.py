"""What matched rows cost: updates beside those with the paper's rows, on the CPU.

Both keep the same lists of 64 nearest samples, so that only the rows differ. Updates
take turns, which keeps whatever else the machine does out of the ratio.
"""

from __future__ import annotations

from statistics import median

from benchmarks.our_formulation import OurFormulation
from benchmarks.tasks import grid_task

SIZES = (800, 3200)
WARM_UP, TIMED = 10, 60


def main() -> None:
    """Print milliseconds an update and their ratio."""
    print(f"{'n':>6} {'paper':>9} {'matched':>9} {'ratio':>6}")
    for n in SIZES:
        both = [
            OurFormulation(grid_task(n), rows=rows, stochastic="paper", neighbours=64)
            for rows in ("nadaraya-watson", "matched")
        ]
        seconds: list[list[float]] = [[], []]
        for step in range(WARM_UP + TIMED):
            for one, spent in zip(both, seconds, strict=True):
                taken = one.update()
                if step >= WARM_UP:
                    spent.append(taken)
        plain, matched = (1e3 * median(spent) for spent in seconds)
        print(f"{n:6d} {plain:7.1f}ms {matched:7.1f}ms {matched / plain:6.2f}")


if __name__ == "__main__":
    main()
