"""Model rollouts against autograd through time, and against the real system."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from reproduction.envs.mountain_car import MountainCar
from reproduction.envs.pendulum import Pendulum, pendulum_grid
from reproduction.envs.rollouts import rollout
from reproduction.tasks.scripted_operator import mountain_car_demonstrations

from nopg.discount import discount_horizon
from nopg.dynamics.rollouts import AT_REST, BLOCK, model_rollout, rollout_gradients, tail_weights
from nopg.dynamics.transition_model import TransitionModel
from nopg.policies.arrays import ArrayPolicies
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy
from tests.dynamics import reference


def learned(rows: Sequence[Any]) -> TransitionModel:
    columns = [torch.tensor(np.asarray(c, dtype=np.float64)) for c in rows[:5]]
    return TransitionModel.fit(*columns, generator=np.random.default_rng(0))


def small_policy(d_s: int, bound: float) -> Policy:
    limit = torch.tensor([bound], dtype=torch.float64)
    spec = PolicySpec(kind="deterministic", n_states=d_s, n_outputs=1, hidden=(8,))
    return spec.build(torch.Generator().manual_seed(1), -limit, limit)


def through_time(
    model: TransitionModel,
    policy: Policy,
    starts: torch.Tensor,
    gamma: float,
    T: int,
    draws: torch.Tensor | None = None,
    credit: float = 1.0,
) -> torch.Tensor:
    """The same return of each start with a graph over all steps, for autograd.

    A credit below 1 is the share of each state that is no constant in the graph.
    """
    here, alive = starts, torch.ones(len(starts)).double()
    total = torch.zeros_like(alive)
    for t in range(T):
        step = reference.step(model, here, policy.act(here), None if draws is None else draws[t])
        total = total + gamma**t * alive * step.rewards
        alive = alive * (1 - step.terminated)
        worst = gamma ** (t + 1) * model.value_limits(gamma)[0]
        total = total + worst * alive * step.out_of_support
        alive, here = alive * (1 - step.out_of_support), step.next_states
        here = credit * here + (1.0 - credit) * here.detach()
    return total


@pytest.mark.parametrize("task", ["pendulum", "mountain-car"])
def test_the_gradient_is_that_of_autograd_through_time(task: str) -> None:
    if task == "pendulum":
        model, policy = learned(pendulum_grid(8, 8, 2)), small_policy(3, 2.0)
        starts = torch.tensor([[-1.0, 0, 0], [0.3, 0.9, 1.0]]).double()
    else:
        rows = mountain_car_demonstrations()
        model = learned(tuple(column[-300:] for column in rows[:5]))
        policy = small_policy(2, 1.0)
        starts = torch.tensor(rows.observations[-25:-20])  # near an end
    other = copy.deepcopy(policy)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(-0.5)
    team = [policy, other]
    gradients = rollout_gradients(model, team, starts.numpy(), 0.97, 30)
    # Without noise weights of 1e8 cancel to what is left: each step is rounded by a last digit of
    # them, otherwise in every order of the sum.
    weights = model.process.weights.abs().sum(dim=1).amax()
    rounding = float(torch.finfo(torch.float64).eps * weights) * sum(0.97**t for t in range(30))
    for each, gradient in zip(team, gradients, strict=True):
        expected = through_time(model, each, starts, 0.97, 30).mean()
        predicted = model_rollout(
            model, ArrayPolicies([each]), starts.numpy(), 0.97, 30
        ).returns.mean()
        assert float(predicted) == pytest.approx(float(expected.detach()), rel=1e-10, abs=rounding)
        slopes = torch.autograd.grad(expected, list(each.parameters()))
        for ours, theirs in zip(gradient, slopes, strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("worst_share", [1.0, 0.4])
def test_the_gradient_along_noisy_paths_is_that_of_autograd(worst_share: float) -> None:
    rng, n = np.random.default_rng(0), 150
    s, a = rng.uniform(-1.0, 1.0, (2, n, 1))
    w = 0.1 * np.exp(s) * rng.standard_normal((n, 1))  # more of it to the right
    ends = s[:, 0] + w[:, 0] > 0.9
    rows = [s, a, -(s[:, 0] ** 2), 0.9 * s + 0.2 * a + w, ends]
    model, policy = learned(rows), small_policy(1, 1.0)
    assert model.noise is not None
    starts = np.linspace(-0.5, 0.5, 5)[:, None]
    draws = rng.standard_normal((20, 5, 1))
    returns = through_time(model, policy, torch.tensor(starts), 0.95, 20, torch.tensor(draws))
    count = round(worst_share * 5)
    expected = returns.sort().values[:count].mean()
    slopes = torch.autograd.grad(expected, list(policy.parameters()))
    (gradient,) = rollout_gradients(model, [policy], starts, 0.95, 20, draws, worst_share)
    for ours, theirs in zip(gradient, slopes, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    found = returns.detach().numpy()[None]
    weighted = (tail_weights(found, worst_share) * found).sum()
    assert weighted == pytest.approx(float(expected.detach()))


def test_an_action_answers_for_as_many_steps_as_its_credit() -> None:
    model, start = learned(pendulum_grid(8, 8, 2)), torch.tensor([[0.3, 0.9, 1.0]])
    team = [small_policy(3, 2.0)] * 2
    gradients = rollout_gradients(
        model, team, start.numpy().astype(float), 0.97, 30, credits=[1.0, 0.8]
    )
    for credit, gradient in zip((1.0, 0.8), gradients, strict=True):
        rest = (0.97, 30, None, credit)
        expected = through_time(model, team[0], start.double(), *rest).sum()
        slopes = torch.autograd.grad(expected, list(team[0].parameters()))
        for ours, theirs in zip(gradient, slopes, strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    assert not torch.allclose(gradients[0][0], gradients[1][0], rtol=0.05)


def test_an_evened_gradient_follows_no_single_path() -> None:
    rng, n = np.random.default_rng(0), 200
    s, a = rng.uniform(-1.0, 1.0, (2, n, 1))
    after = 0.5 * s + 0.2 * a + 0.2 * rng.standard_normal((n, 1))
    model = learned([s, a, s[:, 0] ** 3, after, np.zeros(n)])
    team, starts, draws = [small_policy(1, 1.0)], np.zeros((3, 1)), np.zeros((4, 3, 1))
    draws[0, 2] = 4.0  # one of three is carried to where rewards are steep

    def gradient(paths: slice, is_evened: bool = False) -> torch.Tensor:
        rest = (0.9, 4, draws[:, paths], 1.0, [1.0] if is_evened else None)
        ((first, *_),) = rollout_gradients(model, team, starts[paths], *rest)
        return first

    calm, blown = gradient(slice(0, 1)), gradient(slice(2, 3))
    assert float(blown.norm()) > 3.0 * float(calm.norm())
    mean, evened = gradient(slice(None)), gradient(slice(None), is_evened=True)
    assert torch.allclose(mean, (2.0 * calm + blown) / 3.0)
    assert float(evened.norm()) < 0.5 * float(mean.norm())


def test_a_worst_share_between_two_counts_is_the_tail_integral() -> None:
    returns = np.array([[3.0, 1.0, 2.0, 4.0]])
    # The worst 0.4 of four: 1 whole and 0.6 of the next.
    expected = (1.0 + 0.6 * 2.0) / 1.6
    found = (tail_weights(returns, 0.4) * returns).sum()
    assert found == pytest.approx(expected)
    assert tail_weights(returns, 1.0).tolist() == [[0.25] * 4]
    assert (tail_weights(returns, 0.01) * returns).sum() == pytest.approx(1.0)


def test_predicted_pendulum_returns_are_the_real_ones() -> None:
    model, policy = learned(pendulum_grid(10, 10, 2)), small_policy(3, 2.0)
    env = Pendulum()
    state = env.reset_states(1, np.random.default_rng(0))
    real = rollout(env, lambda s: policy(torch.tensor(s)).detach().numpy(), state, 100)
    discounts = 0.97 ** np.arange(100)
    truth = float((real.rewards[0] * discounts).sum())
    found = model_rollout(model, ArrayPolicies([policy]), env.observe(state), 0.97, 100)
    assert float(found.returns[0]) == pytest.approx(truth, rel=0.05)


def test_rollouts_end_where_episodes_end() -> None:
    rows = mountain_car_demonstrations()
    model = learned(tuple(column[-400:] for column in rows[:5]))
    full = small_policy(2, 1.0)
    with torch.no_grad():
        for parameter in full.parameters():
            parameter.zero_()
        full.network[-1].bias.fill_(5.0)  # type: ignore[index, union-attr]
    env = MountainCar()
    last = rows.observations[-6:-5]
    found = model_rollout(model, ArrayPolicies([full]), last, 0.99, 50)
    assert len(found.states) < 50
    assert env.horizon == 500


def resting() -> TransitionModel:
    """A ball that rolls to rest at a place its push decides: s' = s + (a - s) / 2."""
    rng = np.random.default_rng(0)
    states, pushes = rng.uniform(-2, 2, size=(2, 60, 1))
    after = states + 0.5 * (pushes - states)
    return learned([states, pushes, -states[:, 0] - 1.0, after, np.zeros(60)])


class Steady:
    """Pushes to 1 wherever it is."""

    def act(self, states: Any) -> Any:
        return np.ones((len(states), 1))


def test_a_rollout_at_rest_counts_for_ever() -> None:
    starts, gamma = np.array([[-1.5], [0.5]]), 0.95
    # 1 - s halves at every step: the closed form of sum gamma^t (-1 - s_t).
    truth = -2.0 / (1.0 - gamma) + (1.0 - starts[:, 0]) / (1.0 - 0.5 * gamma)
    model = resting()
    short = model_rollout(model, Steady(), starts, gamma, 2000, until_rest=True)
    long = model_rollout(model, Steady(), starts, gamma, 2000)
    assert len(short.states) < 40
    assert len(long.states) == 2000
    # What is left to go is at most the last step, and so is the error of a reward.
    error = AT_REST * float(model.bounds.typical_step) / (1.0 - gamma)
    assert short.returns == pytest.approx(long.returns, abs=error)
    assert long.returns == pytest.approx(truth, rel=1e-6)


def test_a_rollout_that_moves_goes_on_to_the_end() -> None:
    class Shaken:
        def __init__(self) -> None:
            self.sign = 1.0

        def act(self, states: Any) -> Any:
            self.sign = -self.sign
            return np.full((len(states), 1), self.sign)

    found = model_rollout(resting(), Shaken(), np.zeros((1, 1)), 0.95, 300, until_rest=True)
    assert len(found.states) == 300


def test_out_of_support_a_rollout_earns_the_worst_from_then_on() -> None:
    class Away:
        def act(self, states: Any) -> Any:
            return np.full((len(states), 1), 50.0)  # to 25 in one step

    model, gamma = resting(), 0.9
    found = model_rollout(model, Away(), np.zeros((1, 1)), gamma, 100)
    assert len(found.states) == BLOCK  # nobody asks sooner
    assert found.outcomes.out_of_support[0, 0] == pytest.approx(1.0)
    worst = model.rewards[0] / (1.0 - gamma)
    assert found.returns[0] == pytest.approx(-1.0 + gamma * worst, rel=1e-6)


def test_the_horizon_follows_the_discount() -> None:
    assert discount_horizon(0.99) == 349
    assert discount_horizon(0.0) == 1
