"""One problem on several ranks: time per update, and the same answers as one.

    torchrun --nproc-per-node 2 -m benchmarks.distributed
    torchrun --nproc-per-node 8 -m benchmarks.distributed --device cuda --n 1000000

Start it with `OMP_NUM_THREADS=1` where ranks share cores.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from benchmarks.tasks import Task, random_task

from nopg.algorithms.nopg.ascent import ascend
from nopg.algorithms.nopg.config import TrainingConfig
from nopg.bellman.problem import EstimatorConfig, Problem
from nopg.bellman.samples import Samples
from nopg.bellman.solution import Estimator
from nopg.linalg.ranks import Ranks, joined_ranks
from nopg.linalg.solve import SolverConfig
from nopg.randomness import Seed

Answers = dict[str, torch.Tensor]


def on_device(task: Task, device: str) -> Task:
    """The same task with its tensors elsewhere."""
    s = task.samples
    samples = Samples(
        states=s.states.to(device),
        actions=s.actions.to(device),
        rewards=s.rewards.to(device),
        next_states=s.next_states.to(device),
        continuation=s.continuation.to(device),
    )
    return replace(task, samples=samples, start=task.start.to(device))


def measure(task: Task, k: int, ranks: Ranks | None, n_updates: int) -> tuple[Answers, float]:
    """Answers at the first policy, solved tightly, and the time of an update."""
    device = task.samples.rewards.device
    config = EstimatorConfig(gamma=task.gamma, neighbours=k)
    draws = Seed(0).torch("next-states", device)
    problem = Problem.build(task.samples, task.start, task.bandwidths, config, draws, ranks)
    policy = task.policy().to(device)
    estimator = Estimator.of(problem, policy)
    solution = estimator.solve(policy, draws, SolverConfig(rtol=1e-12))
    answers = {
        "q": solution.q.value,
        "mu": solution.mu.value,
        "J": torch.tensor([float(solution.objective())]),
        "gradient": torch.cat([g.reshape(-1) for g in solution.gradient(policy)]),
    }
    updates = ascend(estimator, policy, TrainingConfig(rtol=task.rtol), n_updates, draws)
    times = []
    for _ in range(n_updates):
        began = time.perf_counter()
        next(updates)
        times.append(time.perf_counter() - began)
    return answers, median(times)


def main() -> None:
    """Measure on all ranks together, then on the first alone, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--neighbours", type=int, default=64)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default=None, help="gloo, nccl")
    options = parser.parse_args()
    settings: dict[str, Any] = {"k": options.neighbours, "n_updates": options.updates}
    task = on_device(random_task(options.n, torch.float64, 1e-2), options.device)
    with joined_ranks(options.device, backend=options.backend) as ranks:
        shared, together = measure(task, ranks=ranks, **settings)
    if not ranks.is_first:
        return
    alone, single = measure(task, ranks=None, **settings)
    print(f"n = {options.n}, k = {options.neighbours}, {ranks.size} ranks:")
    print(f"  {1e3 * together:.1f} ms per update, one process {1e3 * single:.1f} ms")
    for name, truth in alone.items():
        error = float((shared[name] - truth).abs().max() / truth.abs().max())
        print(f"  {name:9} differs by {error:.1e} of its largest entry")


if __name__ == "__main__":
    main()
