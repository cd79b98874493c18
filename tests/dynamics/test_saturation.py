"""Saturation against a puck on a track whose ends are known."""

import numpy as np
import pytest
import torch

from nopg.dynamics.bounds import MAX_SHARE, Saturation, StateBounds
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
    saturation, is_saturated = Saturation.of(states, push, after)
    assert saturation.is_low.tolist() == [True, False]
    assert saturation.is_high.tolist() == [True, False]
    assert torch.equal(is_saturated, after[:, 0].abs() == 1.0)
    assert 10 < int(is_saturated.sum()) < MAX_SHARE * len(states)


def test_what_a_stop_does_to_the_speed_is_noted() -> None:
    saturation, _ = Saturation.of(*track())
    assert saturation.is_set[0, 0].tolist() == [False, True]  # dead at the left
    assert float(saturation.set_to[0, 0, 1]) == 0.0
    assert not saturation.is_set[1].any()  # at the right it slips
    low, high = torch.tensor([-1.0, -9.0]), torch.tensor([1.0, 9.0])
    reached = torch.tensor([[-1.5, -0.5], [0.0, -0.5], [1.5, 0.5]]).double()
    stopped = saturation.reset(reached, low.double(), high.double())
    assert stopped.tolist() == [[-1.5, 0.0], [0.0, -0.5], [1.5, 0.5]]


def test_free_motion_does_not_saturate() -> None:
    states, push, after = track()
    is_free = after[:, 0].abs() < 1.0
    saturation, is_saturated = Saturation.of(states[is_free], push[is_free], after[is_free])
    assert not saturation.exists
    assert not is_saturated.any()


def test_one_step_seen_often_is_no_saturation() -> None:
    states, push, after = track()
    is_free = after[:, 0].abs() < 1.0
    hit = torch.nonzero(~is_free)[:1, 0].repeat(5)
    rows = torch.cat([torch.nonzero(is_free)[:, 0], hit])
    saturation, _ = Saturation.of(states[rows], push[rows], after[rows])
    assert not saturation.exists


def test_the_steps_of_an_encoder_are_no_saturation() -> None:
    states, push, after = track()
    is_free = after[:, 0].abs() < 1.0
    coarse = [(20.0 * x[is_free]).round() / 20.0 for x in (states, after)]
    largest = coarse[1].amax(dim=0)
    assert int((coarse[1][:, 0] == largest[0]).sum()) >= 2  # it comes again
    saturation, _ = Saturation.of(coarse[0], push[is_free], coarse[1])
    assert not saturation.exists


def test_a_wall_is_found_in_the_steps_of_an_encoder() -> None:
    states, push, after = track(1000)
    fine = [(500.0 * x).round() / 500.0 for x in (states, after)]
    saturation, _ = Saturation.of(fine[0], push, fine[1])
    assert saturation.is_low.tolist() == [True, False]
    assert saturation.is_high.tolist() == [True, False]


def test_a_flag_does_not_saturate() -> None:
    states, push, after = track()
    flag = (after[:, :1] > 0.0).double()
    with_flag = torch.cat([after, flag], dim=1)
    saturation, is_saturated = Saturation.of(torch.cat([states, flag], dim=1), push, with_flag)
    assert saturation.is_low.tolist() == [True, False, False]
    assert saturation.is_high.tolist() == [True, False, False]
    assert torch.equal(is_saturated, after[:, 0].abs() == 1.0)


def test_a_bound_that_half_of_the_rows_are_at_holds_and_they_are_learned_from() -> None:
    """A sun that is down at night beside a store that fills and empties."""
    states, push, after = track()
    rng = np.random.default_rng(1)
    clock = rng.uniform(0.0, 2.0 * np.pi, size=len(states))
    clouds = rng.uniform(0.3, 1.0, size=len(states))
    suns = [np.maximum(0.0, -np.cos(clock + ahead)) * clouds for ahead in (0.0, 0.2)]
    before, later = (
        torch.cat([x, torch.tensor(sun)[:, None]], dim=1)
        for x, sun in zip((states, after), suns, strict=True)
    )
    saturation, is_saturated = Saturation.of(before, push, later)
    assert saturation.is_low.tolist() == [True, False, True]
    assert saturation.is_high.tolist() == [True, False, False]
    assert saturation.is_usual.tolist() == [[False, False, True], [False, False, False]]
    assert torch.equal(is_saturated, after[:, 0].abs() == 1.0)  # nights are learned from
    bounds, left_out = StateBounds.of(before, push, later)
    assert torch.equal(left_out, is_saturated)
    assert torch.equal(bounds.are_left_out(later), is_saturated)
    assert float(bounds.low[2]) == 0.0
    night = later.mean(dim=0, keepdim=True).clone()
    night[0, 2] = -3.0  # an error of the regression, not a place beyond the data
    assert not bounds.out_of_support_gradient(night).any()


def test_where_nearly_all_is_saturated_nothing_is() -> None:
    states, push, after = track()
    often = after[:, 0].abs() == 1.0
    some = torch.cat([often.nonzero()[:, 0], (~often).nonzero()[:40, 0]])
    saturation, is_saturated = Saturation.of(states[some], push[some], after[some])
    assert not saturation.exists
    assert not is_saturated.any()


def test_a_learned_model_stops_where_the_real_one_does() -> None:
    states, push, after = track()
    rewards = -states[:, 0].square()
    ends = torch.zeros(len(states)).double()
    model = TransitionModel.fit(
        states, push, rewards, after, ends, generator=np.random.default_rng(0)
    )
    new, pushes, truth = track(300, seed=1)
    step = model.step(new, pushes)
    assert (step.next_states - truth).abs().max() < 2e-3
    assert float(step.out_of_support.max()) == 0.0
    # Free motion is linear here, so it is known beyond the track as well.
    free = new[:, 0] + 0.3 * (0.9 * new[:, 1] + 0.1 * pushes[:, 0])
    assert step.reached[:, 0].numpy() == pytest.approx(free.numpy(), abs=1e-6)
