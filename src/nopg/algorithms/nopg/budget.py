"""What a job needs, before it starts: entries of P, bytes, time per update.

Row lengths come from a sample of the rows, bytes from counting arrays, time from a
few updates on a sample of the data.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from nopg.algorithms.nopg.config import NOPGConfig
from nopg.algorithms.nopg.fused import ascend_together
from nopg.bellman.problem import MATCHED, Problem, list_rows
from nopg.bellman.samples import Samples
from nopg.errors import ConfigError, NopgError
from nopg.kernels.bandwidths import Bandwidths
from nopg.policies.families import GaussianPolicy, Policy
from nopg.randomness import Seed

LARGE = 5_000_000
"""Entries of P from which a job is announced: about a tenth of a second per update."""
SAMPLED_ROWS = 256
CALIBRATION = 1_000_000
"""Entries of the problem whose updates are timed, more than caches hold."""
SEARCH_BYTES = 48
"""Bytes per entry while neighbours are searched and sorted, beyond what is kept."""
PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Budget:
    """What one process of a job needs."""

    n: int  # samples
    neighbours: float  # samples a row keeps, on average
    entries: int  # stored entries of P in this process
    peak_bytes: int  # highest use beyond the data and the libraries
    limit: int | None  # bytes available; None if unknown
    seconds: float | None = None  # expected time per update; None for small jobs

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
            f"{self.neighbours:.0f} neighbours per row need about "
            f"{_size(self.peak_bytes)} and {_size(self.limit)} are available; keep at "
            f"most neighbours={max(fitting, 1)}, use fewer samples or "
            'dtype="float32", share the rows over more ranks, or raise `max_memory`.'
        )

    def __str__(self) -> str:
        text = (
            f"Budget: {self.n:,} samples, {self.neighbours:.0f} neighbours per row, "
            f"{self.entries / 1e6:.1f} million entries of P, {_size(self.peak_bytes)} "
            "of memory"
        )
        if self.limit is not None:
            text += f" ({_size(self.limit)} available)"
        if self.seconds is not None:
            text += f", about {1e3 * self.seconds:.3g} ms per update"
        return f"{text}."


def estimate_budget(
    policy: Policy,
    samples: Samples,
    initial: Tensor,
    bandwidths: Bandwidths,
    config: NOPGConfig,
    n_ranks: int = 1,
    n_local: int = 1,
) -> Budget:
    """Measure a little, and estimate what the whole job needs.

    Args:
        policy: The policy to be trained; it stays as it is.
        samples: The data.
        initial: The initial states, (B, d_s).
        bandwidths: Kernel bandwidths.
        config: The model's settings.
        n_ranks: Processes that share the rows.
        n_local: Those of them that share this machine's memory.

    Raises:
        ConfigError: If the job does not fit into memory.
    """
    n, neighbours = len(samples.rewards), config.estimator.neighbours
    length = float(n)
    if isinstance(neighbours, int):
        length = float(min(neighbours, n))
    elif neighbours is not None:
        some = samples.next_states[_evenly(n, SAMPLED_ROWS, samples.states.device)]
        rows = list_rows(some, samples, bandwidths, config.estimator)
        length = rows.n_entries / len(some)
    n_rows = -(-n // n_ranks) * config.estimator.next_state_samples + len(initial)
    limit = config.max_memory or available_memory(config.device, n_local)
    per_entry = _bytes_per_entry(policy, samples, config, is_sparse=length < n)
    budget = Budget(
        n=n,
        neighbours=length,
        entries=round(n_rows * length),
        peak_bytes=round(n_rows * length) * per_entry,
        limit=None if limit is None else int(limit),
    )
    budget.require_memory()
    if not budget.is_large:
        return budget
    seconds = _seconds_per_entry(length, policy, samples, initial, bandwidths, config)
    return replace(budget, seconds=budget.entries * seconds)


def _bytes_per_entry(
    policy: Policy, samples: Samples, config: NOPGConfig, *, is_sparse: bool
) -> int:
    """Bytes per entry of P at the highest."""
    v = torch.finfo(samples.rewards.dtype).bits // 8
    draws = samples.n_actions or 1
    if isinstance(policy, GaussianPolicy) and config.estimator.stochastic != "analytic":
        draws = config.estimator.policy_samples
    # Weights of each draw and their mixture, two working arrays, and the rows of the
    # last update, which stay until the new ones are there.
    update = v * (5 + draws)
    is_fused = config.device != "cpu" and v == 4  # where features are made on the way
    if config.estimator.rows == MATCHED and not is_fused:
        d_a = 0 if samples.n_actions else samples.actions.shape[1]
        d = samples.states.shape[1] + d_a
        update += v * (1 + 2 * d + d * (d + 1) // 2)  # features, once more when made
    if not is_sparse:
        return v + update  # log psi; no lists, no transpose
    # Lists: columns 4, log psi, actions; pattern: columns 4 + 4, permutations 4 + 4.
    kept = 20 + v + (8 if samples.n_actions else v * samples.actions.shape[1])
    return kept + max(update + v, SEARCH_BYTES)  # v: the values of P'


def _seconds_per_entry(
    length: float,
    policy: Policy,
    samples: Samples,
    initial: Tensor,
    bandwidths: Bandwidths,
    config: NOPGConfig,
) -> float:
    """Time per update and entry, from a few updates on a sample of the data."""
    k = max(1, min(round(length), 128))
    rows = _evenly(len(samples.rewards), CALIBRATION // k, samples.states.device)
    settings, seeds = replace(config.estimator, neighbours=k), Seed(config.seed)
    problem = Problem.build(
        samples.subset(rows),
        initial,
        bandwidths,
        settings,
        seeds.torch("next-states", config.device),
    )
    draws = seeds.torch("policy-samples", config.device)
    trained = [copy.deepcopy(policy)]
    updates = ascend_together(problem, trained, config.training, 4, [draws])
    times = []
    for _ in range(4):
        began = time.perf_counter()
        next(updates)
        times.append(time.perf_counter() - began)
    return median(times[1:]) / problem.next_rows.n_entries


def available_memory(
    device: str = "cpu", n_local: int = 1, *, proc: Path = PROC, cgroup: Path = CGROUP
) -> int | None:
    """Bytes each of `n_local` processes can take; None if unknown.

    On Linux the lesser of what the kernel calls available and what the container's
    control group (v2 or v1) leaves; on a GPU what its driver calls free.
    """
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(torch.device(device))[0]) // n_local
    found = [
        1024 * int(line.split()[1])
        for line in _lines(proc / "meminfo")
        if line.startswith("MemAvailable:")
    ]
    for limit, usage in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, used = ("".join(_lines(cgroup / name)) for name in (limit, usage))
        stat = dict(
            line.split() for line in _lines((cgroup / limit).parent / "memory.stat")
        )
        if (most + used).isdigit():  # "max" is no limit
            # Pages of files read long ago count as used, and can be given up.
            left = int(most) - int(used) + int(stat.get("inactive_file", 0))
            found.append(max(left, 0))
    return min(found) // n_local if found else None


@contextmanager
def out_of_memory(budget: Budget | None) -> Iterator[None]:
    """Turn memory that runs out within the block into one sentence.

    Args:
        budget: What the job was expected to need, if it is known by now.

    Raises:
        ConfigError: If memory ran out.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        needs = "" if budget is None else f" ({str(budget).rstrip('.')})"
        raise ConfigError(
            f"A job must fit into memory, it ran out{needs}; use fewer samples, a "
            'smaller `neighbours` or dtype="float32", or give it more memory.'
        ) from None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch has no class of its own for the CPU's errors."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    signs = ("can't allocate memory", "not enough memory", "bad_alloc")
    is_ours = isinstance(error, NopgError)
    return not is_ours and any(sign in str(error) for sign in signs)


def _evenly(n: int, count: int, device: torch.device) -> Tensor:
    """Row numbers from the first to the last, evenly spread: nothing is drawn."""
    steps = torch.linspace(0, n - 1, min(count, n), dtype=torch.float64, device=device)
    return steps.round().long()


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
