"""Where the data have been: slopes against differences, walls that lose nothing."""

import numpy as np
import pytest
import torch

from nopg.dynamics.bounds import MARGIN, Box
from nopg.dynamics.saturation import Walls


def example() -> Box:
    """(cos, sin, position with a wall at its upper end, a fixed column)."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(-3, 3, size=80)
    moved = angle + rng.normal(0.0, 0.1, size=80)
    x = rng.uniform(0, 1, size=80)
    after = np.minimum(x + rng.normal(0.0, 0.2, size=80), 1.0)
    states, next_states = (
        torch.tensor(np.stack([np.cos(a), np.sin(a), p, np.full(80, 7.0)], axis=1))
        for a, p in ((angle, x), (moved, after))
    )
    walls, _ = Walls.of(states, torch.tensor(rng.normal(size=(80, 1))), next_states)
    return Box.around(states, next_states, walls)


def around(box: Box, n: int = 40) -> torch.Tensor:
    """Inside and well beyond the box in every dimension."""
    width = torch.where(box.high > box.low, box.high - box.low, torch.tensor(1.0))
    rng = np.random.default_rng(3)
    return box.low + width * torch.tensor(rng.uniform(-0.3, 1.3, size=(n, 4)))


def test_the_margin_is_a_share_of_the_range_and_none_at_walls() -> None:
    states = torch.tensor([[0.0, 0.0], [2.0, 4.0]]).double()
    free = torch.zeros(2, dtype=torch.bool)
    wall = torch.tensor([False, True])
    unset = torch.zeros(2, 2, 2)
    box = Box.around(states, states + 1.0, Walls(free, wall, unset.bool(), unset))
    assert box.low.tolist() == pytest.approx([-3 * MARGIN, -5 * MARGIN])
    assert box.high.tolist() == pytest.approx([3 + 3 * MARGIN, 5.0])
    assert box.pace.tolist() == [1.0, 1.0]


def test_slopes_of_being_lost_are_differences() -> None:
    box = example()
    points = around(box)
    assert float((box.lost(points) > 0).double().mean()) > 0.05
    slope = box.lost_slope(points)
    for d in range(4):
        step = torch.zeros(4).double()
        step[d] = 1e-6
        difference = (box.lost(points + step) - box.lost(points - step)) / 2e-6
        assert torch.allclose(slope[:, d], difference, atol=1e-6)


def test_slopes_of_settling_are_differences() -> None:
    box = example()
    points = around(box)
    slopes = box.settle_slope(points)
    for d in range(4):
        step = torch.zeros(4).double()
        step[d] = 1e-7
        difference = (box.settle(points + step) - box.settle(points - step)) / 2e-7
        assert torch.allclose(slopes[:, :, d], difference, atol=1e-6)


def test_a_step_of_the_usual_pace_beyond_the_data_is_mostly_lost() -> None:
    box = example()
    inside = 0.5 * (box.low + box.high)
    beyond = inside.repeat(3, 1)
    beyond[1, 2] = box.low[2] - box.pace[2]
    beyond[2, 2] = box.low[2] - 4.0 * box.pace[2]
    expected = [0.0, 1.0 - np.exp(-0.5), 1.0 - np.exp(-8.0)]
    assert box.lost(beyond).tolist() == pytest.approx(expected)


def test_walls_stop_and_lose_nothing() -> None:
    box = example()
    assert box.walls.is_high.tolist() == [False, False, True, False]
    assert float(box.high[2]) == 1.0
    against = (0.5 * (box.low + box.high)).repeat(1, 1)
    against[0, 2] = 5.0
    assert float(box.lost(against)) == 0.0
    assert not box.lost_slope(against).any()
    assert float(box.settle(against)[0, 2]) == 1.0
    assert bool(box.are_stopped(box.settle(against)))
    against[0, 2] = 0.99
    assert not bool(box.are_stopped(against))


def test_columns_that_never_move_do_not_divide_by_zero() -> None:
    box = example()
    assert box.low[3] == box.high[3] == 7.0
    assert float(box.pace[3]) == 1.0
    same = (0.5 * (box.low + box.high)).repeat(2, 1)
    same[1, 3] += 1e-6  # an error of rounding is not being lost
    assert float(box.lost(same).max()) < 1e-11
    assert box.settle(same)[:, 3].tolist() == [7.0, 7.0]
