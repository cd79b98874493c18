"""Machines of Gymnasium's simulators, where these are installed."""

import numpy as np
import pytest
from reproduction.envs.base import FloatArray
from reproduction.tasks.discrete import ACROBOT, DISCRETE_TASKS
from reproduction.tasks.simulated_machines import SIMULATED_MACHINES

from nopg.errors import MissingExtraError


@pytest.mark.parametrize("name", SIMULATED_MACHINES)
def test_data_and_returns_of_a_machine(name: str) -> None:
    task = SIMULATED_MACHINES[name]()
    try:
        data = task.dataset(120, 0)
    except MissingExtraError as error:
        pytest.skip(str(error))
    again = task.dataset(120, 0)
    assert (data.observations == again.observations).all()
    assert data.observations.shape == (120, len(task.observation_names))
    assert data.actions.shape[1] == task.action_space.shape[0]

    def still(seen: FloatArray) -> FloatArray:
        return np.zeros((len(seen), task.action_space.shape[0]))

    assert task.returns(still, 0).shape == (10,)
    assert task.initial_observations(0).shape == (15, len(task.observation_names))


def test_acrobot_holds_its_labels() -> None:
    data = DISCRETE_TASKS[ACROBOT]().dataset(400, 0)
    assert data.is_discrete
    same = (data.actions[1:] == data.actions[:-1]).mean()
    assert same > 0.7  # a third without holding
