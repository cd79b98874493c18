"""Ranks: processes that share the rows of one problem, or its data too, and talk to each other.

A x is a local product and one all_gather, A' y a local product and one sum; both leave every rank
with the same vector to the last bit. A collective succeeds on all ranks or raises within a timeout.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from nopg.errors import ConfigError, RankError
from nopg.linalg.operators import LinearOperator

PASSED = 1_000_000  # rows that are passed round at a time


@dataclass(frozen=True)
class Ranks:
    """The ranks of a job, seen from one of them."""

    # Samples are shared in contiguous ranges, of equal length or as long as what each brings.

    rank: int  # number of this process, from 0
    size: int  # number of processes
    n_local: int = 1  # how many of them share this machine's memory
    shares_data: bool = False  # whether each brings its own part of the data
    sizes: tuple[int, ...] = ()  # rows of these parts, once they are known

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that prints and saves."""
        return self.rank == 0

    def counts(self, n: int) -> tuple[int, ...]:
        """How many of n samples each rank has."""
        width = -(-n // self.size)
        return self.sizes or tuple(min(width, max(n - r * width, 0)) for r in range(self.size))

    def part(self, n: int, group: int = 1) -> slice:
        """The range of n samples that this rank holds, or of their rows, `group` for each."""
        counts = self.counts(n)
        if not min(counts):
            raise ConfigError(f"Every rank must have samples, got {counts}; use fewer ranks.")
        return slice(group * sum(counts[: self.rank]), group * sum(counts[: self.rank + 1]))

    def gather(self, part: Tensor, counts: Sequence[int]) -> Tensor:
        """The parts of all ranks, of so many rows each, end to end: the one all_gather."""
        width = max(counts)
        if len(part) < width:
            part = torch.cat([part, part.new_zeros((width - len(part), *part.shape[1:]))])
        whole = part.new_empty((self.size, width, *part.shape[1:]))
        # Newer versions of torch renamed it, and warn of the older name.
        modern = getattr(dist, "all_gather_single", None)
        self._call(modern or dist.all_gather_into_tensor, whole.flatten(0, 1), part.contiguous())
        return torch.cat([one[:m] for one, m in zip(whole, counts, strict=True)])

    def passed_round(self, own: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The parts of all ranks, some rows at a time, with the number of their first row."""
        for rank, start in [(r, i) for r, m in enumerate(self.sizes) for i in range(0, m, PASSED)]:
            rows = own[start : start + PASSED].contiguous()
            if rank != self.rank:
                rows = own.new_empty((min(PASSED, self.sizes[rank] - start), *own.shape[1:]))
            self._call(dist.broadcast, rows, rank)
            yield sum(self.sizes[:rank]) + start, rows

    def pick(self, own: Tensor, numbers: Tensor) -> Tensor:
        """Rows by their numbers, wherever they are."""
        found = own.new_empty((*numbers.shape, *own.shape[1:]))
        for first, rows in self.passed_round(own):
            here = (numbers >= first) & (numbers < first + len(rows))
            found[here] = rows[numbers[here] - first]
        return found

    def told(self, own: int, device: str | torch.device) -> tuple[int, ...]:
        """One whole number of each rank."""
        return tuple(self.gather(torch.tensor([own], device=device), [1] * self.size).tolist())

    def sum(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Each tensor summed over the ranks, all in one message."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._call(dist.all_reduce, flat)
        pieces = torch.split_with_sizes(flat, [tensor.numel() for tensor in tensors])
        return tuple(p.view_as(t) for p, t in zip(pieces, tensors, strict=True))

    def copy_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite each tensor with rank 0's."""
        for tensor in tensors:
            self._call(dist.broadcast, tensor.data, 0)

    def require_same(self, thing: str, what: str, device: str | torch.device) -> None:
        """Check that all ranks hold the same thing."""
        own = int.from_bytes(hashlib.sha256(thing.encode()).digest()[:7], "little")
        if others := [rank for rank, one in enumerate(self.told(own, device)) if one != own]:
            raise ConfigError(
                f"Every rank must hold the same {what}, rank {others[0]} holds another than rank "
                f"{self.rank}; load alike, all data on each rank or, with shares_data=True, a part."
            )

    def _call(self, collective: Callable[..., Any], *arguments: Any) -> None:
        began = time.monotonic()
        try:
            collective(*arguments)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise RankError(
                f"All {self.size} ranks must stay alive and in step, rank {self.rank} "
                f"lost the others after {time.monotonic() - began:.0f} s ({reason}); "
                "see the output of the rank that stopped first, then start again."
            ) from None


@dataclass(frozen=True)
class ShardedRows(LinearOperator):
    """A, of which this rank holds some rows; every method is collective."""

    own: LinearOperator
    part: slice  # which rows of A these are, `group` for each of this rank's samples
    group: int
    n: int  # samples, which are the columns of A
    ranks: Ranks

    def matvec(self, x: Tensor) -> Tensor:
        """A x, (n,) -> (m,)."""
        return self.gather_rows(self.own.matvec(x))

    def rmatvec(self, y: Tensor) -> Tensor:
        """A' y, (m,) -> (n,)."""
        return self.ranks.sum([self.own.rmatvec(y[self.part])])[0]

    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""
        return self.gather_rows(self.own.dense())

    def gather_rows(self, own: Tensor) -> Tensor:
        """What each rank has for its own rows, (m_r, ...), for all rows, (m, ...)."""
        grouped = own.reshape(-1, self.group, *own.shape[1:])
        return self.ranks.gather(grouped, self.ranks.counts(self.n)).flatten(0, 1)


@contextmanager
def joined_ranks(
    device: str = "cpu", timeout: float = 300, backend: str | None = None, shares_data: bool = False
) -> Iterator[Ranks]:
    """Join the job that torchrun started this process for; leave it at the end.

    Args:
        device: "cpu" or "cuda"; with CUDA each rank of a machine takes its own GPU.
        timeout: Seconds a rank waits for the others before it gives up.
        backend: What carries the messages; gloo for CPUs and NCCL for GPUs.
        shares_data: Whether each rank brings a part of the data, instead of all of them.

    Raises:
        ConfigError: If the process was not started by torchrun.
        RankError: If the other ranks do not come, or one is lost later.
    """
    wanted = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if missing := [name for name in wanted if name not in os.environ]:
        raise ConfigError(
            f"A rank must know its job, found no {', '.join(missing)} in the "
            "environment; start it with: torchrun --nproc-per-node 2 script.py"
        )
    is_cuda = device.startswith("cuda")
    if is_cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        backend = backend or ("nccl" if is_cuda else "gloo")
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
    except RuntimeError as error:
        raise RankError(
            f"All ranks must meet within {timeout:.0f} s, rank {os.environ['RANK']} met nobody "
            f"({str(error).splitlines()[0]}); run torchrun everywhere with the same address."
        ) from None
    n_local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size(), n_local, shares_data)
    finally:
        with suppress(RuntimeError):  # after a loss there is nobody to say goodbye to
            dist.destroy_process_group()
