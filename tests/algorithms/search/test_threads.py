"""Threads of a search: one for numpy, and for torch where data are few."""

from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from nopg.algorithms.search.threads import MANY, few_threads


def blas_threads() -> set[int]:
    """Those of numpy and scipy; torch may bring a BLAS that shares its own pool."""
    return {
        pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas" and "torch" not in Path(pool["filepath"]).parts
    }


@pytest.mark.parametrize(("n", "torch_threads"), [(MANY - 1, 1), (MANY, 2)])
def test_few_threads_while_it_lasts(n: int, torch_threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2, user_api="blas"):
            with few_threads(n):
                assert blas_threads() == {1}
                assert torch.get_num_threads() == torch_threads
            assert blas_threads() == {2}
        with pytest.raises(KeyboardInterrupt), few_threads(n):
            raise KeyboardInterrupt
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
