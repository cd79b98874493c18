"""The bridge to stable-baselines3."""

import sys

import gymnasium
import numpy as np
import pytest
import torch
from reproduction.envs.pendulum import Pendulum
from reproduction.envs.registration import register
from reproduction.envs.rollouts import rollout
from reproduction.tasks.random_agents import pendulum_random

import nopg
from nopg.errors import ConfigError, DataError, MissingExtraError
from reproduction.baselines import DdpgConfig, ddpg_offline, ddpg_online
from reproduction.baselines import sb3 as bridge

CONFIG = DdpgConfig(gamma=0.97, actor_learning_rate=1e-3, critic_learning_rate=1e-2, tau=1e-3)


def random_data(n: int = 300) -> nopg.Dataset:
    rows = pendulum_random(n, np.random.default_rng(0))
    return nopg.Dataset(*rows, action_space=Pendulum().action_space)


@pytest.fixture
def one_thread() -> None:
    pytest.importorskip("stable_baselines3", reason='needs pip install "nopg[baselines]"')
    torch.set_num_threads(1)


@pytest.mark.usefixtures("one_thread")
def test_offline_makes_the_updates_asked_for_and_stays_in_range() -> None:
    reports = list(ddpg_offline(random_data(), CONFIG, n_updates=50, report_every=20, seed=0))
    assert [r.step for r in reports] == [20, 40, 50]
    assert reports[-1].seconds >= reports[0].seconds > 0.0
    env = Pendulum()
    record = rollout(env, reports[-1].act, env.reset_states(2, np.random.default_rng(0)), 30)
    assert np.abs(record.actions).max() <= 2.0
    far = reports[-1].act(np.full((1, 3), 1e6))
    assert abs(far[0, 0]) == pytest.approx(2.0)  # 2 tanh, saturated


@pytest.mark.usefixtures("one_thread")
def test_both_rates_networks_and_data_arrive() -> None:
    data = random_data()
    space = bridge._action_space(data, None)
    model = bridge._model(bridge._spaces_only(3, space), CONFIG, 0, len(data))
    bridge._fill(model, data, space)
    bridge._silence(model)
    model.train(gradient_steps=1, batch_size=8)
    assert model.actor.optimizer.param_groups[0]["lr"] == 1e-3
    assert model.critic.optimizer.param_groups[0]["lr"] == 1e-2
    shapes = [tuple(p.shape) for p in model.actor.parameters()]
    assert shapes == [(50, 3), (50,), (1, 50), (1,)]
    shapes = [tuple(p.shape) for p in model.critic.parameters()]
    assert shapes == [(50, 4), (50,), (1, 50), (1,)]
    buffer = model.replay_buffer
    np.testing.assert_allclose(buffer.actions[:, 0], data.actions / 2.0, atol=1e-6)
    np.testing.assert_allclose(buffer.next_observations[:, 0], data.next_observations, atol=1e-6)
    # The cut last row must bootstrap: done, but by a time limit.
    assert buffer.dones[-1, 0] == buffer.timeouts[-1, 0] == 1.0
    predicted, _ = model.predict(data.observations.astype(np.float32), deterministic=True)
    np.testing.assert_array_equal(bridge._act(model)(data.observations), predicted)


@pytest.mark.usefixtures("one_thread")
def test_same_seed_same_policy() -> None:
    def final() -> float:
        runs = ddpg_offline(random_data(), CONFIG, n_updates=20, report_every=20, seed=3)
        return float(next(iter(runs)).act(np.array([[1.0, 0.0, 0.5]]))[0, 0])

    assert final() == final()


@pytest.mark.usefixtures("one_thread")
def test_online_learns_after_each_rollout() -> None:
    register()
    env = gymnasium.make("nopg/PendulumSwingUp-v0")
    reports = list(
        ddpg_online(
            env, CONFIG, n_steps=120, report_every=60, rollout_steps=30, noise_std=0.2, seed=0
        )
    )
    assert [r.step for r in reports] == [60, 120]
    with pytest.raises(ConfigError, match="multiples of `rollout_steps`"):
        ddpg_online(
            env, CONFIG, n_steps=100, report_every=50, rollout_steps=30, noise_std=0.2, seed=0
        )


def test_actions_need_a_range() -> None:
    data = nopg.Dataset(*pendulum_random(50, np.random.default_rng(0)))
    with pytest.raises(DataError, match="known, bounded range"):
        ddpg_offline(data, CONFIG, n_updates=1, report_every=1, seed=0)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingExtraError, match=r'pip install "nopg\[baselines\]"'):
        ddpg_offline(random_data(50), CONFIG, n_updates=1, report_every=1, seed=0)
