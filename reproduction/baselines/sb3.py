"""DDPG of stable-baselines3, online and offline, with two learning rates.

The networks are the paper's: one hidden layer of 50 ReLU units for actor and
critic, the actor's tanh scaled to the action space. stable-baselines3 seeds the
global random generators of torch and numpy; nothing else of this library uses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.errors import ConfigError, DataError
from reproduction.baselines.progress import Act, Progress, in_chunks
from reproduction.baselines.quiet import import_quietly

if TYPE_CHECKING:
    from gymnasium.spaces import Box


@dataclass(frozen=True, kw_only=True)
class DdpgConfig:
    """Settings of DDPG; the paper's values are written where its figures are made."""

    gamma: float
    """Discount."""
    actor_learning_rate: float
    """Adam's, for the actor."""
    critic_learning_rate: float
    """Adam's, for the critic."""
    tau: float
    """How far both targets follow in each update."""
    hidden: tuple[int, ...] = (50,)
    """Widths of the hidden layers of actor and critic."""
    batch_size: int = 64
    """Transitions per update."""


def ddpg_offline(
    data: Dataset,
    config: DdpgConfig,
    *,
    n_updates: int,
    report_every: int,
    seed: int,
    action_space: Box | None = None,
) -> Iterator[Progress]:
    """Train DDPG on logged transitions alone.

    Truncated rows bootstrap, terminated ones do not. Actions outside the space are
    clipped, as the simulators do.

    Args:
        data: Transitions with continuous actions, in any order.
        config: Rates, discount and networks.
        n_updates: Gradient steps, of actor and critic each.
        report_every: Gradient steps between reports.
        seed: Seed of initial weights and batches.
        action_space: Range of the actor; that of the data by default.

    Raises:
        MissingExtraError: If stable-baselines3 is not installed.
        DataError: If the actions are discrete or their range is unknown.
    """
    space = _action_space(data, action_space)
    model = _model(_spaces_only(data.observations.shape[1], space), config, seed, len(data))
    _fill(model, data, space)
    _silence(model)

    def learn(n_steps: int) -> None:
        model.train(gradient_steps=n_steps, batch_size=config.batch_size)

    return in_chunks(learn, _act(model), n_steps=n_updates, report_every=report_every)


def ddpg_online(
    env: Any,
    config: DdpgConfig,
    *,
    n_steps: int,
    report_every: int,
    rollout_steps: int,
    noise_std: float,
    seed: int,
) -> Iterator[Progress]:
    """Train DDPG in an environment, one gradient step for each step taken.

    Args:
        env: A Gymnasium environment.
        config: Rates, discount and networks.
        n_steps: Environment steps in all.
        report_every: Environment steps between reports, a multiple of
            `rollout_steps` since learning happens after each rollout.
        rollout_steps: Steps taken before as many gradient steps follow.
        noise_std: Exploration noise, in units of half the action range.
        seed: Seed of initial weights, noise and batches.

    Raises:
        MissingExtraError: If stable-baselines3 is not installed.
    """
    if report_every % rollout_steps or n_steps % rollout_steps:
        raise ConfigError(
            "`n_steps` and `report_every` must be multiples of `rollout_steps`, got "
            f"{n_steps}, {report_every} and {rollout_steps}; learning happens after "
            "each whole rollout."
        )
    noise_module = import_quietly("stable_baselines3.common.noise", "baselines")
    d_a = env.action_space.shape[0]
    noise = noise_module.NormalActionNoise(np.zeros(d_a), np.full(d_a, noise_std))
    model = _model(
        env,
        config,
        seed,
        n_steps,
        action_noise=noise,
        learning_starts=0,
        train_freq=rollout_steps,
        gradient_steps=rollout_steps,
    )

    def learn(n_steps: int) -> None:
        model.learn(n_steps, reset_num_timesteps=False)

    return in_chunks(learn, _act(model), n_steps=n_steps, report_every=report_every)


def _model(env: Any, config: DdpgConfig, seed: int, buffer_size: int, **settings: Any) -> Any:
    model = import_quietly("stable_baselines3", "baselines").DDPG(
        "MlpPolicy",
        env,
        gamma=config.gamma,
        tau=config.tau,
        batch_size=config.batch_size,
        buffer_size=buffer_size,
        policy_kwargs={"net_arch": list(config.hidden)},
        seed=seed,
        device="cpu",
        **settings,
    )
    # `train` sets one rate for both optimisers each time; this sets two.
    rates = (config.actor_learning_rate, config.critic_learning_rate)
    model._update_learning_rate = partial(_set_rates, rates)
    return model


def _set_rates(rates: tuple[float, float], optimizers: list[Any]) -> None:
    for optimizer, rate in zip(optimizers, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate


def _act(model: Any) -> Act:
    """What `model.predict` does, without its checks, which take longer than the net."""

    def act(observations: NDArray[np.float64]) -> NDArray[np.float64]:
        with torch.no_grad():
            scaled = model.actor(torch.tensor(observations, dtype=torch.float32))
        actions = model.policy.unscale_action(scaled.numpy())
        return np.asarray(actions, dtype=np.float64)

    return act


def _action_space(data: Dataset, given: Box | None) -> Box:
    from gymnasium.spaces import Box

    space = given if given is not None else data.action_space
    if data.is_discrete or not isinstance(space, Box) or not space.is_bounded():
        raise DataError(
            "DDPG needs continuous actions with a known, bounded range, got the space "
            f"{space}; pass `action_space=gymnasium.spaces.Box(low, high)`."
        )
    return space


def _spaces_only(d_s: int, action_space: Box) -> Any:
    """An environment that is never stepped: the model only reads its spaces."""
    import gymnasium
    from gymnasium.spaces import Box

    env: Any = gymnasium.Env()
    env.observation_space = Box(-np.inf, np.inf, (d_s,), np.float32)
    env.action_space = Box(
        action_space.low.astype(np.float32), action_space.high.astype(np.float32)
    )
    return env


def _fill(model: Any, data: Dataset, space: Box) -> None:
    clipped = np.clip(data.actions, space.low, space.high)
    scaled = model.policy.scale_action(clipped.astype(np.float32))  # to [-1, 1]
    for i in range(len(data)):
        is_cut = bool(data.truncations[i] and not data.terminations[i])
        model.replay_buffer.add(
            data.observations[i],
            data.next_observations[i],
            scaled[i],
            data.rewards[i],
            bool(data.terminations[i]) or is_cut,
            [{"TimeLimit.truncated": is_cut}],
        )


def _silence(model: Any) -> None:
    """`train` logs, and `learn` would have made the logger: make a silent one."""
    logger = import_quietly("stable_baselines3.common.logger", "baselines")
    model.set_logger(logger.Logger(folder=None, output_formats=[]))
