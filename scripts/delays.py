"""How often a delay or a hidden level is named, and how often one is made up.

    python -m scripts.delays [LOGS]

Two tanks, logs of 12 episodes of 80 steps each, and the tasks of the paper, in which
neither exists. Ten logs of each take five minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from reproduction.tasks.continuous import cart_pole_task, mountain_car_task, pendulum_random_task
from reproduction.tasks.two_tanks import HORIZON, TwoTanks

from nopg.data import Dataset, find_memory

N_EPISODES = 12
Log = Callable[[int], Dataset]


def tanks(delay: int, hide_level: bool = False) -> Log:
    """Logs of a plant by their seed."""
    return lambda seed: TwoTanks(delay, hide_level).log(N_EPISODES, HORIZON, seed)


LOGS: dict[str, Log] = {
    **{f"tanks, delay {delay}": tanks(delay) for delay in (0, 2, 5, 8)},
    "tanks, upper level hidden": tanks(0, hide_level=True),
    "pendulum, random": lambda seed: pendulum_random_task().dataset(1_500, seed),
    "cart-pole, random": lambda seed: cart_pole_task().dataset(1_000, seed),
    "mountain car, demonstrations": lambda seed: mountain_car_task().dataset(5, seed),
}


def main(n_logs: int) -> None:
    """Print one line per plant: delay, past steps and share explained of each log."""
    for name, log in LOGS.items():
        found = [find_memory(log(seed)) for seed in range(n_logs)]
        cells = [f"{m.action_steps}/{m.observation_steps} {m.explained:.0%}" for m in found]
        print(f"{name:<30}", "  ".join(cells), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
