"""Evaluations: the simulator's own sums, intervals that cover, films that play."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray
from reproduction.envs.registration import register

import nopg
from nopg.cli.swing_up import BOTTOM
from nopg.errors import ConfigError
from nopg.runs.evaluation import Episode, Evaluation, evaluate
from tests.runs.tiny import QUICK, SMALL, discrete_data


@pytest.fixture(scope="module")
def policy() -> nopg.FittedPolicy:
    model = nopg.NOPG(**QUICK, gamma=0.9)
    return model.fit(SMALL, [BOTTOM], n_updates=2, progress=False)


def test_returns_are_the_simulators(policy: nopg.FittedPolicy) -> None:
    found = evaluate(policy, "Pendulum-v1", 2, seed=5)
    assert [episode.seed for episode in found.episodes] == [5, 6]
    env = gymnasium.make("Pendulum-v1")
    observation, _ = env.reset(seed=6)
    rewards = []
    for _ in range(200):
        action, _ = policy.predict(observation)
        observation, reward, *_ = env.step(action)
        rewards.append(float(reward))
    episode = found.episodes[1]
    assert episode.total == pytest.approx(sum(rewards), rel=1e-12)
    weights = 0.9 ** np.arange(200)
    assert episode.discounted == pytest.approx(float(weights @ rewards), rel=1e-12)
    assert (episode.steps, episode.terminated) == (200, False)


def test_every_episode_of_a_policy_with_memory_starts_without_a_past() -> None:
    rng = np.random.default_rng(0)
    env, steps = gymnasium.make("Pendulum-v1"), []
    for episode in range(3):
        observation, _ = env.reset(seed=episode)
        for _ in range(10):
            action = rng.uniform(-2, 2, size=1).astype(np.float32)
            after, reward, *_ = env.step(action)
            steps.append((observation, action, reward, after, episode))
            observation = after
    states, actions, rewards, successors, episodes = map(np.array, zip(*steps, strict=True))
    flags = np.zeros(len(states), dtype=bool)
    data = nopg.Dataset(
        states, actions, rewards, successors, flags, episodes=episodes
    ).with_history(2)
    policy = nopg.NOPG(gamma=0.9, hidden=(8,)).fit(data, n_updates=1, progress=False)
    policy.predict(states[0])  # a past that is none of the simulator's
    found = evaluate(policy, "Pendulum-v1", 2, seed=5)
    for measured in found.episodes:
        observation, _ = env.reset(seed=measured.seed)
        total, past = 0.0, None
        for t in range(200):
            action, past = policy.predict(observation, past, t == 0)
            observation, reward, *_ = env.step(action.astype(np.float32))
            total += float(reward)
        assert measured.total == pytest.approx(total, rel=1e-12)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        draws = rng.normal(3.0, 2.0, size=5)
        episodes = tuple(Episode(0, float(d), 0.0, 1, False) for d in draws)
        found = Evaluation("x", episodes)
        covered += abs(found.mean - 3.0) <= found.half_width
    assert 930 <= covered <= 970
    assert math.isnan(Evaluation("x", episodes[:1]).half_width)


def test_what_does_not_fit_is_refused(policy: nopg.FittedPolicy) -> None:
    with pytest.raises(ConfigError, match="project's own are nopg/"):
        evaluate(policy, "nopg/Pendulum-v0")
    with pytest.raises(ConfigError, match="it has 4 numbers"):
        evaluate(policy, "CartPole-v1")
    with pytest.raises(ConfigError, match="from 1"):
        evaluate(policy, "Pendulum-v1", 0)
    discrete = nopg.NOPG("discrete")
    labels = discrete.fit(discrete_data(), [BOTTOM], n_updates=1, progress=False)
    with pytest.raises(ConfigError, match="The environment must take Discrete"):
        evaluate(labels, "Pendulum-v1", 1)


class Plain(gymnasium.Env[Any, Any]):
    """An environment of somebody's own, without `render_mode`; ends at step 3."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (3,))
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.left = 3
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return np.zeros(3, np.float32), 1.0, self.left == 0, False, {}


@pytest.mark.filterwarnings("ignore:.*render_mode")
def test_an_environment_without_a_render_mode_is_evaluated_and_not_filmed(
    policy: nopg.FittedPolicy, tmp_path: Path
) -> None:
    gymnasium.register(id="tests/Plain-v0", entry_point=f"{__name__}:Plain")
    found = evaluate(policy, "tests/Plain-v0", 2)
    assert [episode.total for episode in found.episodes] == [3.0, 3.0]
    assert all(episode.terminated for episode in found.episodes)
    pytest.importorskip("moviepy")
    with pytest.raises(ConfigError, match="render_mode"):
        evaluate(policy, "tests/Plain-v0", 1, videos=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_films_are_whole_and_named_after_their_seed(
    policy: nopg.FittedPolicy, tmp_path: Path
) -> None:
    pytest.importorskip("moviepy")

    register()
    gymnasium.register(
        id="nopg/Short-v0",
        entry_point="reproduction.envs.simulation:Simulation",
        max_episode_steps=12,
        kwargs={"name": "PendulumSwingUp"},
    )
    found = evaluate(policy, "nopg/Short-v0", 2, seed=3, videos=tmp_path / "videos")
    assert found.videos == (
        "nopg-Short-v0-after-2-seed-3.mp4", "nopg-Short-v0-after-2-seed-4.mp4"
    )  # fmt: skip
    assert sorted(f.name for f in (tmp_path / "videos").iterdir()) == [*found.videos]
    frames = _frames(tmp_path / "videos" / found.videos[0])
    assert len(frames) in (12, 13)
    assert np.ptp(frames[5]) > 50  # something is drawn


def _frames(film: Path) -> NDArray[np.uint8]:
    import imageio_ffmpeg

    program = imageio_ffmpeg.get_ffmpeg_exe()
    words = [program, "-v", "error", "-i", str(film), "-f", "rawvideo"]
    told = subprocess.run(
        [*words, "-pix_fmt", "rgb24", "-"], capture_output=True, check=True
    ).stdout
    return np.frombuffer(told, dtype=np.uint8).reshape(-1, 400, 400, 3)
