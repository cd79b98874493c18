from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Graph
from reproduction.envs.registration import TASKS

from nopg.errors import ConfigError, NopgError
from nopg.record import RecordConfig
from nopg.record.simulator import Simulator
from tests.record.corridor import Corridor


class Broken(Corridor):
    def step(self, action: Any) -> Any:
        raise ZeroDivisionError("gears")


class Blind(Corridor):
    def render(self) -> Any:
        return None


class Picture(Corridor):
    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.observation_space = Box(0.0, 255.0, (96, 96, 3))


class Relation(Corridor):
    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.observation_space = Graph(Box(0, 1, (1,)), None)  # type: ignore[assignment]


for kind in (Broken, Blind, Picture, Relation):
    gymnasium.register(f"{kind.__name__}-v0", entry_point=f"{__name__}:{kind.__name__}")


def test_a_module_registers_its_own_environments() -> None:
    simulator = Simulator("tests.record.corridor:Corridor-v0")
    assert (simulator.fps, simulator.limit) == (100.0, 6)
    simulator.reset(0)
    assert simulator.frame().shape == (24, 32, 3)
    simulator.close()


def test_the_same_seed_is_the_same_start() -> None:
    simulator = Simulator("Corridor-v0")
    first = simulator.reset(5).copy()
    assert not np.array_equal(simulator.reset(6), first)
    np.testing.assert_array_equal(simulator.reset(5), first)


def test_what_was_applied_is_what_is_reported() -> None:
    simulator = Simulator("Corridor-v0")
    simulator.reset(0)
    row = simulator.step(np.array([1 / 3]))
    assert row.action == np.float64(np.float32(1 / 3))
    assert row.reward == -(float(np.float32(1 / 3)) ** 2) - 1.0


def test_a_limit_of_ones_own_replaces_the_environments() -> None:
    simulator = Simulator("Corridor-v0", max_steps=9)
    simulator.reset(0)
    flags = [simulator.step(np.array([0.0])).truncated for _ in range(9)]
    assert flags == [False] * 8 + [True]
    assert simulator.limit == 9


def test_discrete_observations_become_one_hot_vectors() -> None:
    simulator = Simulator("FrozenLake-v1")
    np.testing.assert_array_equal(simulator.reset(0), np.eye(16)[0])
    simulator.close()


@pytest.mark.parametrize("env_id", ["Nothing-v0", "no_such_module:X-v0", "", "a/b/c"])
def test_an_unknown_id_is_one_sentence(env_id: str) -> None:
    with pytest.raises(ConfigError, match="must be a Gymnasium environment"):
        Simulator(env_id)


@pytest.mark.parametrize("env_id", ["Picture-v0", "Relation-v0"])
def test_observations_that_are_no_small_vectors_are_refused(env_id: str) -> None:
    with pytest.raises(ConfigError, match="must flatten to at most 1024 numbers"):
        Simulator(env_id)


def test_an_environment_that_draws_nothing_is_refused() -> None:
    simulator = Simulator("Blind-v0")
    simulator.reset(0)
    with pytest.raises(ConfigError, match="must render pictures"):
        simulator.frame()


def test_a_failing_environment_is_one_sentence() -> None:
    simulator = Simulator("Broken-v0")
    simulator.reset(0)
    with pytest.raises(NopgError, match="ZeroDivisionError: gears"):
        simulator.step(np.array([0.0]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"episodes": 0},
        {"max_steps": 0},
        {"seed": -1},
        {"fps": 0.0},
        {"fps": float("nan")},
        {"fps": 1e4},
        {"port": 65536},
        {"port": -1},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"`{name}` must"):
        RecordConfig(environment="Corridor-v0", out=Path("x.npz"), **wrong)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_projects_own_tasks_can_be_driven(name: str) -> None:
    simulator = Simulator(f"nopg/{name}-v0")
    start = simulator.reset(0)
    action = np.zeros(simulator.action_space.shape or ())
    step = simulator.step(action)
    assert np.array_equal(step.observation, start)
    assert simulator.frame().ndim == 3
