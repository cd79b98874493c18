"""What replay and verdict cost beside learning itself, in seconds of CPU.

    python -m benchmarks.sign_off

`learn` is the search and the replay that ends it; sign-off is that replay and the verdict.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, cast

from reproduction.trials.plants import plant_of, start_states

import nopg
from nopg.errors import NopgWarning
from nopg.evaluation import model as evaluation

TASKS = (
    ("cart-pole", 500),
    ("pendulum-grid", 450),
    ("mountain-car", 2),
    ("lqr", 5),
    ("tanks-0", 12),
)
"""Tasks of the sign-off table, with sizes of their logs."""
SEED = 7001


def costs(task: str, size: int) -> tuple[float, float, float]:
    """Seconds of the search, of its replay and of the verdict."""
    plant, replayed, model = plant_of(task), [0.0], cast(Any, evaluation)
    whole = model.replay_held_out

    def timed(*args: Any) -> Any:
        began = time.process_time()
        found = whole(*args)
        replayed[0] += time.process_time() - began
        return found

    data, starts = plant.dataset(size, SEED), plant.observe(start_states(plant, SEED))
    model.replay_held_out = timed
    try:
        began = time.process_time()
        rest: Any = {"gamma": plant.gamma, "action_space": plant.action_space, "progress": False}
        policy = nopg.learn(data, starts, **rest)
        learned = time.process_time()
        policy.verdict()
        ended = time.process_time()
    finally:
        model.replay_held_out = whole
    return learned - began - replayed[0], replayed[0], ended - learned


def main() -> None:
    """Print one line per task."""
    warnings.simplefilter("ignore", NopgWarning)
    for task, size in TASKS:
        search, replay, verdict = costs(task, size)
        both = replay + verdict
        over = (both / (search + replay), both / search)
        print(
            f"{task} {size}: search {search:.2f} s, replay {replay:.2f} s, verdict "
            f"{verdict:.2f} s; both over `learn` {over[0]:.2f}, over its search {over[1]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
