import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from reproduction.envs.registration import TASKS, register
from reproduction.envs.rollouts import rollout

import reproduction.envs
from nopg.errors import ConfigError

assert reproduction.envs.Qube in TASKS.values()  # put there by the import
HORIZONS = {
    "PendulumSwingUp": 500,
    "CartPoleQuanser": 10_000,
    "MountainCarSteps": 500,
    "Qube": 1_500,
}


@pytest.mark.parametrize("name", TASKS)
def test_gymnasium_finds_nothing_to_warn_of(name: str) -> None:
    register()
    register()  # twice is harmless
    env = gymnasium.make(f"nopg/{name}-v0", render_mode="rgb_array")
    assert env.spec is not None
    assert env.spec.max_episode_steps == HORIZONS[name]
    env.spec.to_json()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env.unwrapped)
    # Actions are in volts or newton metres here; the advice to use [-1, 1] is known.
    others = [w for w in caught if "symmetric and normalized" not in str(w.message)]
    assert [str(w.message) for w in others] == []


@pytest.mark.parametrize("name", TASKS)
def test_one_episode_is_the_batched_rollout(name: str) -> None:
    register()
    env, pure = gymnasium.make(f"nopg/{name}-v0"), TASKS[name](horizon=HORIZONS[name])
    actions = [env.action_space.sample() for _ in range(20)]
    _, info = env.reset(seed=7)
    keys = iter(actions)
    record = rollout(pure, lambda seen: next(keys)[None], info["state"][None], 20)
    for t in range(record.rewards.shape[1]):
        seen, reward, terminated, _, _ = env.step(actions[t])
        np.testing.assert_allclose(seen, record.observations[0, t + 1], rtol=1e-6, atol=1e-6)
        assert reward == pytest.approx(record.rewards[0, t])
        assert terminated == record.terminations[0, t]


def test_time_limit_truncates() -> None:
    register()
    env = gymnasium.make("nopg/PendulumSwingUp-v0")
    env.reset(seed=0)
    ends = [env.step(np.zeros(1))[2:4] for _ in range(500)]
    assert ends[-1] == (False, True)
    assert not any(terminated or truncated for terminated, truncated in ends[:-1])


def test_start_can_be_chosen() -> None:
    register()
    env = gymnasium.make("nopg/PendulumSwingUp-v0", start_angle=0.0)
    seen, _ = env.reset(seed=0)
    np.testing.assert_array_equal(seen, np.array([1.0, 0.0, 0.0], dtype=np.float32))


def test_misuse_is_named() -> None:
    register()
    env = gymnasium.make("nopg/CartPoleQuanser-v0").unwrapped
    with pytest.raises(ConfigError, match="call `reset`"):
        env.step(np.zeros(1))
