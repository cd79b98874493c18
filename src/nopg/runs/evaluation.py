"""A policy in a simulator: returns of some episodes, with an interval, and videos."""

import math
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces.utils import flatdim
from gymnasium.wrappers import RecordVideo, TimeLimit
from scipy.special import stdtrit

from nopg.data.io.rollouts import one_episode
from nopg.envs.pendulum import register
from nopg.errors import ConfigError, MissingExtraError, require_count, require_extra
from nopg.fitted.policy import FittedPolicy


@dataclass(frozen=True)
class Episode:
    """One episode."""

    seed: int  # seed of its start
    total: float  # sum of its rewards
    discounted: float  # the same, discounted as in training
    steps: int  # how long it lasted
    terminated: bool  # whether the task ended it, and not the time limit


@dataclass(frozen=True)
class Evaluation:
    """Episodes of one policy in one environment."""

    env: str
    episodes: tuple[Episode, ...]
    videos: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean([episode.total for episode in self.episodes]))

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of the mean (Student's t); NaN for one episode."""
        if (n := len(self.episodes)) < 2:
            return math.nan
        spread = float(np.std([episode.total for episode in self.episodes], ddof=1))
        return float(stdtrit(n - 1, 0.5 + 0.95 / 2)) * spread / math.sqrt(n)


def evaluate(
    policy: FittedPolicy,
    env_id: str,
    n_episodes: int = 10,
    *,
    seed: int = 0,
    videos: Path | None = None,
) -> Evaluation:
    """Let a policy act in a Gymnasium environment.

    Args:
        policy: The policy; its most typical actions are taken.
        env_id: Any registered id, such as our `nopg/PendulumSwingUp-v0`, or `module:Id`.
        n_episodes: Episodes to run.
        seed: Episode i starts from seed + i.
        videos: Folder for a film of each episode, through Gymnasium's RecordVideo.
    """
    require_count("n_episodes", n_episodes)
    name = env_id.rpartition(":")[2].replace("/", "-")
    updates = 0 if policy.history is None else len(policy.history)
    seeds = range(seed, seed + n_episodes)
    films = [f"{name}-after-{updates}-seed-{seed}.mp4" for seed in seeds]
    if videos is not None:
        require_extra("moviepy", "video")
        videos.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=videos, prefix=".filming-") as unfinished:
        camera = None if videos is None else Path(unfinished) / "films"
        with closing(_made(env_id, camera)) as env:  # writes the last film
            _require_fit(policy, env)
            episodes = tuple(_measured(policy, env, seed) for seed in seeds)
        if videos is None or camera is None:
            return Evaluation(env_id, episodes)
        for i, film in enumerate(films):  # they get their names when they are whole
            (camera / f"film-episode-{i}.mp4").replace(videos / film)
    return Evaluation(env_id, episodes, tuple(films))


def _measured(policy: FittedPolicy, env: gymnasium.Env[Any, Any], seed: int) -> Episode:
    rows = [*one_episode(env, policy, seed, deterministic=True)]
    rewards = np.array([row[2] for row in rows])
    weights = policy.gamma ** np.arange(len(rows))
    return Episode(seed, float(rewards.sum()), float(weights @ rewards), len(rows), rows[-1][4])


def make_env(env_id: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Any registered environment, or one of `module:Id`."""
    register()
    try:
        return gymnasium.make(env_id, **options)
    except gymnasium.error.DependencyNotInstalled as error:
        raise missing_package(error) from error
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        reason = "".join(str(error).splitlines()[:1])
        own = ", ".join(name for name in gymnasium.registry if name.startswith("nopg/"))
        raise ConfigError(
            f"`{env_id}` must be a Gymnasium environment, making it failed ({reason}); "
            f"check the id, or write module:Id. The project's own are {own}."
        ) from None


def missing_package(error: Exception) -> MissingExtraError:
    """For what an environment needs to run or to be drawn."""
    return MissingExtraError(
        f"This environment needs a package that is missing ({error}); for the "
        'classic-control ones run pip install "nopg[record]".'
    )


def _made(env_id: str, camera: Path | None) -> gymnasium.Env[Any, Any]:
    """The environment, with an end, and filmed into the folder `camera` if given."""
    env = make_env(env_id, **({} if camera is None else {"render_mode": "rgb_array"}))
    if env.spec is not None and env.spec.max_episode_steps is None:
        env = TimeLimit(env, 10_000)
    if camera is None:
        return env
    return RecordVideo(env, str(camera), lambda episode: True, name_prefix="film")


def _require_fit(policy: FittedPolicy, env: gymnasium.Env[Any, Any]) -> None:
    names, width = policy.observation_names, flatdim(env.observation_space)
    if names is not None and width != len(names):
        raise ConfigError(
            f"The environment must have {', '.join(names)}, it has {width} numbers; choose another."
        )
    own, wanted = policy.action_space, env.action_space
    n = getattr(own, "n", None)
    if not (wanted.shape == own.shape if n is None else getattr(wanted, "n", 0) >= n):
        raise ConfigError(f"The environment must take {own}, it takes {wanted}; choose another.")
