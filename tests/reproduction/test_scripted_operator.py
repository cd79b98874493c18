import numpy as np
import pytest
from reproduction.envs.mountain_car import MountainCar
from reproduction.tasks.scripted_operator import (
    Operator,
    mountain_car_demonstrations,
    scripted_demonstrations,
)

from nopg.errors import ConfigError


def test_shipped_file_is_what_the_operator_does() -> None:
    made, shipped = scripted_demonstrations(), mountain_car_demonstrations()
    for name in made._fields:
        # Not bit by bit: cosines may differ in their last place between machines.
        np.testing.assert_allclose(
            getattr(made, name), getattr(shipped, name), atol=1e-9, err_msg=name
        )


def test_demonstrations_are_slow_idle_and_successful() -> None:
    data = mountain_car_demonstrations()
    lengths = np.bincount(data.episodes)  # type: ignore[arg-type]
    assert len(lengths) == 10
    assert 300 <= lengths.mean() <= 450
    assert lengths.min() > 150  # the best possible is 65: none is close
    assert lengths.max() <= 500
    assert data.terminations.sum() == 10
    assert (data.actions == 0.0).mean() > 0.5
    assert set(np.unique(data.actions)) == {-1.0, 0.0, 1.0}
    assert (data.rewards == -1.0).all()


def test_demonstrations_obey_the_dynamics() -> None:
    data = mountain_car_demonstrations()
    step = MountainCar().step(data.observations, data.actions)
    np.testing.assert_allclose(step.next_states, data.next_observations, atol=1e-12)
    np.testing.assert_array_equal(step.terminations, data.terminations)


def test_an_operator_that_never_arrives_is_named() -> None:
    with pytest.raises(ConfigError, match="make it less idle"):
        scripted_demonstrations(1, operator=Operator(idleness=0.999))
    with pytest.raises(ConfigError, match="shortest_hold"):
        Operator(shortest_hold=0)
