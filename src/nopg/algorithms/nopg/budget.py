"""What a job will take, before it starts: neighbours, bytes, time per update.

Row lengths come from a sample of the query rows, time from a few updates on a
sample of the data, memory from counting arrays. All of it costs seconds where the
job would cost hours, or the machine.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

import torch
from torch import Tensor

from nopg.algorithms.nopg.ascent import ascend
from nopg.algorithms.nopg.config import NOPGConfig
from nopg.algorithms.nopg.fused import FusedTrainer, ascend_fused, is_fusible
from nopg.algorithms.nopg.memory import available_memory
from nopg.bellman.config import EstimatorConfig
from nopg.bellman.problem import Problem, list_rows
from nopg.bellman.samples import Samples
from nopg.bellman.solution import Estimator
from nopg.errors import ConfigError
from nopg.kernels.bandwidths import Bandwidths
from nopg.policies.base import Policy
from nopg.policies.continuous import GaussianPolicy
from nopg.randomness import Seed

LARGE = 5_000_000
"""Entries of P from which a job is worth a plan: about a tenth of a second an update
on two cores."""
SAMPLED_ROWS = 256
CALIBRATION = 1_000_000
"""Entries of the larger calibration problem, more than caches hold; the smaller has
a quarter of them."""
SEARCH_BYTES = 48
"""Bytes an entry while neighbours are searched and sorted: distances, columns, their
selection, sort keys and permutations, beyond what is kept."""


@dataclass(frozen=True)
class Plan:
    """What one process of a job will take.

    Attributes:
        n: Samples.
        n_rows: Rows this process holds.
        neighbours: Samples a row keeps, on average.
        longest: Longest row seen.
        entries: Stored entries of P in this process.
        kept_bytes: Lists, kernels and patterns, for the whole job.
        update_bytes: Weights and products, during an update.
        peak_bytes: Highest use beyond the data and the libraries.
        limit: Bytes there are; None if unknown.
        seconds: Expected time per update; None for small jobs.
    """

    n: int
    n_rows: int
    neighbours: float
    longest: int
    entries: int
    kept_bytes: int
    update_bytes: int
    peak_bytes: int
    limit: int | None
    seconds: float | None = None

    @property
    def is_large(self) -> bool:
        """Whether the job is worth announcing."""
        return self.entries >= LARGE

    def require_memory(self) -> None:
        """Refuse a job that does not fit.

        Raises:
            ConfigError: If the peak is above the limit.
        """
        if self.limit is None or self.peak_bytes <= self.limit:
            return
        fitting = int(self.neighbours * self.limit / self.peak_bytes)
        raise ConfigError(
            f"A job must fit into memory, {self.n:,} samples with "
            f"{self.neighbours:.0f} neighbours a row need about "
            f"{_size(self.peak_bytes)} and there are {_size(self.limit)}; keep at most "
            f"neighbours={max(fitting, 1)}, use fewer samples or "
            'dtype="float32", share the rows over more ranks, or raise `max_memory`.'
        )

    def __str__(self) -> str:
        limit = "" if self.limit is None else f" of {_size(self.limit)} there are"
        lines = [
            f"Plan: {self.n:,} samples, {self.neighbours:.0f} neighbours a row (up to "
            f"{self.longest}), {self.entries / 1e6:.1f} million entries of P.",
            f"Memory: {_size(self.kept_bytes)} kept, {_size(self.update_bytes)} during "
            f"an update, {_size(self.peak_bytes)} at the highest{limit}.",
        ]
        if self.seconds is not None:
            lines.append(f"Time: about {_duration(self.seconds)} an update.")
        return "\n".join(lines)


def plan_job(
    policy: Policy,
    samples: Samples,
    initial: Tensor,
    bandwidths: Bandwidths,
    config: NOPGConfig,
    n_ranks: int = 1,
    n_local: int = 1,
) -> Plan:
    """Measure a little, and say what all of it will take.

    Args:
        policy: The policy to be trained; it stays as it is.
        samples: The data.
        initial: The initial states, (B, d_s).
        bandwidths: Kernel bandwidths.
        config: The model's settings.
        n_ranks: Processes that share the rows.
        n_local: Those of them that share this machine's memory.
    """
    n = len(samples.rewards)
    mean, longest = _row_lengths(samples, bandwidths, config.estimator)
    n_rows = -(-n // n_ranks) * config.estimator.next_state_samples + len(initial)
    entries = round(n_rows * mean)
    kept, update, search = _bytes_an_entry(policy, samples, config, longest < n)
    limit = config.max_memory
    if limit is None:
        available = available_memory(config.device)
        limit = None if available is None else available // n_local
    plan = Plan(
        n=n,
        n_rows=n_rows,
        neighbours=mean,
        longest=longest,
        entries=entries,
        kept_bytes=entries * kept,
        update_bytes=entries * update,
        peak_bytes=entries * (kept + max(update, search)),
        limit=None if limit is None else int(limit),
    )
    plan.require_memory()
    if not plan.is_large:
        return plan
    seconds = _seconds(plan, policy, samples, initial, bandwidths, config)
    return replace(plan, seconds=seconds)


def _row_lengths(
    samples: Samples, bandwidths: Bandwidths, config: EstimatorConfig
) -> tuple[float, int]:
    """Mean and greatest length of a sample of the rows."""
    n = len(samples.rewards)
    if config.neighbours is None:
        return float(n), n
    if isinstance(config.neighbours, int):
        k = min(config.neighbours, n)
        return float(k), k
    chosen = _evenly(n, SAMPLED_ROWS, samples.states.device)
    rows = list_rows(samples.next_states[chosen], samples, bandwidths, config)
    longest = max(block.log_psi.shape[1] for block in rows.blocks)
    return rows.n_entries / len(chosen), longest


def _bytes_an_entry(
    policy: Policy, samples: Samples, config: NOPGConfig, is_sparse: bool
) -> tuple[int, int, int]:
    """Bytes kept, used during an update, and used by the search, an entry of P."""
    v = torch.finfo(samples.rewards.dtype).bits // 8
    beside = 8 if samples.n_actions else v * samples.actions.shape[1]
    draws = samples.n_actions or 1
    if isinstance(policy, GaussianPolicy) and config.estimator.stochastic != "analytic":
        draws = config.estimator.policy_samples
    # Weights of each draw and their mixture, two working arrays, and the rows of the
    # last update, which stay until the new ones are there.
    update = v * (5 + draws)
    if not is_sparse:
        return v, update, v  # log psi; no lists, no transpose
    # Lists: columns 4, log psi, actions; pattern: columns 4 + 4, permutations 4 + 4.
    return 20 + v + beside, update + v, SEARCH_BYTES  # and the values of P'


def _seconds(
    plan: Plan,
    policy: Policy,
    samples: Samples,
    initial: Tensor,
    bandwidths: Bandwidths,
    config: NOPGConfig,
) -> float:
    """Time per update from two small problems: a fixed part, and one an entry."""
    # Entries are what costs; with rows shorter than these the samples are many.
    k = max(1, min(round(plan.neighbours), 128))
    spent = []
    for entries in (CALIBRATION // 4, CALIBRATION):
        part = _subset(samples, entries // k)
        settings = replace(config.estimator, neighbours=k)
        generator = Seed(config.seed).torch("next-states", config.device)
        problem = Problem.build(part, initial, bandwidths, settings, generator)
        updates = _updates(problem, copy.deepcopy(policy), config)
        times = []
        for _ in range(4):
            began = time.perf_counter()
            next(updates)
            times.append(time.perf_counter() - began)
        spent.append((problem.next_rows.n_entries, median(times[1:])))
    (few, short), (many, long) = spent
    slope = max((long - short) / max(many - few, 1), 0.0)
    return float(max(long + slope * (plan.entries - many), long))


def _updates(problem: Problem, policy: Policy, config: NOPGConfig) -> Iterator[object]:
    """A few updates on the path that training itself will take."""
    if is_fusible(problem, policy):
        return ascend_fused(FusedTrainer(problem, [policy], config.training, 4))
    draws = Seed(config.seed).torch("policy-samples", config.device)
    return ascend(Estimator.of(problem, policy), policy, config.training, 4, draws)


def _subset(samples: Samples, count: int) -> Samples:
    rows = _evenly(len(samples.rewards), count, samples.states.device)
    return Samples(
        states=samples.states[rows],
        actions=samples.actions[rows],
        rewards=samples.rewards[rows],
        next_states=samples.next_states[rows],
        continuation=samples.continuation[rows],
        n_actions=samples.n_actions,
    )


def _evenly(n: int, count: int, device: torch.device) -> Tensor:
    """Row numbers from the first to the last, evenly spread: nothing is drawn."""
    steps = torch.linspace(0, n - 1, min(count, n), dtype=torch.float64, device=device)
    return steps.round().long()


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def _duration(seconds: float) -> str:
    if seconds >= 1.0:
        return f"{seconds:.1f} s"
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.01 else f"{1e3 * seconds:.2g} ms"
