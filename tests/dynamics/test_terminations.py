"""Where episodes terminate: what is learned near ends, and beyond limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg.dynamics.terminations import MAX_POINTS, TerminationModel
from tests.dynamics import reference

FALL = -60.0
STEP = torch.full((4,), 0.1).double()


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
    model = TerminationModel.fit(
        states, torch.ones(310).double(), ended, rng, typical_step=STEP[:2]
    )
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


def slope(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Steps over a slope, which ends them: beyond no limit of a column. Speeds do not matter."""
    states = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 4))
    return torch.tensor(states), torch.tensor((states[:, 0] + states[:, 1] < -0.8).astype(float))


def landings(pay: Callable[[np.ndarray], np.ndarray], usual: float = -0.1) -> TerminationModel:
    """Rows of height and speed; it is over below the ground."""
    rng = np.random.default_rng(0)
    flying = rng.uniform([0.0, -2.0], [10.0, 0.5], (600, 2))
    landed = rng.uniform([-0.1, -2.0], [0.0, -0.5], (30, 2))
    states = torch.tensor(np.concatenate([flying, landed]))
    ended = torch.cat([torch.zeros(600), torch.ones(30)]).double()
    rewards = torch.tensor(np.concatenate([np.full(600, usual), pay(landed[:, 1])]))
    found = TerminationModel.fit(states, rewards, ended, rng)
    assert found is not None
    return found


def test_what_a_landing_pays_depends_on_its_speed() -> None:
    model = landings(lambda speed: 10.0 + 10.0 * speed)
    for speed in (-0.6, -1.0, -1.5, -1.9):
        ended, paid = asked(model, -0.05, speed)
        assert ended > 0.95
        assert paid == pytest.approx(10.0 + 10.0 * speed, abs=1.5)
    assert asked(model, -0.05, -0.1)[1] < 5.1  # no more than was seen, however softly
    # Nobody is paid for hovering as low as some kernels are wide.
    assert asked(model, 0.1, -0.1)[0] < 0.01
    assert asked(model, 0.1, -0.1)[1] < 0.05


def test_by_chance_landings_pay_the_same_everywhere() -> None:
    drawn = np.random.default_rng(1).uniform(-1.0, 1.0, 30)
    model = landings(lambda speed: drawn)
    for speed in (-0.1, -1.0, -1.9):
        assert asked(model, -1.0, speed)[1] == pytest.approx(drawn.mean(), abs=0.3)


@pytest.mark.parametrize("n_hits", [6, 30])
def test_a_goal_in_two_columns_is_as_small_as_it_is_seen_to_be(n_hits: int) -> None:
    """Whoever comes near it at any speed has arrived; kernels as wide as data would pay before."""
    rng = np.random.default_rng(0)
    passing = rng.uniform(-2.0, 2.0, (3000, 4))
    passing = passing[np.hypot(*passing[:, :2].T) > 0.3]
    angle, radius = rng.uniform(0.0, 2.0 * np.pi, n_hits), 0.3 * rng.random(n_hits) ** 0.5
    hits = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    hits = np.hstack([hits, rng.uniform(-2.0, 2.0, (n_hits, 2))])
    states = torch.tensor(rng.permutation(np.concatenate([passing, hits])))
    ended = (states[:, :2].norm(dim=1) < 0.3).double()
    model = TerminationModel.fit(states, 5.0 * ended, ended, rng)
    assert model is not None
    others = torch.tensor(rng.uniform(-2.0, 2.0, (20_000, 4)))
    away = others[:, :2].norm(dim=1)
    found, paid = reference.ends(model, others)
    assert float(found[away < 0.15].mean()) > 0.5
    assert float(found[(away > 0.6) & (away < 1.0)].mean()) < 0.02
    assert float(found[away > 1.0].max()) < 0.2
    assert torch.allclose(paid, 5.0 * found)


def test_behind_a_goal_that_nobody_passed_a_prize_is_in_doubt() -> None:
    """All who came from the left ended there: to the right are no rows at all."""
    rng = np.random.default_rng(0)
    states = rng.uniform([-2.0, -1.0], [0.2, 1.0], (1500, 2))
    is_hit = np.linalg.norm(states, axis=1) < 0.25
    states = states[is_hit | (states[:, 0] < 0.0) | (np.abs(states[:, 1]) > 0.25)]
    is_hit = np.linalg.norm(states, axis=1) < 0.25
    ended = torch.tensor(is_hit).double()
    model = TerminationModel.fit(torch.tensor(states), 10.0 * ended, ended, rng)
    assert model is not None
    assert asked(model, 1.5, 0.0)[1] > 9.0  # by the nearest, far as it is
    assert asked(model.sharper(), 1.5, 0.0)[1] < 1.0
    assert asked(model.sharper(), 0.0, 0.0)[1] > 9.0
    assert asked(model.sharper(), -1.0, 0.0)[1] < 1.0


@pytest.mark.parametrize(("usual", "pay"), [(1.0, 1.0), (1.0, -5.0), (-0.1, -5.0)])
def test_before_ends_that_nobody_seeks_there_is_blur(usual: float, pay: float) -> None:
    """A pole of two links that falls: policies stay as far away as data are apart."""
    rng = np.random.default_rng(0)
    states = torch.tensor(rng.uniform(-2.0, 2.0, (3000, 4)))
    ended = (states[:, :2].norm(dim=1) < 0.5).double()
    rewards = torch.where(ended > 0.0, pay, usual).double()
    model = TerminationModel.fit(states, rewards, ended, rng)
    assert model is not None
    assert torch.equal(model.unit, states.std(dim=0, correction=0))
    sought = TerminationModel.fit(states, rewards - usual - 1.0, ended, rng)  # an end to costs
    assert sought is not None
    assert torch.equal(sought.unit, model.unit) == (pay < usual)


def test_who_crosses_a_limit_slowly_has_a_prize_and_others_a_fine() -> None:
    """Docking: no line tells which, since both sides of a window are fined."""
    rng = np.random.default_rng(0)
    before = rng.uniform([0.0, -1.0], [2.0, 1.0], (1500, 2))
    docked = np.column_stack([rng.uniform(-0.1, 0.0, 60), rng.uniform(-1.0, 1.0, 60)])
    states = torch.tensor(np.concatenate([before, docked]))
    ended = (states[:, 0] < 0.0).double()
    pays = torch.where(states[:, 1].abs() < 0.3, 5.0, -3.0).double()
    rewards = torch.where(ended > 0.0, pays, torch.full_like(pays, -0.01))
    model = TerminationModel.fit(states, rewards, ended, rng)
    assert model is not None
    for speed, pay in ((-0.8, -3.0), (0.0, 5.0), (0.8, -3.0)):
        for depth in (-0.04, -0.15):  # further than anybody was seen, too
            found, paid = asked(model, depth, speed)
            assert found > 0.95
            assert paid == pytest.approx(pay, abs=1.0)
        assert asked(model, 0.1, speed)[0] < 0.05


def test_before_a_fine_there_is_blur_and_before_a_prize_there_is_none() -> None:
    fine, prize = (landings(lambda speed: 10.0 + 10.0 * speed, usual) for usual in (20.0, -0.1))
    assert asked(fine, 0.05, -1.0)[0] > 0.2
    assert asked(prize, 0.05, -1.0)[0] < 0.05


def test_columns_that_tell_nothing_of_ends_are_passed_over() -> None:
    states, ended = slope(900)
    model = TerminationModel.fit(
        states, ended * FALL, ended, np.random.default_rng(0), typical_step=STEP
    )
    assert model is not None
    assert float(model.unit[2:].min()) > 2.0 * float(model.unit[:2].max())
    others, truth = slope(500, seed=1)
    found = reference.ends(model, others)[0]
    wrong = ((found > 0.5) != (truth > 0.5)).double().mean()
    # Kernels of one width for all columns err four times as often.
    unit = states.std(dim=0, correction=0)
    plain = replace(model, unit=unit, points=model.points * model.unit / unit, width=0.4)
    worse = ((reference.ends(plain, others)[0] > 0.5) != (truth > 0.5)).double().mean()
    assert wrong < 0.04
    assert wrong < 0.5 * worse


def test_points_stand_for_the_rows_that_are_left_out() -> None:
    """Where ends are kept and others are not, probabilities are still those of all rows."""
    rng, n = np.random.default_rng(0), 40 * MAX_POINTS
    states = torch.tensor(rng.uniform(-1.0, 1.0, (n, 2)))
    # Ends at random near a corner, so that others lie among them.
    chance = 0.05 * torch.exp(-4.0 * (states - 0.3).square().sum(dim=1))
    ended = (torch.tensor(rng.random(n)) < chance).double()
    model = TerminationModel.fit(states, ended * FALL, ended, rng, typical_step=STEP)
    assert model is not None
    assert len(model.points) == MAX_POINTS
    found = reference.ends(model, states[:2_000])[0]
    assert float(found.mean()) == pytest.approx(float(chance.mean()), rel=0.4)


def test_gradients_count_the_rows_that_points_stand_for() -> None:
    states, ended = slope(3 * MAX_POINTS)
    model = TerminationModel.fit(
        states, ended * FALL, ended, np.random.default_rng(0), typical_step=STEP
    )
    assert model is not None
    assert model.log_counts is not None
    assert float(model.log_counts.max()) > 0.0
    at, size = states[ended > 0.0][:10] + 0.05, 1e-6
    gradients = model.gradients(at)
    for j in range(4):
        step = torch.zeros(4).double()
        step[j] = size
        up, down = (reference.ends(model, at + sign * step) for sign in (1, -1))
        for gradient, high, low in zip(gradients, up, down, strict=True):
            assert torch.allclose(gradient[:, j], (high - low) / (2.0 * size), atol=1e-4)


def test_rows_of_a_part_have_the_widths_of_all() -> None:
    states, ended = slope(900)
    rng = np.random.default_rng(0)
    whole = TerminationModel.fit(states, ended * FALL, ended, rng, typical_step=STEP)
    part = TerminationModel.fit(
        states[:700], ended[:700] * FALL, ended[:700], rng, whole, typical_step=STEP
    )
    assert whole is not None
    assert part is not None
    assert torch.equal(part.unit, whole.unit)


def test_limits_hold_beside_impacts() -> None:
    """Beyond a wall episodes end wherever the slope is, and not before it."""
    states, ended = slope(900)
    ended[states[:, 2] > 0.9] = 1.0
    paid = ended * FALL
    paid[states[:, 2] > 0.9] = -3.0
    model = TerminationModel.fit(states, paid, ended, np.random.default_rng(0), typical_step=STEP)
    assert model is not None
    walls = [one for one in model.limits if one.column == 2]
    assert len(walls) == 1
    assert walls[0].offset / walls[0].slope == pytest.approx(0.9, abs=0.02)
    at = torch.full((21, 4), 0.8).double()
    at[:, 2] = torch.linspace(0.6, 1.0, 21).double()
    found, paid = reference.ends(model, at)
    assert float(found[at[:, 2] < 0.8].max()) < 0.1
    assert float(found[-1]) > 0.7
    assert float(paid[-1] / found[-1]) == pytest.approx(-3.0, rel=0.1)
    gradients, size = model.gradients(at), 1e-6
    for j in range(4):
        step = torch.zeros(4).double()
        step[j] = size
        up, down = (reference.ends(model, at + sign * step) for sign in (1, -1))
        for gradient, high, low in zip(gradients, up, down, strict=True):
            assert torch.allclose(gradient[:, j], (high - low) / (2.0 * size), atol=1e-4)


def test_ends_that_limits_tell_are_no_impacts() -> None:
    """Also where they are far beyond the limit, as where a pole falls within a step."""
    states, _ = slope(900)
    ended = (states[:, 0] > 0.5).double()
    states[:, 0] += 0.5 * ended
    rest = (ended * FALL, ended, np.random.default_rng(0))
    found = TerminationModel.fit(states, *rest, typical_step=STEP)
    assert found is not None
    assert found.limits == ()
    assert torch.equal(found.unit, states.std(dim=0, correction=0))  # no widths of their own
    assert found.log_counts is None
