"""A learned model: bounds of what can be earned, terminations and their gradients."""

import numpy as np
import pytest
import torch

from nopg.algorithms.search.refinement import attainable_return
from nopg.data.dataset import Dataset
from nopg.dynamics import terminations
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.terminations import TerminationModel, continuing_rewards
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from tests.dynamics import reference


def rows(n: int = 80, *, ends: bool, offset: float = 0.0) -> list[torch.Tensor]:
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, size=(n, 2)), rng.uniform(-1, 1, size=(n, 1))
    after = states + 0.2 * actions
    is_end = (after[:, 0] > 0.7) & ends
    columns = (states, actions, states[:, 0] + offset, after, is_end)
    return [torch.tensor(np.asarray(c, dtype=np.float64)) for c in columns]


def learned(*, ends: bool, offset: float = 0.0) -> TransitionModel:
    columns = rows(ends=ends, offset=offset)
    return TransitionModel.fit(*columns, generator=np.random.default_rng(0))


@pytest.mark.parametrize("offset", [-5.0, 0.0, 5.0])
@pytest.mark.parametrize("ends", [False, True])
def test_no_sequence_of_rewards_seen_leaves_the_bounds(ends: bool, offset: float) -> None:
    model, gamma = learned(ends=ends, offset=offset), 0.8
    seen = rows(ends=ends, offset=offset)[2].numpy()
    discounts = gamma ** np.arange(400)
    lowest, highest = (discounts * seen.min()).sum(), (discounts * seen.max()).sum()
    least, most = model.value_limits(gamma)[0], attainable_return(model, gamma, 1e-12)
    assert least == pytest.approx(min(0.0, lowest) if ends else lowest)
    highest = max(0.0, highest) if ends else highest
    assert most == pytest.approx(highest - 1e-4 * abs(highest))


def test_what_an_end_costs_is_paid_once() -> None:
    columns = rows(ends=True, offset=0.0)
    columns[2] = torch.where(columns[4] > 0.0, -50.0, columns[2])
    model = TransitionModel.fit(*columns, generator=np.random.default_rng(0))
    lowest = float(columns[2][columns[4] == 0.0].min())
    assert model.value_limits(0.8)[0] == -50.0
    assert model.value_limits(0.999)[0] == pytest.approx(1_000.0 * lowest)


def test_terminations_are_those_of_the_neighbours() -> None:
    model = learned(ends=True)
    assert model.termination is not None
    states = torch.tensor([[1.0, 0.0], [-0.5, 0.0]]).double()
    at_end, elsewhere = reference.ends(model.termination, states)[0].tolist()
    assert at_end > 0.9
    assert elsewhere < 1e-3
    assert learned(ends=False).termination is None


def test_the_gradient_of_a_termination_is_a_difference() -> None:
    termination = learned(ends=True).termination
    assert termination is not None
    states = torch.tensor([[0.68, 0.1], [0.75, -0.3], [0.6, 0.5]]).double()
    gradients = termination.gradients(states)
    for d in range(2):
        step = torch.zeros(2).double()
        step[d] = 1e-6
        up, down = (reference.ends(termination, states + s * step) for s in (1, -1))
        for gradient, high, low in zip(gradients, up, down, strict=True):
            assert torch.allclose(gradient[:, d], (high - low) / 2e-6, atol=1e-6)


def test_of_many_points_the_border_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminations, "MAX_POINTS", 60)
    rng = np.random.default_rng(0)
    after = torch.tensor(rng.uniform(-1, 1, size=(2000, 1)))
    ended = (after[:, 0] > 0.5).double()
    found = TerminationModel.fit(
        after, after[:, 0], ended, rng, typical_step=torch.ones(1).double()
    )
    assert found is not None
    # A third of them are ends; images on the other side of the limit come on top.
    assert int((found.is_terminal[:60] == 0.0).sum()) == 40
    where = torch.linspace(-1, 1, 201)[:, None].double()
    wrong = (reference.ends(found, where)[0] > 0.5) != (where[:, 0] > 0.5)
    assert all(abs(x - 0.5) < 0.05 for x in where[wrong, 0].tolist())


def test_a_prize_for_terminating_belongs_to_the_termination() -> None:
    states, actions, rewards, after, ends = rows(200, ends=True)
    rewards = torch.full_like(rewards, -0.1)
    rewards[ends > 0] = 100.0
    continuing = continuing_rewards(torch.cat([states, actions], dim=1), rewards, ends)
    assert continuing.tolist() == [-0.1] * 200
    model = TransitionModel.fit(
        states, actions, rewards, after, ends, generator=np.random.default_rng(0)
    )
    push = torch.tensor([[1.0], [0.0]]).double()
    step = model.step(torch.tensor([[0.75, 0.0], [-0.5, 0.0]]).double(), push)
    expected = 100.0 * step.terminated - 0.1 * (1.0 - step.terminated)
    assert step.rewards.tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert float(step.terminated[0]) > 0.95
    assert float(step.terminated[1]) < 1e-6
    assert step.continuing_rewards.tolist() == pytest.approx([-0.1, -0.1], abs=1e-6)


def test_uncertainty_is_small_among_the_data_and_one_far_away() -> None:
    states, actions, _, after, ends = rows(ends=False)
    curved = torch.sin(3 * states[:, 0])
    model = TransitionModel.fit(
        states, actions, curved, after, ends, generator=np.random.default_rng(0)
    )
    known, unknown = (model.uncertainty(states, actions), model.uncertainty(states + 90, actions))
    assert float(known.max()) < 0.1
    assert unknown.numpy() == pytest.approx(1.0, abs=1e-3)


def test_the_second_model_knows_a_part_and_has_the_same_bounds() -> None:
    states, actions, rewards, after, ends = (c.numpy() for c in rows(ends=True))
    data = Dataset(states, actions, rewards, after, ends.astype(bool))
    whole, part = fit_ensemble(data, np.random.default_rng(0))
    assert part.bounds is whole.bounds
    assert part.rewards == whole.rewards
    assert part.termination is not None
    assert whole.termination is not None
    # Images on the other side of limits come after the rows.
    every, some = whole.termination.is_terminal[:80], part.termination.is_terminal[:64]
    assert int(every.sum()) == int(ends.sum())
    assert 0.7 * int(ends.sum()) < int(some.sum()) < int(ends.sum())


def test_labels_become_one_hot_rows() -> None:
    states, _, rewards, after, ends = (c.numpy() for c in rows(6, ends=False))
    labels = np.array([0, 2, 1, 2, 0, 1])
    data = Dataset(states, labels, rewards, after, ends.astype(bool))
    assert torch.equal(regression_actions(data), torch.eye(3).double()[labels])


def test_what_is_paid_where_motion_is_stopped_is_learned() -> None:
    """A store that is empty sells nothing; rows that end there are no free motion."""
    rng = np.random.default_rng(2)
    levels = torch.from_numpy(rng.uniform(0.0, 1.0, size=(400, 1)))
    levels[:60] = 0.0
    bought = torch.from_numpy(rng.uniform(-0.3, 0.3, size=(400, 1)))
    after = (levels + bought).clamp(0.0, 1.0)
    rewards = (levels - after)[:, 0]  # what is sold
    ends = torch.zeros(400, dtype=torch.bool)
    model = TransitionModel.fit(levels, bought, rewards, after, ends, generator=rng)
    assert bool(model.bounds.saturation.is_low[0])
    places = torch.zeros(20, 1).double()
    sales = torch.linspace(-0.3, -0.1, 20).double()[:, None]
    found = model.step(places, sales)
    assert float(found.rewards.abs().max()) < 0.03  # not up to 0.3
    assert float(found.next_states.abs().max()) < 1e-6
