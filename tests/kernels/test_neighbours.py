"""Neighbour lists against brute force, and their bound against the dropped mass."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nopg.errors import ConfigError
from nopg.kernels.neighbours import fixed_blocks, log_similarity, nearest_blocks


def clouds(seed: int, n: int = 300, m: int = 80) -> tuple[Tensor, Tensor, Tensor]:
    """A dense core and a sparse halo: rows want very different lengths."""
    generator = torch.Generator().manual_seed(seed)
    samples = torch.randn((n, 3), dtype=torch.float64, generator=generator)
    samples[: n // 2] *= 0.1
    queries = torch.randn((m, 3), dtype=torch.float64, generator=generator)
    return queries, samples, torch.tensor([0.2, 0.3, 0.4], dtype=torch.float64)


def test_fixed_lists_are_the_nearest_samples() -> None:
    queries, samples, h = clouds(0)
    (block,) = fixed_blocks(queries, samples, h, 10)
    expected = log_similarity(queries, samples, h).topk(10, dim=1)
    torch.testing.assert_close(block.log_psi, expected.values)
    assert block.columns is not None
    assert (block.columns.long() == expected.indices).float().mean() > 0.99  # ties


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), margin=st.floats(1.0, 15.0))
def test_bound_covers_what_is_dropped_and_margin_is_kept(seed: int, margin: float) -> None:
    queries, samples, h = clouds(seed)
    blocks = nearest_blocks(queries, samples, h, log_margin=margin, most=300)
    log_psi = log_similarity(queries, samples, h)
    seen = torch.zeros(len(queries), dtype=torch.int64)
    for block in blocks:
        seen[block.rows] += 1
        if block.columns is None:
            continue
        rest = log_psi[block.rows].scatter(1, block.columns.long(), -torch.inf)
        assert (torch.logsumexp(rest, dim=1) <= block.log_dropped + 1e-9).all()
        kept = torch.logsumexp(block.log_psi, dim=1)
        assert (block.log_dropped <= kept - margin + 1e-9).all()
    assert (seen == 1).all()


def test_rows_of_unequal_need_get_unequal_length() -> None:
    queries, samples, h = clouds(1, n=2000)
    blocks = nearest_blocks(queries, samples, h, log_margin=5.0, most=2000)
    lengths = {block.log_psi.shape[1] for block in blocks}
    assert len(lengths) > 1


def test_lists_that_would_hold_everything_become_complete() -> None:
    queries, samples, h = clouds(2)
    blocks = nearest_blocks(queries, samples, 100 * h, log_margin=5.0, most=300)
    assert len(blocks) == 1
    assert blocks[0].columns is None
    assert bool(torch.isneginf(blocks[0].log_dropped).all())


def test_zero_neighbours_are_refused() -> None:
    queries, samples, h = clouds(3)
    with pytest.raises(ConfigError, match="at least 1"):
        fixed_blocks(queries, samples, h, 0)
