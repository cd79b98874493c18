"""Kernels, and lists of the samples a query row keeps, with what the others may weigh.

Kernels are logarithms, since densities of far points underflow. The paper's are Gaussian products,

    k_h(x, c) = prod_d exp(-(x_d - c_d)^2 / (2 h_d^2)) / (h_d sqrt(2 pi)).

Lists depend on the states alone, so they are built once and serve every policy. Rows are gathered
in blocks of equal length: each is a plain (m, k) array, and trajectory data, whose densest row may
need a hundred times the neighbours of its median row, do not pay for it everywhere.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.errors import ConfigError

BLOCK_LENGTHS = tuple(int(2 ** (e / 2)) for e in range(6, 60))  # 8, 11, 16, 22, 32, ...
"""Row lengths in use: a row takes the next one, at most 41% more than it needs."""


@dataclass(frozen=True)
class Block:
    """Rows that keep the same number of samples."""

    rows: Tensor  # which queries these are, (m,), ascending
    columns: Tensor | None  # samples each row keeps, in any order, (m, k) int32; None keeps all
    log_psi: Tensor  # log state kernel at those samples, relative to its peak, (m, k)
    log_dropped: Tensor  # log of an upper bound on the state-kernel mass a row drops, (m,)


def complete_block(queries: Tensor, samples: Tensor, bandwidths: Tensor) -> Block:
    """All samples for all queries: exact, and n times m numbers large."""
    rows = torch.arange(len(queries), device=queries.device)
    log_psi = log_similarity(queries, samples, bandwidths)
    return Block(rows, None, log_psi, queries.new_full((len(queries),), -math.inf))


def nearest_blocks(
    queries: Tensor,  # states of the rows, (m, d_s)
    samples: Tensor,  # states of the samples, (n, d_s)
    bandwidths: Tensor,  # state bandwidths, (d_s,)
    *,
    log_margin: float,  # how far, in log mass, the tail must lie below the head
    most: int,  # rows stop growing at this length; their `log_dropped` then says more
    least: int = 8,  # shortest row
) -> list[Block]:
    """Keep as many nearest samples per row as its tail mass asks for.

    A row is long enough when everything it drops weighs at most exp(-log_margin) of what it keeps,
    in the state kernel: (n - k) psi_k <= exp(-log_margin) sum_{j<=k} psi_j. Every dropped sample is
    at least as far as the k-th, which makes the left side an upper bound.

    Blocks hold every query once; it is one complete block when lists would hold half of all pairs.
    """
    n = len(samples)
    # An ignored dimension (h = inf) scales to zero and adds no distance.
    search = _search_in(samples / bandwidths, queries / bandwidths)
    waiting = torch.arange(len(queries), device=queries.device)
    blocks: list[Block] = []
    longest = min(most, n)
    for k in [*(k for k in BLOCK_LENGTHS if least <= k < longest), longest]:
        if 2 * k >= n and len(waiting) > len(queries) // 2:
            return [complete_block(queries, samples, bandwidths)]
        squares, columns = search(waiting, k)
        log_psi = squares.mul_(-0.5)  # large: no second copy
        log_left = math.log(n - k) if n > k else -math.inf
        block = Block(waiting, columns, log_psi, log_psi.amin(dim=1) + log_left)
        if k == longest:
            blocks.append(block)
            break
        done = block.log_dropped <= torch.logsumexp(block.log_psi, dim=1) - log_margin
        if bool(done.any()):
            parts = (waiting, columns, block.log_psi, block.log_dropped)
            blocks.append(block if bool(done.all()) else Block(*(x[done] for x in parts)))
        waiting = waiting[~done]
        if len(waiting) == 0:
            break
    return blocks


def fixed_blocks(queries: Tensor, samples: Tensor, bandwidths: Tensor, k: int) -> list[Block]:
    """Keep exactly the k nearest samples of each row (all of them if k >= n)."""
    if k < 1:
        raise ConfigError(f"`neighbours` must be at least 1, got {k}; None keeps every sample.")
    return nearest_blocks(queries, samples, bandwidths, log_margin=math.inf, most=k, least=k)


def passed_block(
    queries: Tensor, pieces: Iterable[tuple[int, Tensor]], h: Tensor, k: int, n: int
) -> Block:
    """The k nearest of n samples, whose states come some at a time, with their first number."""
    rows = torch.arange(len(queries), device=queries.device)
    best = queries.new_full((len(queries), k), math.inf)
    columns = torch.zeros_like(best, dtype=torch.int32)
    for first, states in pieces:
        squares, near = _search_in(states / h, queries / h)(rows, min(k, len(states)))
        best, kept = torch.cat([best, squares], dim=1).topk(k, largest=False)
        columns = torch.cat([columns, near + first], dim=1).gather(1, kept)
    return Block(rows, columns, best.mul_(-0.5), best[:, -1] + math.log(n - k))


def _search_in(samples: Tensor, queries: Tensor) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:
    """An exact search: SciPy's k-d tree on the CPU, our own on a GPU."""
    # For rows of `queries`, the k nearest samples with squared distances; all in bandwidths.
    if samples.is_cuda:
        from nopg.gpu.nearest import NearestSamples

        known = NearestSamples(samples)
        return lambda rows, k: known.search(queries[rows], k)
    from scipy.spatial import cKDTree

    tree = cKDTree(samples.numpy())

    def search(rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        distances, columns = tree.query(queries[rows].numpy(), k=k, workers=-1)
        shape = (len(rows), k)
        squares = torch.as_tensor(distances).reshape(shape).square().to(samples)
        return squares, torch.as_tensor(columns).reshape(shape).to(torch.int32)

    return search


def log_similarity(queries: Tensor, centres: Tensor, bandwidths: Tensor) -> Tensor:
    """Logarithm of the kernel without its constant: 0 at the centre, never above."""
    # Row weights are ratios of kernels, so the constant cancels there; and a bound of one on every
    # kernel is what the truncation certificate rests on. Queries x, (m, d), and centres c, (n, d),
    # make log(k_h(x, c) / k_h(c, c)), (m, n); an infinite h ignores its dimension.
    total = queries.new_zeros((len(queries), len(centres)))
    # One dimension at a time: no (m, n, d) tensor, and no cancellation as in
    # |x|^2 - 2 x'c + |c|^2, which loses half the digits for close points.
    for d, h in enumerate(bandwidths.tolist()):
        if not math.isinf(h):  # which ignores its dimension
            difference = (queries[:, d, None] - centres[None, :, d]) / h
            total.addcmul_(difference, difference, value=-0.5)
    return total


def log_label_similarity(n_actions: int, smoothing: float) -> Tensor:
    """Logarithms of varphi(a, b) / varphi(a, a), (n_actions, n_actions).

    The kernel of Aitchison and Aitken: 1 - smoothing for the same label, smoothing / (n_actions -
    1) for another, so that samples of other actions speak where an action was never tried nearby.
    Smoothing is in (0, 1 - 1 / n_actions]; the upper end makes labels irrelevant.
    """
    off_diagonal = smoothing / max(n_actions - 1, 1) / (1.0 - smoothing)
    similarity = torch.full((n_actions, n_actions), off_diagonal, dtype=torch.float64)
    return similarity.fill_diagonal_(1.0).log()
