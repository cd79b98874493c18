"""Data of random agents: exactly so many rows, as the paper's experiments have them."""

from __future__ import annotations

import numpy as np

from nopg.errors import ConfigError
from reproduction.envs.base import Env, FloatArray
from reproduction.envs.cart_pole import CartPole
from reproduction.envs.logs import episodes
from reproduction.envs.pendulum import Pendulum
from reproduction.envs.rollouts import Policy, Transitions


def first_transitions(
    env: Env,
    behaviour: Policy,
    n: int,
    generator: np.random.Generator,
    *,
    n_steps: int | None = None,
) -> Transitions:
    """Exactly n rows: as many episodes as it takes, the last one cut.

    Episodes are made one after another, so that the first rows of a larger set
    drawn from the same seed are the smaller set.
    """
    if n < 1:
        raise ConfigError(f"`n` must be at least one row, got {n}; ask for some.")
    parts: list[Transitions] = []
    while sum(len(part.rewards) for part in parts) < n:
        part = episodes(env, behaviour, 1, generator, n_steps=n_steps)
        number = np.full(len(part.rewards), len(parts), dtype=np.int64)
        parts.append(part._replace(episodes=number))
    columns = zip(*parts, strict=True)
    rows = Transitions(*(np.concatenate(column)[:n] for column in columns))
    rows.truncations[-1] = not rows.terminations[-1]  # the cut, where there is one
    return rows


def pendulum_random(n: int, generator: np.random.Generator, *, clip: bool = True) -> Transitions:
    """The paper's random-agent data: n rows of 500-step episodes from upright.

    Torques are half N(-2, 1), half N(2, 1), whatever the state.

    Args:
        n: Number of rows.
        generator: Source of the torques.
        clip: Store torques clipped to +-2, as the authors' later data do; their
            first release stored them unclipped and let the simulator clip.
    """
    limit = Pendulum.max_torque

    def mixture(seen: FloatArray, generator: np.random.Generator) -> FloatArray:
        shape = (len(seen), 1)
        centres = generator.choice([-limit, limit], shape)
        torques = centres + generator.standard_normal(shape)
        return np.clip(torques, -limit, limit) if clip else torques

    return first_transitions(Pendulum(start_angle=0.0), mixture, n, generator)


def uniform_voltage(seen: FloatArray, generator: np.random.Generator) -> FloatArray:
    """The random agent of the cart-pole: any voltage, whatever the state."""
    limit = CartPole.max_voltage
    return generator.uniform(-limit, limit, (len(seen), 1))


def cart_pole_random(n: int, generator: np.random.Generator) -> Transitions:
    """The paper's random-agent data: n rows of episodes that last until the fall."""
    return first_transitions(CartPole(), uniform_voltage, n, generator)
