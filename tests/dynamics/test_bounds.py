"""State bounds: Jacobians against differences and autograd, and saturation."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from nopg.dynamics.bounds import MARGIN, StateBounds
from tests.dynamics import reference


def example() -> StateBounds:
    """(cos, position that saturates at its upper end, sin, a fixed column)."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(-3, 3, size=80)
    moved = angle + rng.normal(0.0, 0.1, size=80)
    x = rng.uniform(0, 1, size=80)
    after = np.minimum(x + rng.normal(0.0, 0.2, size=80), 1.0)
    states, next_states = (
        torch.tensor(np.stack([np.cos(a), p, np.sin(a), np.full(80, 7.0)], axis=1))
        for a, p in ((angle, x), (moved, after))
    )
    actions = torch.tensor(rng.normal(size=(80, 1)))
    bounds, is_saturated = StateBounds.of(states, actions, next_states)
    assert torch.equal(is_saturated, next_states[:, 1] == 1.0)
    return bounds


def around(bounds: StateBounds, n: int = 40) -> torch.Tensor:
    """Inside and well beyond the bounds in every dimension."""
    width = bounds.high - bounds.low
    width = torch.where(width > 0.0, width, torch.tensor(1.0))
    rng = np.random.default_rng(3)
    return bounds.low + width * torch.tensor(rng.uniform(-0.3, 1.3, size=(n, 4)))


def middle(bounds: StateBounds) -> torch.Tensor:
    return (0.5 * (bounds.low + bounds.high))[None]


def test_the_margin_is_a_share_of_the_range_and_none_at_saturation() -> None:
    some = [[0.0, 0.0], [1.0, 1.0], [1.5, 2.0], [2.0, 3.0]]
    states = torch.tensor(some * 2).double()
    states[4:, 0] += 0.01  # two different steps end at 5
    states[4:, 1] += 1e-9  # and no others at one value
    after = states + 1.0
    after[[3, 7], 1] = 5.0
    bounds, _ = StateBounds.of(states.double(), torch.zeros(8, 1), after.double())
    width = 3.01
    assert bounds.low.tolist() == pytest.approx([-width * MARGIN, -5 * MARGIN])
    assert bounds.high.tolist() == pytest.approx([width + width * MARGIN, 5.0])
    assert bounds.typical_step.tolist() == pytest.approx([1.0, 1.75**0.5])


def test_gradients_of_leaving_the_data_are_differences() -> None:
    bounds = example()
    points = around(bounds)
    assert float((reference.out_of_support(bounds, points) > 0).double().mean()) > 0.05
    gradient = bounds.out_of_support_gradient(points)
    for d in range(4):
        step = torch.zeros(4).double()
        step[d] = 1e-6
        up, down = (reference.out_of_support(bounds, points + s * step) for s in (1, -1))
        assert torch.allclose(gradient[:, d], (up - down) / 2e-6, atol=1e-6)


def test_the_jacobian_of_projecting_is_that_of_differences() -> None:
    bounds = example()
    points = around(bounds)
    jacobian = bounds.projection_jacobian(points)
    for d in range(4):
        step = torch.zeros(4).double()
        step[d] = 1e-7
        up, down = (reference.projected(bounds, points + s * step) for s in (1, -1))
        assert torch.allclose(jacobian[:, :, d], (up - down) / 2e-7, atol=1e-6)


def test_projecting_keeps_the_angle_and_mends_the_radius() -> None:
    bounds = example()
    assert bounds.angles == ((0, 2),)
    points = around(bounds)
    clipped, projected = bounds.clip(points), reference.projected(bounds, points)
    radius = torch.hypot(projected[:, 0], projected[:, 2])
    assert torch.allclose(radius, torch.ones(40).double(), atol=1e-12)
    before, after = (torch.atan2(s[:, 2], s[:, 0]) for s in (clipped, projected))
    assert torch.allclose(before, after, atol=1e-12)
    assert torch.equal(clipped[:, [1, 3]], projected[:, [1, 3]])
    in_arrays = bounds.project_angles(clipped.numpy())
    assert np.allclose(in_arrays, projected.numpy(), atol=1e-15)


def test_what_has_no_angle_is_only_clipped() -> None:
    rng = np.random.default_rng(1)
    states, after = torch.tensor(rng.normal(size=(2, 30, 3)))
    bounds, _ = StateBounds.of(states, torch.zeros(30, 1), after)
    assert bounds.angles == ()
    inside, far = 0.5 * states, 9.0 * torch.ones(1, 3).double()
    assert torch.equal(reference.projected(bounds, inside), inside)
    assert torch.equal(reference.projected(bounds, far)[0], bounds.high)
    assert np.array_equal(bounds.project_angles(inside.numpy()), inside.numpy())
    eye = torch.eye(3).double().expand(30, 3, 3)
    assert torch.equal(bounds.projection_jacobian(inside), eye)
    assert not bounds.projection_jacobian(far).any()


@pytest.mark.parametrize(
    ("round_off", "angles"),
    [
        (lambda s: s.float().double(), ((0, 1),)),  # single precision is enough
        (lambda s: (100 * s).round() / 100, ()),  # two digits are not
    ],
)
def test_a_column_is_in_one_angle_at_most(
    round_off: Callable[[torch.Tensor], torch.Tensor], angles: tuple[object, ...]
) -> None:
    a = torch.tensor(np.random.default_rng(0).uniform(-3, 3, size=50))
    states = round_off(torch.stack([a.cos(), a.sin(), -a.sin()], dim=1))
    assert StateBounds.of(states, a[:, None], states.flip(0))[0].angles == angles


def test_a_typical_step_beyond_the_data_is_mostly_out_of_support() -> None:
    bounds = example()
    beyond = middle(bounds).repeat(3, 1)
    beyond[1, 1] = bounds.low[1] - bounds.typical_step[1]
    beyond[2, 1] = bounds.low[1] - 4.0 * bounds.typical_step[1]
    expected = [0.0, 1.0 - np.exp(-0.5), 1.0 - np.exp(-8.0)]
    assert reference.out_of_support(bounds, beyond).tolist() == pytest.approx(expected)


def test_what_saturates_stays_in_support() -> None:
    bounds = example()
    assert bounds.saturation.is_high.tolist() == [False, True, False, False]
    assert float(bounds.high[1]) == 1.0
    against = middle(bounds)
    against[0, 1] = 5.0
    assert float(reference.out_of_support(bounds, against)) == 0.0
    assert not bounds.out_of_support_gradient(against).any()
    assert float(reference.projected(bounds, against)[0, 1]) == 1.0
    assert bool(bounds.are_left_out(reference.projected(bounds, against)))
    against[0, 1] = 0.99
    assert not bool(bounds.are_left_out(against))


def test_columns_that_never_move_do_not_divide_by_zero() -> None:
    bounds = example()
    assert bounds.low[3] == bounds.high[3] == 7.0
    assert float(bounds.typical_step[3]) == 1.0
    same = middle(bounds).repeat(2, 1)
    same[1, 3] += 1e-6  # an error of rounding does not leave the data
    assert float(reference.out_of_support(bounds, same).max()) < 1e-11
    assert reference.projected(bounds, same)[:, 3].tolist() == [7.0, 7.0]
