"""A rollout as a moving picture."""

from __future__ import annotations

from pathlib import Path

from nopg.data.extras import require_extra
from nopg.data.files import write_atomically
from nopg.envs.base import Env, FloatArray
from nopg.envs.scenes import draw
from nopg.errors import ConfigError

MOST_FRAMES = 200
"""A task at rest is soon dull."""


def animation(
    env: Env,
    states: FloatArray,  # in time order, (T + 1, d_state)
    actions: FloatArray,  # taken from each of them but the last, (T, d_a)
    path: Path,
    *,
    step_seconds: float,  # how long a step takes in the world
    every: int = 1,  # steps per frame
) -> Path:
    """Write a GIF of a rollout, drawn by the environment's own scene."""
    image = require_extra("PIL.Image", "plots")
    steps = range(0, len(actions), every)[:MOST_FRAMES]
    if len(steps) == 0:
        raise ConfigError("A rollout must have at least one step to be drawn.")
    frames = [image.fromarray(draw(env, states[t], actions[t])) for t in steps]
    write_atomically(
        path,
        lambda stream: frames[0].save(
            stream,
            format="GIF",
            save_all=True,
            append_images=frames[1:],
            duration=round(1000 * step_seconds * every),
            loop=0,
        ),
    )
    return path
