"""Ranks: processes that share the rows of one problem and talk to each other.

A x is a local product and one all_gather, A' y a local product and one sum; both leave every rank
with the same vector to the last bit. A collective either succeeds on every rank or raises here
within the timeout.
"""

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


@dataclass(frozen=True)
class Ranks:
    """The ranks of a job, seen from one of them."""

    # Samples are shared in contiguous ranges of equal length, the last one shorter: gathered parts
    # then lie end to end as the whole does, with padding behind it.

    rank: int  # number of this process, from 0
    size: int  # number of processes
    n_local: int = 1  # how many of them share this machine's memory

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that prints and saves."""
        return self.rank == 0

    def width(self, n: int) -> int:
        """Length of every range but the last, which may be shorter."""
        return -(-n // self.size)

    def part(self, n: int) -> slice:
        """The range of n samples that this rank holds."""
        width = self.width(n)
        if width * (self.size - 1) >= n:
            raise ConfigError(f"Every rank must have samples, got {n} for {self.size}; use fewer.")
        return slice(self.rank * width, min((self.rank + 1) * width, n))

    def gather(self, part: Tensor, total: int) -> Tensor:
        """The parts of all ranks end to end, (total, ...): the one all_gather."""
        width = self.width(total)
        if len(part) < width:
            part = torch.cat([part, part.new_zeros((width - len(part), *part.shape[1:]))])
        whole = part.new_empty((width * self.size, *part.shape[1:]))
        # Newer versions of torch renamed it, and warn of the older name.
        modern = getattr(dist, "all_gather_single", None)
        self._call(modern or dist.all_gather_into_tensor, whole, part.contiguous())
        return whole[:total]

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

    def require_same(self, fingerprint: int, what: str, device: torch.device) -> None:
        """Check that all ranks hold the same thing."""
        own = torch.tensor([fingerprint], dtype=torch.int64, device=device)
        others = (self.gather(own, self.size) != own).nonzero()
        if len(others):
            raise ConfigError(
                f"Every rank must hold the same {what}, rank {int(others[0])} holds another than "
                f"rank {self.rank}; load the whole data on each rank, rows are shared out for you."
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
        return self.ranks.gather(own.reshape(-1, self.group, *own.shape[1:]), self.n).flatten(0, 1)


@contextmanager
def joined_ranks(
    device: str = "cpu", timeout: float = 300.0, backend: str | None = None
) -> Iterator[Ranks]:
    """Join the job that torchrun started this process for; leave it at the end.

    Args:
        device: "cpu" or "cuda"; with CUDA each rank of a machine takes its own GPU.
        timeout: Seconds a rank waits for the others before it gives up.
        backend: What carries the messages; gloo for CPUs and NCCL for GPUs.

    Raises:
        ConfigError: If the process was not started by torchrun.
        RankError: If the other ranks do not come, or one is lost later.
    """
    wanted = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in wanted if name not in os.environ]
    if missing:
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
        yield Ranks(dist.get_rank(), dist.get_world_size(), n_local)
    finally:
        with suppress(RuntimeError):  # after a loss there is nobody to say goodbye to
            dist.destroy_process_group()
