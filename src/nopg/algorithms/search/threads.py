"""How many threads a search uses: one, unless the data are many.

A search is thousands of products of small matrices. Threads that meet after each of
them cost more than they help, on a busy machine several times as much as the work; and
sums split among other numbers of threads round differently, so that one thread also
gives the same policy on every machine of a kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

MANY = 5_000
"""Samples from which rows of the kernel estimate are worth sharing among threads."""


@contextmanager
def few_threads(n: int) -> Iterator[None]:
    """Linear algebra on one thread; torch keeps its own for many samples.

    Args:
        n: Samples.
    """
    before = torch.get_num_threads()
    with _one_blas_thread():
        # Where torch and BLAS share a pool, the limit is torch's too by now.
        torch.set_num_threads(1 if n < MANY else before)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _one_blas_thread() -> AbstractContextManager[Any]:
    """What numpy's linear algebra uses; unlimited on a machine with torch alone."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits
