"""How long `nopg.learn` takes: by task and by number of cores, and on large logs.

    python -m benchmarks.learn --cores 1 2
    python -m benchmarks.learn --large
    python -m benchmarks.learn --cores 2 --beside 2

Each line is a process of its own, with the verdict in it and what `nopg.learning_cost`
said before; `digits` are a sum over the policy, the same for any number of cores. Beside
each there may be processes that never rest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

TASKS = (("pendulum-grid", 800), ("cart-pole", 1500), ("mountain-car", 10), ("CartPole-v1", 1000))
"""Of the robustness table, with their sizes."""
LARGE = ((100_000, 3), (5_000, 20), (1_000_000, 3))
"""Rows and columns of made-up logs."""


def made_up(n: int, d: int) -> Any:
    """Episodes of a smooth system of d columns that a random agent pushes around."""
    import nopg

    rng, n_steps = np.random.default_rng(0), 100
    n_episodes = n // n_steps
    mixing = 0.95 * np.eye(d) + 0.1 * rng.standard_normal((d, d)) / np.sqrt(d)
    states = rng.uniform(-1.0, 1.0, (n_episodes, d))
    parts: list[list[np.ndarray]] = [[], [], []]
    for _ in range(n_steps):
        actions = rng.uniform(-1.0, 1.0, (n_episodes, 1))
        after = np.tanh(states @ mixing.T + 0.3 * actions * np.cos(states))
        for part, array in zip(parts, (states, actions, after), strict=True):
            part.append(array)
        states = after
    before, acted, after = (np.stack(p, axis=1).reshape(n, -1) for p in parts)
    ends = np.tile(np.arange(n_steps) == n_steps - 1, n_episodes)
    episodes = np.repeat(np.arange(n_episodes), n_steps)
    rewards = -np.square(before).sum(axis=1)
    never = np.zeros(n, dtype=bool)
    return nopg.Dataset(before, acted, rewards, after, never, ends, episodes)


def dataset(task: str, size: int) -> tuple[Any, Any, dict[str, Any]]:
    """Data and starts of a task of the robustness table or of a made-up log, and options."""
    from reproduction.experiment import Plan
    from reproduction.figures import robustness
    from reproduction.tasks.learnable import learnable_of

    options: dict[str, Any] = {"seed": 0, "progress": False}
    if task == "made-up":
        return made_up(*LARGE[size]), None, options
    trials = robustness.EXPERIMENT.trials(Plan(preset="standard"))
    tasks = {t.task: t for t in trials if t.method == "learn"}
    if task not in tasks:
        raise SystemExit(f"The task must be made-up or one of {', '.join(tasks)}, got {task}.")
    known = learnable_of(tasks[task])
    data, options["action_space"] = known.dataset(size, 0), known.action_space
    if data.is_discrete:
        options["policy"] = "discrete"
    return data, known.initial_observations(0), options


def measure(task: str, size: int) -> None:
    """Learn once and print a line."""
    import torch

    import nopg

    warnings.simplefilter("ignore")
    data, starts, options = dataset(task, size)
    expected = nopg.learning_cost(data, starts).seconds
    begun, cpu = time.perf_counter(), time.process_time()
    policy = nopg.learn(data, starts, **options)
    policy.verdict()  # as with a bar
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    digits = sum(float(p.detach().sum()) for p in policy.policy.parameters())
    print(
        f"{task:14s} {len(data):>9,} x {data.observations.shape[1]:<3d} "
        f"{torch.get_num_threads():2d} cores {wall:7.1f} s (said {expected:.1f}), "
        f"{cpu:7.1f} s of CPU, "
        f"digits {digits!r}",
        flush=True,
    )


def main() -> None:
    """Every task on every number of cores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--beside", type=int, default=0, help="processes that never rest")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(given.one[0], int(given.one[1]))
        return
    tasks = [("made-up", i) for i in range(len(LARGE))] if given.large else TASKS
    for task, size in tasks:
        for cores in given.cores:
            command = [sys.executable, "-c", "while True: pass"]
            others = [subprocess.Popen(command) for _ in range(given.beside)]
            try:
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.learn", "--one", task, str(size)],
                    env=os.environ | {"OMP_NUM_THREADS": str(cores)},
                    check=False,
                )
            finally:  # an interrupt, too, leaves none of them
                for other in others:
                    other.kill()


if __name__ == "__main__":
    main()
