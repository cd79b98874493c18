"""Neighbour search against a k-d tree that shares nothing with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not available on this platform")

from nopg.errors import ConfigError
from nopg.gpu import nearest
from nopg.gpu.nearest import NearestSamples
from nopg.gpu.tiles import Tree, spatial_order

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
        (14, 600, 4, 64),
        (14, 200, 1, 5),
        (9, 300, 6, 100),  # more neighbours than a leaf has points
        (1, 700, 3, 8),
        (14, 65, 2, 65),  # all of them
        (10, 3, 2, 1),
        (2, 950, 2, 900),  # one query fills a program
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lists_are_exact(
    m: int, n: int, d: int, k: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "PROGRAMS", 3)  # several launches
    queries, samples = cloud(m, d, 0, dtype) * 1.3, cloud(n, d, 1, dtype)
    squares, numbers = NearestSamples(samples).search(queries, k)
    expected = expected_distances(queries, samples, k)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    found = squares.sqrt().sort(dim=1).values.cpu().numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance)
    there = (queries[:, None] - samples[numbers.long()]).square().sum(dim=2)
    torch.testing.assert_close(there, squares)
    assert numbers.dtype == torch.int32
    assert bool((numbers.diff(dim=1) > 0).all())  # ascending, each once


def test_equal_points_are_listed_once_each() -> None:
    samples = torch.zeros((300, 3), device=DEVICE)
    squares, numbers = NearestSamples(samples).search(samples[:6], 70)
    assert bool((squares == 0).all())
    assert all(len(set(row)) == 70 for row in numbers.tolist())


def test_an_ignored_dimension_is_ignored() -> None:
    """A bandwidth of infinity scales its dimension to zero."""
    samples = cloud(400, 3, 2)
    flat = samples * torch.tensor([1.0, 0.0, 1.0], dtype=samples.dtype, device=DEVICE)
    squares, _ = NearestSamples(flat).search(flat[:16], 9)
    expected = expected_distances(flat[:16, [0, 2]], flat[:, [0, 2]], 9)
    found = squares.sqrt().sort(dim=1).values.cpu().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("k", [0, 11])
def test_a_list_longer_than_the_samples_is_refused(k: int) -> None:
    samples = cloud(10, 2, 3)
    with pytest.raises(ConfigError, match="between 1 and 10 samples"):
        NearestSamples(samples).search(samples, k)


@pytest.mark.filterwarnings("ignore:overflow")
def test_samples_beyond_all_measure_are_listed_too() -> None:
    """Their squared distance is no number of single precision."""
    samples = torch.tensor([[0.0], [1.0], [1e25], [2e25]], device=DEVICE)
    _, numbers = NearestSamples(samples).search(samples[:1], 4)
    assert sorted(numbers[0].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(("n", "size"), [(1, 8), (8, 8), (1000, 16), (777, 64)])
def test_leaves_hold_every_point_once(n: int, size: int) -> None:
    points = cloud(n, 3, 4)
    tree = Tree.of(points, size)
    listed = tree.points[tree.points < n]
    assert sorted(listed.tolist()) == list(range(n))
    assert tree.points.shape[1] <= size
    assert sorted(spatial_order(points, size).tolist()) == list(range(n))


def test_boxes_hold_what_lies_below_them() -> None:
    points = cloud(150, 3, 5)
    tree = Tree.of(points, 8)
    n_leaves = len(tree.points)
    assert tree.boxes.shape == (2 * n_leaves, 6)
    for node in range(1, 2 * n_leaves):
        first, last = node, node
        while first < n_leaves:
            first, last = 2 * first, 2 * last + 1
        inside = tree.points[first - n_leaves : last - n_leaves + 1].reshape(-1).long()
        some = points[inside[inside < 150]]
        if len(some):
            torch.testing.assert_close(tree.boxes[node, :3], some.amin(dim=0))
            torch.testing.assert_close(tree.boxes[node, 3:], some.amax(dim=0))
        else:
            assert bool((tree.boxes[node, :3] == torch.inf).all())


def test_spatial_order_brings_neighbours_together() -> None:
    points = torch.rand((4096, 2), generator=torch.Generator().manual_seed(7))
    order = spatial_order(points.to(DEVICE), 16).cpu()
    steps = points[order].diff(dim=0).norm(dim=1).mean()
    assert float(steps) < 0.1 * float(points.diff(dim=0).norm(dim=1).mean())
