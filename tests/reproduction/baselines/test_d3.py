"""The bridge to d3rlpy: nothing lost, nothing shifted, nothing left untrained."""

import sys

import numpy as np
import pytest
import torch
from reproduction.baselines.d3 import METHODS, Batches
from reproduction.baselines.d3_discrete import train_discrete_cql
from reproduction.envs.pendulum import pendulum_grid
from reproduction.tasks.random_agents import cart_pole_random
from reproduction.tasks.scripted_operator import mountain_car_demonstrations

import nopg
from nopg.errors import ConfigError, DataError, MissingExtraError
from reproduction.baselines import train_d3


@pytest.fixture
def one_thread() -> None:
    pytest.importorskip("d3rlpy", reason='needs pip install "nopg[offline-baselines]"')
    torch.set_num_threads(1)


@pytest.mark.usefixtures("one_thread")
def test_batches_hold_whole_transitions_as_they_were() -> None:
    data = nopg.Dataset(*cart_pole_random(120, np.random.default_rng(0)))
    assert 0 < data.terminations.sum() < 60
    batch = Batches.of(data).draw(4000, np.random.default_rng(1))
    columns = (
        batch.observations,
        batch.actions,
        batch.rewards,
        batch.next_observations,
        batch.terminals,
    )
    drawn = np.concatenate(columns, axis=1)
    rows = np.column_stack(
        [data.observations, data.actions, data.rewards, data.next_observations, data.terminations]
    ).astype(np.float32)
    found, counts = np.unique(drawn, axis=0, return_counts=True)
    np.testing.assert_array_equal(found, np.unique(rows, axis=0))  # all, and no other
    assert 10 < counts.min() < counts.max() < 70  # 33 each on average: none preferred


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("method", METHODS)
def test_each_method_makes_exactly_its_updates(method: str) -> None:
    # Torques are -2 and 2 only: d3rlpy would take them for two labels.
    data = nopg.Dataset(*pendulum_grid(6, 6, 2))
    runs = train_d3(method, data, gamma=0.97, n_updates=5, report_every=3, seed=0)
    reports = list(runs)
    assert [r.step for r in reports] == [3, 5]
    actions = reports[-1].act(data.observations)
    assert actions.shape == (72, 1)
    assert np.abs(actions).max() <= 2.0 + 1e-6
    assert np.unique(actions).size > 2


@pytest.mark.usefixtures("one_thread")
def test_cloning_clones() -> None:
    rows = mountain_car_demonstrations()
    demonstrations = nopg.Dataset(*rows)
    direction = np.where(demonstrations.observations[:, 1:] > 0.0, 0.6, -0.6)
    taught = nopg.Dataset(
        demonstrations.observations,
        direction,
        demonstrations.rewards,
        demonstrations.next_observations,
        demonstrations.terminations,
    )
    *_, last = train_d3("BC", taught, gamma=0.99, n_updates=150, report_every=150, seed=0)
    # Only standardised inputs make a velocity of 0.01 visible this soon.
    actions = last.act(np.array([[-0.5, 0.02], [-0.5, -0.02]]))
    np.testing.assert_allclose(actions[:, 0], [0.6, -0.6], atol=0.15)


@pytest.mark.usefixtures("one_thread")
def test_same_seed_same_policy() -> None:
    data = nopg.Dataset(*pendulum_grid(5, 5, 2))

    def final() -> float:
        runs = train_d3("IQL", data, gamma=0.97, n_updates=4, report_every=4, seed=1)
        return float(next(iter(runs)).act(data.observations[:1])[0, 0])

    assert final() == final()


def test_bad_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = nopg.Dataset(*pendulum_grid(5, 5, 2))
    with pytest.raises(ConfigError, match=r"one of BC, TD3\+BC, IQL, CQL"):
        train_d3("PPO", data, gamma=0.97, n_updates=1, report_every=1, seed=0)
    labels = nopg.Dataset(np.zeros((3, 2)), [0, 1, 0], np.zeros(3), np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(DataError, match="discrete labels"):
        train_d3("BC", labels, gamma=0.97, n_updates=1, report_every=1, seed=0)
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    with pytest.raises(MissingExtraError, match=r'pip install "nopg\[offline-baselines\]"'):
        train_d3("BC", data, gamma=0.97, n_updates=1, report_every=1, seed=0)


@pytest.mark.usefixtures("one_thread")
def test_labels_are_learned_where_one_of_them_is_better() -> None:
    generator = np.random.default_rng(0)
    best, labels = generator.integers(2, size=(2, 400))  # what earns 1, what was done
    states = 2.0 * best[:, None] - 1.0  # both labels tried at both of the states
    rewards, ends = (labels == best).astype(float), np.ones(400, dtype=bool)
    data = nopg.Dataset(states, labels, rewards, states, ends)
    runs = train_discrete_cql(data, gamma=0.9, n_updates=250, report_every=200, seed=0)
    reports = list(runs)
    assert [r.step for r in reports] == [200, 250]
    np.testing.assert_array_equal(reports[-1].act(states), best)


def test_labels_are_asked_for() -> None:
    data = nopg.Dataset(*pendulum_grid(4, 4, 2))
    with pytest.raises(DataError, match="integer labels"):
        train_discrete_cql(data, gamma=0.9, n_updates=1, report_every=1, seed=0)
