"""DPG where its critic can be right: x' = B u, so that Q has no mixed term."""

import numpy as np
import pytest
import torch
from reproduction.tasks.lqr import Lqr
from torch import Tensor, nn

import nopg
from nopg.errors import ConfigError, DataError, SolverError
from reproduction.baselines import DpgConfig, QuadraticCritic, acting, train_dpg

ENV = Lqr(A=np.zeros((2, 2)), B=np.diag([0.8, 0.6]))
GAIN = np.array([[0.9, 0.2], [-0.1, 0.7]])


class Linear(nn.Module):
    def __init__(self, gain: np.ndarray) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain, dtype=torch.float64))

    def forward(self, states: Tensor) -> Tensor:
        return states @ self.gain.T


def some_data(n: int = 300) -> nopg.Dataset:
    generator = np.random.default_rng(0)
    states, actions = generator.standard_normal((2, n, 2))
    step = ENV.step(states, actions)
    return nopg.Dataset(states, actions, step.rewards, step.next_states, np.zeros(n))


def config(learning_rate: float) -> DpgConfig:
    return DpgConfig(gamma=0.9, learning_rate=learning_rate, critic_learning_rate=0.02, tau=0.2)


def value_matrix() -> np.ndarray:
    """P of V(x) = x' P x / 2, by iterating its definition."""
    loop, stage = ENV.B @ GAIN, ENV.Q + GAIN.T @ ENV.R @ GAIN
    P = np.zeros((2, 2))
    for _ in range(2000):
        P = stage + 0.9 * loop.T @ P @ loop
    return P


def test_critic_and_gradient_are_the_true_ones_when_they_can_be() -> None:
    data, policy, critic = some_data(), Linear(GAIN), QuadraticCritic(2, 2)
    *_, last = train_dpg(policy, critic, data, config(0.0), n_updates=900)
    P = value_matrix()
    of_state = critic.Q.detach().numpy()
    of_action = critic.R.detach().numpy()
    np.testing.assert_allclose(of_state + of_state.T, ENV.Q, atol=1e-4)
    expected = ENV.R + 0.9 * ENV.B.T @ P @ ENV.B
    np.testing.assert_allclose(of_action + of_action.T, expected, atol=1e-4)
    # Semi-gradient: (R + gamma B' P B) K E[x x'] over the data's states.
    moment = data.observations.T @ data.observations / len(data)
    np.testing.assert_allclose(
        last.gradient.numpy().reshape(2, 2), expected @ GAIN @ moment, rtol=1e-3
    )
    np.testing.assert_array_equal(policy.gain.detach().numpy(), GAIN)


def test_policy_moves_to_the_optimum() -> None:
    # With x' = B u every input only costs: the best gain is zero.
    policy = Linear(GAIN)
    updates = list(
        train_dpg(policy, QuadraticCritic(2, 2), some_data(), config(0.01), n_updates=400)
    )
    assert policy.gain.detach().abs().max() < 0.05
    assert updates[-1].critic_loss < updates[0].critic_loss
    assert len(updates) == 400


def test_terminated_rows_do_not_bootstrap() -> None:
    data = some_data()
    ended = nopg.Dataset(
        data.observations, data.actions, data.rewards, data.next_observations, np.ones(len(data))
    )
    critic = QuadraticCritic(2, 2)
    list(train_dpg(Linear(GAIN), critic, ended, config(0.0), n_updates=900))
    np.testing.assert_allclose(2 * critic.R.detach().numpy(), ENV.R, atol=1e-4)


def test_policies_act_on_arrays() -> None:
    states = np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_allclose(acting(Linear(GAIN))(states), states @ GAIN.T)


def test_bad_input_is_named() -> None:
    labels = nopg.Dataset(np.zeros((3, 2)), [0, 1, 0], np.zeros(3), np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(DataError, match="needs continuous actions"):
        next(train_dpg(Linear(GAIN), QuadraticCritic(2, 2), labels, config(0.1), n_updates=1))
    with pytest.raises(ConfigError, match="gamma in"):
        DpgConfig(gamma=1.0, learning_rate=0.1, critic_learning_rate=0.1, tau=0.1)
    huge = QuadraticCritic(2, 2)
    with torch.no_grad():
        huge.Q.fill_(1e200)
    with pytest.raises(SolverError, match="critic must stay finite"):
        next(train_dpg(Linear(GAIN), huge, some_data(), config(0.1), n_updates=1))
