"""The two tanks: their equilibrium, their delay, their log and their reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from reproduction.tasks import two_tanks
from reproduction.tasks.learnable import learnable_of
from reproduction.tasks.two_tanks import HOLDING, TARGET, Pid, TwoTanks
from reproduction.trial import Trial
from reproduction.trials.noisy import run_reference

from nopg.errors import ConfigError


@dataclass(frozen=True)
class Constant:
    """The same pump setting always."""

    setting: float

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        return np.full((len(observation), 1), self.setting), None


def test_the_holding_setting_keeps_the_wanted_level() -> None:
    # What drains from the lower tank must come from the upper one, and into that
    # from the pump.
    upper = TARGET * (two_tanks.LOWER_DRAIN / two_tanks.UPPER_DRAIN) ** 2
    levels = np.array([[upper, TARGET]])
    after = two_tanks.flow(levels, np.array([HOLDING]))
    np.testing.assert_allclose(after, levels, rtol=1e-12)


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_a_setting_arrives_after_the_delay(delay: int) -> None:
    plant = TwoTanks(delay, noise=0.0)
    full, none = (
        plant._episodes(Constant(setting), np.random.default_rng(0), 3, 10)[0]
        for setting in (1.0, 0.0)
    )
    differs = (full != none).any(axis=(1, 2))
    assert np.flatnonzero(differs)[0] == delay + 1


def test_the_log_is_what_the_plant_did() -> None:
    data = TwoTanks(delay=2).log(3, 20, seed=1)
    assert (len(data), data.n_episodes, data.observation_names) == (*(60, 3), ("upper", "lower"))
    inside = data.episodes[1:] == data.episodes[:-1]  # type: ignore[index]
    np.testing.assert_array_equal(
        data.observations[1:][inside], data.next_observations[:-1][inside]
    )
    hidden = TwoTanks(delay=2, hide_level=True).log(3, 20, seed=1)
    np.testing.assert_array_equal(hidden.observations, data.observations[:, 1:])


def test_a_tuned_pid_earns_more_than_the_one_that_made_the_log() -> None:
    plant = TwoTanks(delay=2)
    logged = plant.returns(Pid(two_tanks.LOGGING_GAINS), seed=0).mean()
    assert plant.pid_return(seed=0) > logged + 1.0


def test_a_delay_is_not_negative() -> None:
    with pytest.raises(ConfigError, match="0 is none"):
        TwoTanks(delay=-1)


@pytest.mark.parametrize("name", two_tanks.TANKS)
def test_every_plant_is_a_task(name: str) -> None:
    trial = Trial(experiment="noisy", task=name, method="learn", size=12, seed=3)
    plant = learnable_of(trial)
    assert plant.dataset(2, 3).n_episodes == 2
    by_function = plant.returns(lambda seen: np.full((len(seen), 1), 0.4), 3)
    by_policy = two_tanks.TANKS[name].returns(Constant(0.4), 3)
    np.testing.assert_array_equal(by_function, by_policy)
    assert run_reference(trial)["last"] > by_policy.mean()
