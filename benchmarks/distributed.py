"""One problem on several ranks: time per update, and the same answers as one.

    torchrun --nproc-per-node 2 -m benchmarks.distributed
    torchrun --nproc-per-node 8 -m benchmarks.distributed --device cuda --samples 1000000
    torchrun --nproc-per-node 4 -m benchmarks.distributed --memory --samples 400000 --neighbours 32

Start it with `OMP_NUM_THREADS=1` where ranks share cores.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import torch
from benchmarks.tasks import Task, random_task

from nopg.algorithms.nopg.ascent import ascend
from nopg.algorithms.nopg.config import TrainingConfig
from nopg.bellman.problem import EstimatorConfig, Problem
from nopg.bellman.samples import Samples
from nopg.bellman.sharded import joined_parts
from nopg.bellman.solution import Estimator
from nopg.data.dataset import Dataset
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


def tensors_of(thing: object) -> list[torch.Tensor]:
    """The memory that an object holds, each piece of it once, as tensors of bytes or of numbers."""
    found: dict[int, torch.Tensor] = {}
    waiting, seen = [thing], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor):
            known = found.setdefault(one.untyped_storage().data_ptr(), one)
            if one.numel() > known.numel():
                found[one.untyped_storage().data_ptr()] = one
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, tuple | list):
            waiting += one
        elif type(one).__module__.startswith("nopg"):
            waiting += vars(one).values()
    return list(found.values())


def memory(task: Task, k: int, ranks: Ranks) -> tuple[int, int]:
    """Bytes that this rank holds between updates: lists and patterns, and all else."""
    s, config = task.samples, EstimatorConfig(gamma=task.gamma, neighbours=k)
    states, actions, rewards, after = s.states, s.actions, s.rewards, s.next_states
    data = Dataset(states, actions, rewards, after, s.continuation.numpy() == 0.0)
    if ranks.shares_data:
        width = -(-len(data) // ranks.size)
        data = data.subset(np.arange(len(data))[ranks.rank * width :][:width])
    samples, seen = joined_parts(data, ranks, s.states.dtype, "cpu")
    draws = Seed(0).torch("next-states")
    problem = Problem.build(samples, task.start, task.bandwidths, config, draws, ranks)
    held = tensors_of(Estimator.of(problem, task.policy()))
    total = sum(one.untyped_storage().nbytes() for one in held)
    total += sum(x.nbytes for one in {data, seen} for x in one.arrays().values())
    entries = problem.next_rows.n_entries
    lists = sum(one.untyped_storage().nbytes() for one in held if one.numel() >= entries)
    return lists, total - lists


def main() -> None:
    """Measure on all ranks together, then on the first alone, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--neighbours", type=int, default=64)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default=None, help="gloo, nccl")
    parser.add_argument("--memory", action="store_true", help="bytes of a rank, data shared or not")
    options = parser.parse_args()
    settings: dict[str, Any] = {"k": options.neighbours, "n_updates": options.updates}
    task = on_device(random_task(options.samples, torch.float64, 1e-2), options.device)
    with joined_ranks(options.device, backend=options.backend) as ranks:
        if options.memory:
            for share in (False, True):
                found = memory(task, options.neighbours, replace(ranks, shares_data=share))
                if ranks.is_first:
                    what = "a part" if share else "all data"
                    lists, rest = (1e-6 * count for count in found)
                    print(f"{ranks.size} ranks with {what} each: {lists:.0f} + {rest:.1f} MB")
            return
        shared, together = measure(task, ranks=ranks, **settings)
    if not ranks.is_first:
        return
    alone, single = measure(task, ranks=None, **settings)
    print(f"n = {options.samples}, k = {options.neighbours}, {ranks.size} ranks:")
    print(f"  {1e3 * together:.1f} ms per update, one process {1e3 * single:.1f} ms")
    for name, truth in alone.items():
        error = float((shared[name] - truth).abs().max() / truth.abs().max())
        print(f"  {name:9} differs by {error:.1e} of its largest entry")


if __name__ == "__main__":
    main()
