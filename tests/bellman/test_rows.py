"""Rows and their weights against a dense softmax that knows nothing of blocks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nopg.bellman.nadaraya_watson import NadarayaWatson, gaussian_weights
from nopg.bellman.responsibilities import mixed
from nopg.bellman.rows import Neighbours, QueryRows, query_rows
from nopg.errors import ConfigError
from nopg.kernels.neighbours import Block, log_label_similarity

M, N = 30, 200
H = torch.tensor([0.4, 0.7], dtype=torch.float64)
VARIANCES = torch.tensor([0.3, 0.5], dtype=torch.float64)
KINDS: tuple[Neighbours, ...] = (None, 25, "auto")


def points(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (m, d_s), samples (n, d_s), actions (n, d_a); dense and sparse places."""
    queries = 1.5 * torch.randn((M, 2), dtype=torch.float64, generator=generator)
    samples = 1.5 * torch.randn((N, 2), dtype=torch.float64, generator=generator)
    samples[: N // 2] *= 0.2
    actions = torch.randn((N, 2), dtype=torch.float64, generator=generator)
    return queries, samples, actions


def listed(
    queries: Tensor, samples: Tensor, actions: Tensor, neighbours: Neighbours = "auto"
) -> QueryRows:
    return query_rows(queries, samples, actions, H, neighbours, log_margin=math.log(10.0), most=60)


def log_psi(queries: Tensor, samples: Tensor) -> Tensor:
    """Log state kernel, (m, n)."""
    return -0.5 * ((queries[:, None] - samples) / H).square().sum(dim=-1)


def kept(rows: QueryRows) -> Tensor:
    """Which samples each row lists, (m, n)."""
    ones = [torch.ones_like(block.log_psi) for block in rows.blocks]
    return rows.operator(ones).dense() > 0


def softmax_of(logits: Tensor, is_kept: Tensor) -> Tensor:
    """Dense rows that give no weight to what is not kept."""
    return torch.softmax(logits.masked_fill(~is_kept, -torch.inf), dim=-1)


@pytest.mark.parametrize("neighbours", KINDS)
def test_gaussian_rows_are_a_softmax(neighbours: Neighbours, generator: torch.Generator) -> None:
    queries, samples, actions = points(generator)
    rows = listed(queries, samples, actions, neighbours)
    taken = torch.randn((M, 2), dtype=torch.float64, generator=generator)
    squares = (taken[:, None] - actions).square()
    logits = log_psi(queries, samples) - (0.5 * squares / VARIANCES).sum(dim=-1)
    found = gaussian_weights(rows, taken, 0.5 / VARIANCES)
    expected = softmax_of(logits, kept(rows))
    torch.testing.assert_close(rows.operator(found.blocks).dense(), expected)
    mass = logits.masked_fill(~kept(rows), -torch.inf).logsumexp(dim=-1)
    torch.testing.assert_close(found.log_mass, mass)
    complete = torch.softmax(logits, dim=-1)
    distance = 0.5 * (expected - complete).abs().sum(dim=-1)
    assert bool((distance <= found.dropped + 1e-12).all())
    if neighbours is None:
        assert float(found.dropped.max()) == 0.0
    else:
        assert float(distance.max()) > 0.0  # rows do drop something here


def test_blocks_differ_in_length_and_are_out_of_order(generator: torch.Generator) -> None:
    """Otherwise the tests above would not see the permutation of rows."""
    rows = listed(*points(generator))
    assert len(rows.blocks) > 1
    assert rows.pattern is not None
    assert rows.pattern.position is not None


def test_variances_may_differ_from_row_to_row(generator: torch.Generator) -> None:
    queries, samples, actions = points(generator)
    rows = listed(queries, samples, actions)
    taken = torch.randn((M, 2), dtype=torch.float64, generator=generator)
    variances = 0.2 + torch.rand((M, 2), dtype=torch.float64, generator=generator)
    squares = (taken[:, None] - actions).square() / variances[:, None]
    logits = log_psi(queries, samples) - 0.5 * squares.sum(dim=-1)
    found = gaussian_weights(rows, taken, 0.5 / variances)
    expected = softmax_of(logits, kept(rows))
    torch.testing.assert_close(rows.operator(found.blocks).dense(), expected)


def test_several_draws_are_rows_of_their_own(generator: torch.Generator) -> None:
    queries, samples, actions = points(generator)
    rows = listed(queries, samples, actions)
    taken = torch.randn((3, M, 2), dtype=torch.float64, generator=generator)
    together = gaussian_weights(rows, taken, 0.5 / VARIANCES)
    for k in range(3):
        alone = gaussian_weights(rows, taken[k], 0.5 / VARIANCES)
        for block, one in zip(together.blocks, alone.blocks, strict=True):
            torch.testing.assert_close(block[k], one)
        torch.testing.assert_close(together.log_mass[k], alone.log_mass)


def test_far_queries_have_rows_that_sum_to_one(generator: torch.Generator) -> None:
    queries, samples, actions = points(generator)
    rows = listed(queries + 1e4, samples, actions, 25)
    weights = gaussian_weights(rows, queries, 0.5 / VARIANCES)
    sums = rows.operator(weights.blocks).dense().sum(dim=1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize("neighbours", KINDS)
def test_label_rows_and_their_mixture(neighbours: Neighbours, generator: torch.Generator) -> None:
    queries, samples, _ = points(generator)
    labels = torch.randint(0, 3, (N,), generator=generator)
    rows = listed(queries, samples, labels, neighbours)
    similarity = log_label_similarity(3, 0.1)
    parts, dense = [], []
    for a in range(3):
        varphi = torch.where(labels == a, 0.9, 0.05).log()  # Aitchison and Aitken
        expected = softmax_of(log_psi(queries, samples) + varphi, kept(rows))
        parts.append(NadarayaWatson(rows, VARIANCES[:0], similarity).at_label(a))
        found = rows.operator(parts[-1].blocks).dense()
        torch.testing.assert_close(found, expected)
        dense.append(expected)
    logits = torch.randn((M, 3), dtype=torch.float64, generator=generator)
    shares = torch.softmax(logits, dim=1)
    operator, *_ = mixed(rows, parts, shares.T, (shares,))
    expected = torch.einsum("amn,ma->mn", torch.stack(dense), shares)
    torch.testing.assert_close(operator.dense(), expected)


@pytest.mark.parametrize("neighbours", KINDS)
def test_rescaled_rows_are_those_of_other_bandwidths(
    neighbours: Neighbours, generator: torch.Generator
) -> None:
    queries, samples, actions = points(generator)
    rows = listed(queries, samples, actions, neighbours)
    wider = rows.rescaled(1.5)
    taken = torch.randn((M, 2), dtype=torch.float64, generator=generator)
    squares = (taken[:, None] - actions).square()
    logits = log_psi(queries, samples) / 1.5**2
    logits = logits - (0.5 * squares / VARIANCES).sum(dim=-1)
    found = gaussian_weights(wider, taken, 0.5 / VARIANCES)
    expected = softmax_of(logits, kept(rows))
    torch.testing.assert_close(wider.operator(found.blocks).dense(), expected)
    distance = 0.5 * (expected - torch.softmax(logits, dim=-1)).abs().sum(dim=-1)
    assert bool((distance <= found.dropped + 1e-12).all())


@pytest.mark.parametrize("neighbours", KINDS)
def test_rows_reach_as_far_as_what_they_listen_to(
    neighbours: Neighbours, generator: torch.Generator
) -> None:
    queries, samples, actions = points(generator)
    rows = listed(queries, samples, actions, neighbours)
    weights = softmax_of(log_psi(queries, samples), kept(rows))
    away = (queries[:, None] - samples).square()  # (m, n, d_s)
    expected = (weights[..., None] * away).sum(dim=1).mean(dim=0).sqrt()
    torch.testing.assert_close(rows.reach(samples), expected)


@pytest.mark.parametrize("neighbours", [True, "all", 2.0])
def test_other_numbers_of_neighbours_are_refused(
    neighbours: object, generator: torch.Generator
) -> None:
    with pytest.raises(ConfigError, match="`neighbours` must be a whole number"):
        listed(*points(generator), neighbours)  # type: ignore[arg-type]


def test_more_entries_than_fit_plain_products_are_refused() -> None:
    one = torch.zeros(1)
    columns = one.int().expand(2**20, 2**11)  # no memory behind them
    block = Block(one, columns, one.expand(columns.shape), one)
    rows = QueryRows((block,), one[:, None], one[:, None], (2**20, 1))
    with pytest.raises(ConfigError, match="2,147,483,648"):
        _ = rows.pattern
