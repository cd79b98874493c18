"""Cosines and sines: found, put back on their circle, slopes against autograd."""

import numpy as np
import torch

from nopg.dynamics.angles import Angles


def two_joints() -> torch.Tensor:
    """(cos a, speed, sin a, cos b, sin b)."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-3, 3, size=(2, 50))
    columns = [np.cos(a), rng.standard_normal(50), np.sin(a), np.cos(b), np.sin(b)]
    return torch.tensor(np.stack(columns, axis=1))


def off_circle() -> torch.Tensor:
    rng = np.random.default_rng(1)
    return two_joints() * torch.tensor(rng.uniform(0.5, 1.5, size=(50, 5)))


def test_pairs_are_found_wherever_they_are() -> None:
    angles = Angles.of(two_joints())
    assert (angles.first, angles.second) == ((0, 3), (2, 4))


def test_single_precision_is_precise_enough_and_two_digits_are_not() -> None:
    assert Angles.of(two_joints().float().double()).first == (0, 3)
    assert Angles.of((two_joints() * 100).round() / 100).first == ()


def test_columns_that_stand_still_are_no_angle() -> None:
    still = torch.tensor([[1.0, 0.0]]).double().repeat(20, 1)
    assert Angles.of(still).first == ()


def test_a_column_is_in_one_pair_only() -> None:
    x = two_joints()
    twice = torch.cat([x[:, [0, 2]], -x[:, [2]]], dim=1)  # cos, sin, -sin
    assert Angles.of(twice) == Angles((0,), (1,))


def test_settling_keeps_the_angle_and_mends_the_radius() -> None:
    angles, x = Angles.of(two_joints()), off_circle()
    settled = angles.settle(x)
    for i, j in ((0, 2), (3, 4)):
        radius = torch.hypot(settled[:, i], settled[:, j])
        assert torch.allclose(radius, torch.ones(50).double(), atol=1e-12)
        before, after = (torch.atan2(y[:, j], y[:, i]) for y in (x, settled))
        assert torch.allclose(before, after, atol=1e-12)
    assert torch.equal(settled[:, 1], x[:, 1])
    assert np.allclose(angles.settle_array(x.numpy()), settled.numpy(), atol=1e-15)


def test_what_has_no_angle_is_left_alone() -> None:
    none, x = Angles((), ()), off_circle()
    assert none.settle(x) is x
    assert np.array_equal(none.settle_array(x.numpy()), x.numpy())
    assert torch.equal(none.slopes(x), torch.eye(5).double().expand(50, 5, 5))


def test_slopes_are_those_of_autograd() -> None:
    angles, x = Angles.of(two_joints()), off_circle()[:10]
    slopes = angles.slopes(x)
    for row, slope in zip(x, slopes, strict=True):
        truth = torch.autograd.functional.jacobian(  # type: ignore[no-untyped-call]
            lambda s: angles.settle(s[None])[0], row
        )
        assert torch.allclose(slope, truth, atol=1e-12)
