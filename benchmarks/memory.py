"""Memory of `fit` as n grows: it follows n times neighbours, not n squared.

Each size runs in a process of its own and reports its peak resident memory,
beyond what the process holds after importing everything and touching torch.

    python benchmarks/memory.py
"""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np

SIZES = (2_000, 8_000, 32_000)
NEIGHBOURS = 64


def peak_bytes() -> int:
    """Peak resident memory of this process, in bytes (Linux counts kilobytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(n: int) -> None:
    """Fit n random transitions of the pendulum and print the memory it took."""
    import nopg
    from nopg.envs.pendulum import Pendulum

    rng = np.random.default_rng(0)
    env = Pendulum()
    states = np.column_stack([rng.uniform(-np.pi, np.pi, n), rng.uniform(-8, 8, n)])
    actions = rng.uniform(-2, 2, (n, 1))
    step = env.step(states, actions)
    bandwidths = nopg.Bandwidths([0.1, 0.1, 0.4], [2.0])

    def fit(count: int) -> None:
        data = nopg.Dataset(
            env.observe(states[:count]),
            actions[:count],
            step.rewards[:count],
            env.observe(step.next_states[:count]),
            np.zeros(count),
        )
        model = nopg.NOPG(bandwidths=bandwidths, neighbours=NEIGHBOURS)
        model.fit(data, [-1.0, 0.0, 0.0], n_updates=3, progress=False)

    fit(200)  # everything imported, every thread started
    before = peak_bytes()
    fit(n)
    print(peak_bytes() - before)


def main() -> None:
    """Measure every size and print the table."""
    print(f"{'n':>8}{'MB':>10}{'bytes / (n k)':>16}{'n^2 doubles, MB':>18}")
    for n in SIZES:
        command = [sys.executable, __file__, str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        used = int(done.stdout.split()[-1])
        row = f"{n:>8}{used / 1e6:>10.1f}{used / (n * NEIGHBOURS):>16.0f}"
        print(f"{row}{8 * n * n / 1e6:>18.0f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        main()
