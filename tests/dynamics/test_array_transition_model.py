"""Steps in arrays against tensors; saturation against the simulator."""

import numpy as np
import pytest
import torch
from reproduction.envs.mountain_car import MountainCar
from reproduction.tasks.random_agents import pendulum_random
from reproduction.tasks.scripted_operator import mountain_car_demonstrations

from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from tests.dynamics import reference


def learned(rows: object, n: int) -> TransitionModel:
    columns = [torch.tensor(np.asarray(c[-n:], dtype=np.float64)) for c in rows[:5]]  # type: ignore[index]
    return TransitionModel.fit(*columns, generator=np.random.default_rng(0))


@pytest.mark.parametrize("task", ["pendulum", "mountain-car"])
def test_arrays_step_as_tensors_do(task: str) -> None:
    rng = np.random.default_rng(1)
    rows = pendulum_random(600, rng) if task == "pendulum" else mountain_car_demonstrations()
    model = learned(rows, 600)
    low, high = model.bounds.low.numpy(), model.bounds.high.numpy()
    # Inside, at and beyond the bounds.
    states = low + (high - low) * rng.uniform(-0.2, 1.2, size=(200, len(low)))
    actions = rng.uniform(rows.actions.min(), rows.actions.max(), size=(200, 1))
    ours = ArrayTransitionModel(model).step(states, actions)
    theirs = reference.step(model, torch.tensor(states), torch.tensor(actions))
    assert (ours.out_of_support > 0).any()
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other.numpy(), rel=1e-6, abs=1e-9)


def test_the_end_of_the_track_stops_the_car() -> None:
    rows = mountain_car_demonstrations()
    model = learned(rows, len(rows.rewards))
    # The track ends, and speed has a limit; some demonstrations meet both.
    assert model.bounds.saturation.is_low.tolist() == [True, True]
    assert model.bounds.low.tolist() == [MountainCar.min_position, -0.07]
    start, throttle = np.array([[-1.19, -0.03]]), np.array([[-1.0]])
    real = MountainCar().step(start, throttle).next_states
    assert real.tolist() == [[-1.2, 0.0]]
    step = model.step(torch.tensor(start), torch.tensor(throttle))
    assert step.next_states.numpy() == pytest.approx(real, abs=1e-6)
    assert float(step.out_of_support) == 0.0
    assert float(step.reached[0, 0]) < -1.21  # free motion, but for the track
