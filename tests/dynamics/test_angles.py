"""Rewards that depend on an angle: whether the data tell, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

from nopg.dynamics.hyperparameters import (
    Angle,
    angle_bends,
    angle_slopes,
    telling_angles,
    with_angles,
)
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.rollouts import model_rollout, rollout_gradients
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.policies.arrays import ArrayPolicies
from nopg.policies.build import PolicySpec

COSINE_SINE = ((0, 1),)


def turning(n_angles: int, n_speeds: int, n_torques: int = 2) -> list[Tensor]:
    """States (cos, sin, speed), torques and the angles, on a grid."""
    grid = np.meshgrid(
        np.linspace(-np.pi, np.pi, n_angles),
        np.linspace(-4.0, 4.0, n_speeds),
        np.linspace(-1.0, 1.0, n_torques),
        indexing="ij",
    )
    angle, speed, torque = (torch.from_numpy(axis.ravel()) for axis in grid)
    return [angle, speed, torque]


def columns_of(angle: Tensor, speed: Tensor, torque: Tensor) -> list[Tensor]:
    """A wheel that a motor turns; what it costs is the square of its angle."""
    faster = speed + 0.2 * torque + 0.1 * angle.sin()
    after = angle + 0.05 * faster
    states = torch.stack([angle.cos(), angle.sin(), speed], dim=1)
    reached = torch.stack([after.cos(), after.sin(), faster], dim=1)
    cost = angle.square() + 0.1 * speed.square() + 0.001 * torque.square()
    return [states, torque[:, None], -cost, reached, torch.zeros_like(cost)]


@pytest.fixture(scope="module")
def model() -> TransitionModel:
    columns = columns_of(*turning(10, 10))
    return TransitionModel.fit(*columns, generator=np.random.default_rng(0))


def test_the_square_of_an_angle_is_learned_from_a_grid(model: TransitionModel) -> None:
    assert model.process.angles == (Angle(0, 1, 1),)
    rng = np.random.default_rng(1)
    angle, speed, torque = torch.from_numpy(
        rng.uniform([[-np.pi], [-4.0], [-1.0]], [[np.pi], [4.0], [1.0]], (3, 500))
    )
    states, actions, rewards, reached, _ = columns_of(angle, speed, torque)
    without = TransitionModel.fit(
        *columns_of(*turning(10, 10)), generator=np.random.default_rng(0), angles=()
    )
    errors = [
        float((one.step(states, actions).rewards - rewards).square().mean().sqrt())
        for one in (model, without)
    ]
    assert errors[0] < 0.02 * errors[1]  # between the rows is a kink
    moved = [one.step(states, actions).next_states for one in (model, without)]
    np.testing.assert_allclose(moved[0], moved[1], atol=1e-9)  # motion takes the pair
    assert float((moved[0] - reached).abs().max()) < 0.05


@pytest.mark.parametrize("jump", [(0, 1, 1), (0, 1, -1), (1, 0, 1), (1, 0, -1)])
def test_which_column_is_the_cosine_the_data_tell(jump: tuple[int, int, int]) -> None:
    states, actions, *_ = columns_of(*turning(15, 10))
    inputs, angle = torch.cat([states, actions], dim=1), Angle(*jump)
    target = -with_angles(inputs, [angle])[:, -1].square() - 0.1 * states[:, 2].square()
    assert telling_angles(inputs, target, COSINE_SINE) == (angle,)


def test_what_is_smooth_in_cosine_and_sine_needs_no_angle() -> None:
    states, actions, *_ = columns_of(*turning(15, 10))
    inputs, (x, y, speed) = torch.cat([states, actions], dim=1), states.T
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal(len(x)))
    for target in ((x - 1.0).square() - speed.square(), x + 0.1 * speed, noise, 0.0 * x):
        assert telling_angles(inputs, target, COSINE_SINE) == ()
    assert telling_angles(inputs, x * y, ()) == ()


def test_angles_move_and_bend_as_autograd_says() -> None:
    rng, angles = np.random.default_rng(2), (Angle(2, 0, -1), Angle(1, 3, 1))
    inputs = torch.from_numpy(rng.normal(size=(6, 5)))
    for k in range(2):

        def angle(row: Tensor, k: int = k) -> Tensor:
            return with_angles(row[None], angles)[0, 5 + k]

        rows = list(inputs)
        slopes = torch.stack([jacobian(angle, row) for row in rows])  # type: ignore[no-untyped-call]
        bends = torch.stack([hessian(angle, row) for row in rows])  # type: ignore[no-untyped-call]
        torch.testing.assert_close(angle_slopes(inputs, angles)[:, k], slopes)
        torch.testing.assert_close(angle_bends(inputs, angles)[:, k], bends)


def test_gradients_of_rollouts_are_differences_of_returns(model: TransitionModel) -> None:
    limit = torch.tensor([1.0], dtype=torch.float64)
    spec = PolicySpec(kind="deterministic", n_states=3, n_outputs=1, hidden=(4,))
    policy = spec.build(torch.Generator().manual_seed(0), -limit, limit)
    # One path passes where the angle jumps: gradients hold on either side.
    starts = np.array([[np.cos(a), np.sin(a), v] for a, v in ((2.5, 3.0), (0.4, -1.0))])

    def earned() -> float:
        made = model_rollout(model, ArrayPolicies([policy]), starts, 0.9, 12)
        return float(made.returns.mean())

    found = rollout_gradients(model, [policy], starts, 0.9, 12)[0]
    for parameter, gradient in zip(policy.parameters(), found, strict=True):
        flat = parameter.data.view(-1)
        for i in range(min(3, len(flat))):
            kept, ends = float(flat[i]), []
            for moved in (1e-3, -1e-3):  # kernels of large weights round what is earned
                flat[i] = kept + moved
                ends.append(earned())
            flat[i] = kept
            difference = (ends[0] - ends[1]) / 2e-3
            assert float(gradient.view(-1)[i]) == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_models_without_parts_and_drawn_ones_take_the_angle(model: TransitionModel) -> None:
    columns = columns_of(*turning(10, 10))
    whole = model.step(columns[0], columns[1]).rewards
    for one in model.without_each(columns, np.arange(200) % 4):
        assert one.process.angles == model.process.angles
        reward = one.step(columns[0], columns[1]).rewards
        assert float((reward - whole).abs().max()) < 0.01
    drawn = drawn_models(model, columns, 4, np.random.default_rng(0))
    states, actions = (np.tile(x[:50].numpy(), (4, 1)) for x in columns[:2])
    found = drawn.numpy_step(states, actions).rewards.reshape(4, 50)
    assert np.abs(found - whole[:50].numpy()).max() < 0.05
    assert np.ptp(found, axis=0).max() > 0.0
    if drawn.compiled is not None:
        steps = drawn.compiled.rollout(actions[None], states, 1, None)
        np.testing.assert_allclose(steps[4][0], found.ravel(), atol=1e-9)
    plain = ArrayTransitionModel(model).numpy_step(*(x.numpy() for x in columns[:2]))
    np.testing.assert_allclose(plain.rewards, whole, atol=1e-9)
