"""Exact nearest neighbours in a few dimensions, for as many points as memory holds.

A program takes a few queries that are close together, goes to the leaf nearest to them and from
there up the tree, and leaves out every node whose box is farther than the k-th sample found so far.
What comes closer is gathered in a buffer; when it is full, the k nearest stay.
"""

import torch
from torch import Tensor

from nopg.errors import ConfigError
from nopg.gpu.tiles import Tree, spatial_order
from nopg.gpu.toolchain import padded, tl, triton

LEAF = 64  # samples of a leaf at most
ENTRIES = 1024  # places in the buffers of one program: 32 for each thread of a warp
REGISTERS = 128  # of a thread: with more too few programs run at once
PROGRAMS = 2**16  # at once; their buffers take half a gigabyte
FARTHEST = tl.constexpr(3e38)  # squared distances beyond it are taken for it


@triton.jit
def _gap(boxes, node, low, high, d: tl.constexpr):
    """Squared distance between the box of a node and the box from low to high."""
    box = boxes + node.to(tl.int64) * 2 * d
    total = 0.0 * low[0]
    for f in tl.static_range(d):
        below = low[f] - tl.load(box + d + f)
        above = tl.load(box + f) - high[f]
        gap = tl.maximum(tl.maximum(below, above), 0.0)
        total += gap * gap
    return total


@triton.jit
def _descend(boxes, first_leaf, low, high, d: tl.constexpr):
    """The leaf whose box is nearest to the middle of the one from low to high."""
    middle = ()
    for f in tl.static_range(d):
        middle += (0.5 * (low[f] + high[f]),)
    node = tl.full((), 1, tl.int32)
    while node < first_leaf:
        left = _gap(boxes, 2 * node, middle, middle, d)
        right = _gap(boxes, 2 * node + 1, middle, middle, d)
        node = 2 * node + (right < left).to(tl.int32)
    return node


@triton.jit
def _keep_nearest(near, names, count, k: tl.constexpr, CAP: tl.constexpr):
    """Leave the k nearest of each buffer, the first ones among equals, at its front."""
    # What comes is how many are left, and the distance below which others count.
    at = tl.arange(0, CAP)[None, :]
    is_filled = at < count[:, None]
    tl.debug_barrier()  # other threads have written what is read now
    squares = tl.load(near + at, mask=is_filled, other=float("inf"))
    # Numbers from 0 on are ordered as their bits: halving the range of these finds the k-th.
    if squares.dtype == tl.float64:
        bits = squares.to(tl.int64, bitcast=True)
    else:
        bits = squares.to(tl.int32, bitcast=True)
    below = tl.min(bits, axis=1) - 1
    kth = tl.max(tl.where(is_filled, bits, 0), axis=1)
    while tl.max(kth - below, axis=0) > 1:
        middle = below + (kth - below) // 2
        is_enough = tl.sum((bits <= middle[:, None]).to(tl.int32), axis=1) >= k
        kth = tl.where(is_enough, middle, kth)
        below = tl.where(is_enough, below, tl.maximum(middle, below))
    is_less = (bits < kth[:, None]) & is_filled
    is_equal = (bits == kth[:, None]) & is_filled
    room = k - tl.sum(is_less.to(tl.int32), axis=1)
    is_first = tl.cumsum(is_equal.to(tl.int32), axis=1) <= room[:, None]
    is_kept = is_less | (is_equal & is_first)
    place = tl.cumsum(is_kept.to(tl.int32), axis=1) - 1
    name = tl.load(names + at, mask=is_filled, other=0)
    tl.debug_barrier()  # and have read what is overwritten now
    tl.store(near + place, squares, mask=is_kept)
    tl.store(names + place, name, mask=is_kept)
    tl.debug_barrier()
    farthest = tl.max(tl.where(is_kept, squares, 0.0), axis=1)
    bound = tl.where(count < k, float("inf"), farthest)
    return tl.minimum(count, k), bound


@triton.jit
def _nearest(
    queries, order, points, coordinates, boxes, near, names, squares, numbers, first,
    m, n, first_leaf, width, d: tl.constexpr, k: tl.constexpr, UP: tl.constexpr,
    Q: tl.constexpr, S: tl.constexpr, K: tl.constexpr, CAP: tl.constexpr,
):  # fmt: skip
    program, own = tl.program_id(0), tl.arange(0, Q)
    number = (first + program) * Q + own
    is_query = number < m
    # Programs that are short of queries take the last one several times.
    query = tl.load(order + tl.minimum(number, m - 1)).to(tl.int64)
    x, low, high = (), (), ()
    for f in tl.static_range(d):
        value = tl.load(queries + query * d + f)
        x += (value,)
        low += (tl.min(value, axis=0),)
        high += (tl.max(value, axis=0),)
    buffer = (program.to(tl.int64) * Q + own)[:, None] * CAP
    near, names = near + buffer, names + buffer
    inside = tl.arange(0, S)
    count, bound = 0 * own, 0.0 * x[0] + float("inf")
    # `top` is the subtree that was looked through, `subtree` the one that is now.
    top = _descend(boxes, first_leaf, low, high, d)
    for _ in tl.static_range(UP):
        top = tl.maximum(top // 2, 1)
    subtree, node = top, top
    most, farthest = tl.max(count, axis=0), tl.max(bound, axis=0)
    while subtree >= 0:
        if (subtree == 0) | (most > CAP - S):
            count, bound = _keep_nearest(near, names, count, k, CAP)
            most, farthest = tl.max(count, axis=0), tl.max(bound, axis=0)
        # Boxes and points are subtracted in one precision, but summed in two places.
        gap = _gap(boxes, node, low, high, d) * (1.0 - 1e-6)
        is_close = (gap < farthest) & (subtree > 0)
        if is_close & (node >= first_leaf):
            at = (node - first_leaf).to(tl.int64) * width
            name = tl.load(points + at + inside, mask=inside < width, other=n)
            total = tl.zeros((Q, S), dtype=bound.dtype)
            for f in tl.static_range(d):
                place = coordinates + at * d + f * width + inside
                there = tl.load(place, mask=name < n, other=0.0)
                difference = x[f][:, None] - there[None, :]
                total += difference * difference
            total = tl.minimum(total, FARTHEST)
            is_found = (total < bound[:, None]) & (name < n)[None, :]
            found = is_found.to(tl.int32)
            place = count[:, None] + tl.cumsum(found, axis=1) - 1
            tl.store(near + place, total, mask=is_found)
            tl.store(names + place, name[None, :] + 0 * place, mask=is_found)
            count += tl.sum(found, axis=1)
            most = tl.max(count, axis=0)
        if is_close & (node < first_leaf):
            node = 2 * node
        else:
            while (node != subtree) & (node % 2 == 1):
                node = node // 2
            if node != subtree:
                node += 1
            else:
                top = tl.where(subtree == top, top, top // 2)
                # Above the root is nothing: what was found is put in order, and done.
                node = top ^ 1
                subtree = tl.where(subtree == 0, -1, node)
    entry = tl.arange(0, K)
    is_entry = (entry < k)[None, :] & is_query[:, None]
    mine = tl.load(near + entry[None, :], mask=is_entry, other=float("inf"))
    name = tl.load(names + entry[None, :], mask=is_entry, other=0)
    rank = tl.zeros((Q, K), dtype=tl.int32)
    for j in range(k):
        rank += (tl.load(names + j) < name).to(tl.int32)
    out = query[:, None] * k + rank
    tl.store(squares + out, mine, mask=is_entry)
    tl.store(numbers + out, name, mask=is_entry)


class NearestSamples:
    """A search among samples (n, d), scaled so that Euclidean distance is meant."""

    def __init__(self, samples: Tensor) -> None:
        self._n, self._tree = len(samples), Tree.of(samples, LEAF)

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k samples nearest to each query (m, d), in the order of their numbers."""
        # Squared distances and int32 numbers, (m, k) each; of equally far ones any may be listed.
        (m, d), tree = queries.shape, self._tree
        if not 1 <= k <= self._n:
            raise ConfigError(f"`k` must lie between 1 and {self._n} samples, got {k}; take fewer.")
        squares = queries.new_empty((m, k))
        numbers = torch.empty_like(squares, dtype=torch.int32)
        room = padded(k + 2 * LEAF)
        together = max(1, ENTRIES // room)
        order = spatial_order(queries, together).to(torch.int32)
        n_programs, (n_leaves, width) = -(-m // together), tree.points.shape
        near = queries.new_empty((min(n_programs, PROGRAMS) * together, room))
        names = torch.empty_like(near, dtype=torch.int32)
        for first in range(0, n_programs, PROGRAMS):
            _nearest[(min(PROGRAMS, n_programs - first),)](
                queries.contiguous(), order, tree.points, tree.coordinates, tree.boxes, near, names,
                squares, numbers, first, m, self._n, n_leaves, width, d=d, k=k,
                UP=(room // width).bit_length() - 1, Q=together, S=LEAF, K=padded(k), CAP=room,
                num_warps=min(8, max(1, room // ENTRIES)), maxnreg=REGISTERS,
            )  # fmt: skip
        return squares, numbers
