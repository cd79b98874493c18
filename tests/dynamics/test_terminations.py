"""Where episodes terminate: what is learned near ends, and beyond limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nopg.dynamics.terminations import MAX_POINTS, TerminationModel
from tests.dynamics import reference

FALL = -60.0


def edge(n_falls: int, has_hole: bool = False) -> TerminationModel:
    """A path of length 1 along an edge at y = 0; walkers fall in its second half."""
    rng = np.random.default_rng(0)
    stays = rng.uniform([0.0, 0.0], [1.0, 0.5], (400, 2))
    falls = rng.uniform([0.5, -0.05], [1.0, 0.0], (n_falls, 2))
    if has_hole:  # ends in the middle of the ground are beyond nothing
        falls = rng.uniform([0.4, 0.2], [0.5, 0.3], (n_falls, 2))
    ended = torch.cat([torch.zeros(400), torch.ones(n_falls)]).double()
    next_states = torch.tensor(np.concatenate([stays, falls]))
    found = TerminationModel.fit(next_states, ended * FALL, ended, rng)
    assert found is not None
    return found


def asked(model: TerminationModel, x: float, y: float) -> tuple[float, float]:
    """Probability of an end, and what it pays."""
    ended, paid = reference.ends(model, torch.tensor([[x, y]]).double())
    return float(ended), float(paid)


def test_a_limit_holds_where_nobody_has_crossed_it() -> None:
    model = edge(12)
    for x in (0.1, 0.3, 0.7):
        assert asked(model, x, -0.05)[0] > 0.95
        assert asked(model, x, -0.05)[1] < 0.95 * FALL
        assert asked(model, x, 0.06)[0] < 0.05
    assert 0.1 < asked(model, 0.1, 0.0)[0] < 0.9  # blurred by as much as data are apart


def test_nothing_ends_short_of_a_limit_where_nobody_was_seen() -> None:
    """Three walkers fell where the others never went: that is no end of the ground."""
    rng = np.random.default_rng(0)
    stays = rng.uniform([0.0, 0.0], [1.0, 0.5], (400, 2))
    stays = stays[(stays > [0.3, 0.2]).any(axis=1)]
    falls = np.array([[0.05, -0.02], [0.1, -0.03], [0.07, -0.01]])
    ended = torch.cat([torch.zeros(len(stays)), torch.ones(3)]).double()
    states = torch.tensor(np.concatenate([stays, falls]))
    model = TerminationModel.fit(states, ended * FALL, ended, rng)
    assert model is not None
    assert asked(model, 0.08, 0.03)[0] < 0.3
    assert asked(model, 0.08, -0.03)[0] > 0.7


def test_two_ends_are_no_limit() -> None:
    assert asked(edge(2), 0.1, -0.05)[0] < 0.05
    assert asked(edge(3), 0.1, -0.05)[0] > 0.95


def test_what_a_single_end_suggests_is_kept_for_doubt() -> None:
    """A sharper model has the limit that one fall suggests, anywhere along the edge."""
    assert asked(edge(1), 0.1, -0.05)[0] < 0.05
    assert asked(edge(1).sharper(), 0.1, -0.05) == pytest.approx((1.0, FALL), rel=0.05)
    assert asked(edge(1).sharper(), 0.1, 0.06)[0] < 0.05
    assert len(edge(12, has_hole=True).sharper().points) == 412  # beyond nothing, no limit


def test_ends_in_the_middle_stay_there() -> None:
    model = edge(12, has_hole=True)
    assert len(model.points) == 412
    assert asked(model, 0.45, 0.25)[0] > 0.5
    assert asked(model, 0.1, -0.05)[0] < 0.05


def test_a_limit_above_is_one_too() -> None:
    """A pole that falls to either side: both limits, at any place of the cart."""
    rng = np.random.default_rng(0)
    upright = rng.uniform([-1.0, -0.2], [1.0, 0.2], (300, 2))
    fallen = np.column_stack([rng.uniform(0.0, 1.0, 10), np.tile([-0.22, 0.22], 5)])
    ended = torch.cat([torch.zeros(300), torch.ones(10)]).double()
    states = torch.tensor(np.concatenate([upright, fallen]))
    model = TerminationModel.fit(states, torch.ones(310).double(), ended, rng)
    assert model is not None
    for lean in (-0.25, 0.25):
        assert asked(model, -0.8, lean)[0] > 0.95
    assert asked(model, -0.8, 0.0)[0] < 0.05


def test_a_limit_that_one_of_many_states_passed_is_none() -> None:
    """Of 6,000 states a sixth become points; all are asked how far one may go."""
    rng = np.random.default_rng(0)
    stays = rng.uniform([0.0, 0.0], [1.0, 0.5], (6000, 2))
    stays[0] = [0.2, -0.06]
    falls = rng.uniform([0.5, -0.05], [1.0, 0.0], (12, 2))
    ended = torch.cat([torch.zeros(6000), torch.ones(12)]).double()
    next_states = torch.tensor(np.concatenate([stays, falls]))
    model = TerminationModel.fit(next_states, ended * FALL, ended, rng)
    assert model is not None
    assert len(model.points) == MAX_POINTS  # nothing was mirrored
