"""Walls against a puck on a track whose ends are known."""

import numpy as np
import pytest
import torch

from nopg.dynamics.saturation import MAX_SHARE, Walls
from nopg.dynamics.transition_model import TransitionModel

Columns = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def slid(states: np.ndarray, push: np.ndarray) -> np.ndarray:
    """One step of the puck: its left end stops it dead, at its right end it slips."""
    x, v = states.T
    v = 0.9 * v + 0.1 * push[:, 0]
    x = x + 0.3 * v
    v = np.where(x <= -1.0, 0.0, v)
    return np.stack([np.clip(x, -1.0, 1.0), v], axis=1)


def track(n: int = 400, seed: int = 0) -> Columns:
    rng = np.random.default_rng(seed)
    states = rng.uniform([-1, -0.8], [1, 0.8], size=(n, 2))
    push = rng.uniform(-1, 1, size=(n, 1))
    rows = (states, push, slid(states, push))
    return tuple(torch.tensor(x) for x in rows)  # type: ignore[return-value]


def test_the_ends_of_a_track_are_found_and_its_speeds_are_not() -> None:
    states, push, after = track()
    walls, stopped = Walls.of(states, push, after)
    assert walls.is_low.tolist() == [True, False]
    assert walls.is_high.tolist() == [True, False]
    assert torch.equal(stopped, after[:, 0].abs() == 1.0)
    assert 10 < int(stopped.sum()) < MAX_SHARE * len(states)


def test_what_a_stop_does_to_the_speed_is_noted() -> None:
    walls, _ = Walls.of(*track())
    assert walls.is_set[0, 0].tolist() == [False, True]  # dead at the left
    assert float(walls.set_to[0, 0, 1]) == 0.0
    assert not walls.is_set[1].any()  # at the right it slips
    low, high = torch.tensor([-1.0, -9.0]), torch.tensor([1.0, 9.0])
    reached = torch.tensor([[-1.5, -0.5], [0.0, -0.5], [1.5, 0.5]]).double()
    stopped = walls.stop(reached, low.double(), high.double())
    assert stopped.tolist() == [[-1.5, 0.0], [0.0, -0.5], [1.5, 0.5]]


def test_free_motion_meets_no_wall() -> None:
    states, push, after = track()
    is_free = after[:, 0].abs() < 1.0
    walls, stopped = Walls.of(states[is_free], push[is_free], after[is_free])
    assert not walls.are_there
    assert not stopped.any()


def test_one_step_seen_often_is_no_wall() -> None:
    states, push, after = track()
    is_free = after[:, 0].abs() < 1.0
    hit = torch.nonzero(~is_free)[:1, 0].repeat(5)
    rows = torch.cat([torch.nonzero(is_free)[:, 0], hit])
    walls, _ = Walls.of(states[rows], push[rows], after[rows])
    assert not walls.are_there


def test_a_flag_is_no_wall() -> None:
    states, push, after = track()
    flag = (after[:, :1] > 0.0).double()
    with_flag = torch.cat([after, flag], dim=1)
    walls, stopped = Walls.of(torch.cat([states, flag], dim=1), push, with_flag)
    assert walls.is_low.tolist() == [True, False, False]
    assert walls.is_high.tolist() == [True, False, False]
    assert torch.equal(stopped, after[:, 0].abs() == 1.0)


def test_where_nearly_all_is_stopped_nothing_is() -> None:
    states, push, after = track()
    often = after[:, 0].abs() == 1.0
    some = torch.cat([often.nonzero()[:, 0], (~often).nonzero()[:40, 0]])
    walls, stopped = Walls.of(states[some], push[some], after[some])
    assert not walls.are_there
    assert not stopped.any()


def test_a_learned_system_stops_where_the_real_one_does() -> None:
    states, push, after = track()
    rewards = -states[:, 0].square()
    ends = torch.zeros(len(states)).double()
    model = TransitionModel.fit(
        states, push, rewards, after, ends, generator=np.random.default_rng(0)
    )
    new, pushes, truth = track(300, seed=1)
    step = model.step(new, pushes)
    assert (step.next_states - truth).abs().max() < 2e-3
    assert float(step.lost.max()) == 0.0
    # Free motion is linear here, so it is known beyond the wall as well.
    free = new[:, 0] + 0.3 * (0.9 * new[:, 1] + 0.1 * pushes[:, 0])
    assert step.reached[:, 0].numpy() == pytest.approx(free.numpy(), abs=1e-6)
