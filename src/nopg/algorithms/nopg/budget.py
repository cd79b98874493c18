"""What a job needs, before it starts: entries of P and bytes.

Row lengths come from a sample of the rows, bytes from counting arrays.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from nopg.algorithms.nopg.config import NOPGConfig
from nopg.bellman.problem import MATCHED, list_rows
from nopg.bellman.samples import Samples
from nopg.errors import ConfigError, NopgError
from nopg.kernels.bandwidths import Bandwidths
from nopg.linalg.ranks import Ranks
from nopg.policies.families import DeterministicPolicy, GaussianPolicy, Policy

LARGE = 5_000_000
"""Entries of P from which a job is announced: about a tenth of a second per update."""
SEARCH_BYTES = 48  # bytes per entry while neighbours are searched and sorted, beyond what is kept
FUSED_BYTES = 21
"""Bytes per entry of fused updates: columns, log psi, weights, rows of P' and its
values 4 each, places in them 1. Lists are searched and sorted some at a time."""


@dataclass(frozen=True)
class Budget:
    """What one process of a job needs."""

    n: int  # samples
    neighbours: float  # samples a row keeps, on average
    entries: int  # stored entries of P in this process
    peak_bytes: int  # highest use beyond the data and the libraries
    limit: float | None  # bytes available; None if unknown

    @property
    def is_large(self) -> bool:
        """Whether the job is worth announcing."""
        return self.entries >= LARGE

    def __str__(self) -> str:
        text = (
            f"Budget: {self.n:,} samples, {self.neighbours:.0f} neighbours per row, "
            f"{self.entries / 1e6:.1f} million entries of P, {_size(self.peak_bytes)} of memory"
        )
        if self.limit is not None:
            text += f" ({_size(self.limit)} available)"
        return f"{text}."


def estimate_budget(
    policy: Policy,
    samples: Samples,
    initial: Tensor,
    bandwidths: Bandwidths,
    config: NOPGConfig,
    ranks: Ranks | None = None,
) -> Budget:
    """Measure a little, and estimate what the whole job needs; nothing is changed.

    Raises:
        ConfigError: If the job does not fit into memory.
    """
    n, neighbours, ranks = len(samples.rewards), config.estimator.neighbours, samples.ranks or ranks
    n_own, n_local = (n, 1) if ranks is None else (max(ranks.counts(n)), ranks.n_local)
    length = float(n)
    if isinstance(neighbours, int):
        length = float(min(neighbours, n))
    elif neighbours is not None:
        # At most 256 from the first to the last, evenly spread: nothing is drawn.
        some = samples.next_states[:: 1 + (len(samples.next_states) - 1) // 256]
        length = list_rows(some, samples, bandwidths, config.estimator).n_entries / len(some)
    entries = round((n_own * config.estimator.next_state_samples + len(initial)) * length)
    fixed = n * _fused_bytes(policy, samples, config) if ranks is None and length < n else 0
    each = FUSED_BYTES if fixed else _bytes_per_entry(policy, samples, config, length < n)
    peak, free = fixed + entries * each, available_memory(config.device)
    limit = config.max_memory or (None if free is None else free // n_local)
    if limit is not None and peak > limit:
        fitting = max(int(length * (limit - fixed) / (peak - fixed)), 1)
        raise ConfigError(
            f"A job must fit into memory, {n:,} samples with {length:.0f} neighbours "
            f"per row need about {_size(peak)} and {_size(limit)} are available; keep "
            f"at most neighbours={fitting}, use fewer samples or "
            'dtype="float32", share the rows over more ranks, or raise `max_memory`.'
        )
    return Budget(n, length, entries, peak, limit)


def _bytes_per_entry(policy: Policy, samples: Samples, config: NOPGConfig, is_sparse: bool) -> int:
    """Bytes per entry of P at the highest."""
    v, draws = torch.finfo(samples.rewards.dtype).bits // 8, samples.n_actions or 1
    if isinstance(policy, GaussianPolicy) and config.estimator.stochastic != "analytic":
        draws = config.estimator.policy_samples
    # Weights of draws and their mixture, two working arrays, and the last rows until new ones come.
    update, kept = v * (5 + draws), 0
    if config.estimator.rows == MATCHED:
        d = samples.states.shape[1] + (0 if samples.n_actions else samples.actions.shape[1])
        update, kept = max(update, v * d), v * (1 + d)  # features, once more when made
    if not is_sparse:
        return v + update + kept  # log psi; no lists, no transpose
    # Lists: columns 4, log psi, actions; pattern: columns 4 + 4, permutations 4 + 4.
    kept += 20 + v + (8 if samples.n_actions else v * samples.actions.shape[1])
    # The solves have the values of P', and of both in single precision with columns.
    return kept + max(update + v + 16, SEARCH_BYTES)


def _fused_bytes(policy: Policy, samples: Samples, config: NOPGConfig) -> int:
    """Bytes of fused updates per sample, beside the entries of P; 0 if not fused."""
    rows, is_single = config.estimator, samples.rewards.dtype == torch.float32
    is_even = isinstance(rows.neighbours, int) or rows.rows == MATCHED
    is_alone = isinstance(policy, DeterministicPolicy) and rows.next_state_samples == 1
    if config.device == "cpu" or not (is_single and is_even and is_alone):
        return 0
    d_a, d = samples.action_width, samples.states.shape[1] + samples.action_width
    # Vectors of solves, gradient and lists; queries, places, what a layer says.
    numbers = 29 + 2 * d + (5 * sum(config.hidden) if len(config.hidden) > 1 else 0)
    if rows.rows == MATCHED:
        numbers += 3 * d + d * d_a  # features of samples and queries, tilts
    return 4 * numbers


def available_memory(device: str = "cpu", root: Path = Path("/")) -> int | None:
    """Bytes that are free; None if unknown."""
    # On Linux the lesser of what the kernel calls available and what the container's control group
    # and the process's limit leave; on a GPU what its driver calls free.
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    found, group = [], root / "sys/fs/cgroup"
    with suppress(OSError, StopIteration):
        lines = (root / "proc/meminfo").read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(1024 * int(line.split()[1]))
    with suppress(OSError, ValueError):  # "max" is no number, and no limit
        most, used, stat = (
            (group / f"memory.{name}").read_text(encoding="utf-8")
            for name in ("max", "current", "stat")
        )
        # Pages of files read long ago count as used, and can be given up.
        old = dict(line.split() for line in stat.splitlines()).get("inactive_file", 0)
        found.append(max(int(most) - int(used) + int(old), 0))
    with suppress(OSError, IndexError, ValueError):  # nor is "unlimited"
        own = root / "proc/self"
        most = (own / "limits").read_text().split("Max address space")[1].split()[0]
        used = (own / "status").read_text().split("VmSize:")[1].split()[0]
        found.append(max(int(most) - 1024 * int(used), 0))
    return min(found, default=None)


@contextmanager
def out_of_memory(budget: Budget | None) -> Iterator[None]:
    """Turn memory that runs out within the block into one sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # torch has no class of its own for the CPU's errors.
        signs = ("can't allocate memory", "not enough memory", "bad_alloc")
        is_ours = isinstance(error, MemoryError | torch.OutOfMemoryError)
        is_ours |= any(sign in str(error) for sign in signs)
        if isinstance(error, NopgError) or not is_ours:
            raise
        needs = "" if budget is None else f" ({str(budget).rstrip('.')})"
        raise ConfigError(
            f"A job must fit into memory, it ran out{needs}; use fewer samples, a "
            'smaller `neighbours` or dtype="float32", or give it more memory.'
        ) from None


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
