"""Neighbour search by tiles against a k-d tree that shares nothing with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg.errors import ConfigError
from nopg.gpu.nearest import nearest
from nopg.gpu.tiles import Tiles, spatial_order

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def cloud(n: int, d: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """A dense core in a sparse halo, with one point far from everything."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn((n, d), generator=generator, dtype=dtype)
    points[: n // 2] *= 0.05
    points[-1] = 40.0
    return points.to(DEVICE)


def expected_distances(queries: Tensor, samples: Tensor, k: int) -> np.ndarray:
    tree = cKDTree(samples.double().cpu().numpy())
    distances, _ = tree.query(queries.double().cpu().numpy(), k=k)
    return np.asarray(distances).reshape(len(queries), k)


@pytest.mark.parametrize(
    ("m", "n", "d", "k"),
    [
        (500, 4000, 4, 64),
        (300, 1000, 1, 5),
        (257, 900, 6, 100),  # more neighbours than a tile has points
        (1, 700, 3, 8),
        (90, 65, 2, 65),  # all of them
        (10, 3, 2, 1),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lists_are_exact(m: int, n: int, d: int, k: int, dtype: torch.dtype) -> None:
    queries, samples = cloud(m, d, 0, dtype) * 1.3, cloud(n, d, 1, dtype)
    # Few pairs at once: several groups, and lists merged from several parts.
    squares, numbers = nearest(queries, samples, k, pairs=2**17)
    expected = expected_distances(queries, samples, k)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    np.testing.assert_allclose(squares.sqrt().cpu().numpy(), expected, rtol=tolerance)
    there = (queries[:, None] - samples[numbers.long()]).square().sum(dim=2)
    torch.testing.assert_close(there, squares)
    assert numbers.dtype == torch.int32
    assert all(len(set(row)) == k for row in numbers.tolist())


def test_equal_points_are_listed_once_each() -> None:
    samples = torch.zeros((300, 3), device=DEVICE)
    squares, numbers = nearest(samples[:20], samples, 70, pairs=2**16)
    assert bool((squares == 0).all())
    assert all(len(set(row)) == 70 for row in numbers.tolist())


def test_an_ignored_dimension_is_ignored() -> None:
    """A bandwidth of infinity scales its dimension to zero."""
    samples = cloud(400, 3, 2)
    flat = samples * torch.tensor([1.0, 0.0, 1.0], dtype=samples.dtype, device=DEVICE)
    squares, _ = nearest(flat[:50], flat, 9)
    expected = expected_distances(flat[:50, [0, 2]], flat[:, [0, 2]], 9)
    np.testing.assert_allclose(squares.sqrt().cpu().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("k", [0, 11])
def test_a_list_longer_than_the_samples_is_refused(k: int) -> None:
    samples = cloud(10, 2, 3)
    with pytest.raises(ConfigError, match="between 1 and the number of samples"):
        nearest(samples, samples, k)


@pytest.mark.parametrize(("n", "size"), [(1, 8), (8, 8), (1000, 16), (777, 64)])
def test_tiles_hold_every_point_once(n: int, size: int) -> None:
    points = cloud(n, 3, 4)
    tiles = Tiles.of(points, size)
    listed = tiles.points[tiles.points < n]
    assert sorted(listed.tolist()) == list(range(n))
    assert tiles.points.shape[1] <= size
    assert sorted(spatial_order(points, size).tolist()) == list(range(n))


def test_gaps_bound_distances_from_below() -> None:
    mine, its = Tiles.of(cloud(200, 3, 5), 16), Tiles.of(cloud(300, 3, 6), 16)
    gaps = mine.gaps(its)
    a, b = mine.coordinates.permute(1, 2, 0), its.coordinates.permute(1, 2, 0)
    squares = (a[:, None, :, None] - b[None, :, None]).square().sum(-1)
    closest = squares.nan_to_num(torch.inf).amin(dim=(2, 3))
    assert bool((gaps <= closest * (1 + 1e-12)).all())
    assert float((gaps > 0).float().mean()) > 0.3  # and says something


def test_spatial_order_brings_neighbours_together() -> None:
    points = torch.rand((4096, 2), generator=torch.Generator().manual_seed(7))
    order = spatial_order(points.to(DEVICE), 16).cpu()
    steps = points[order].diff(dim=0).norm(dim=1).mean()
    assert float(steps) < 0.1 * float(points.diff(dim=0).norm(dim=1).mean())
