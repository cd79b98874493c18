"""A rollout as a moving picture."""

from __future__ import annotations

from pathlib import Path

from nopg.data.extras import require_extra
from nopg.data.files import write_atomically
from nopg.envs.base import Env, FloatArray
from nopg.envs.scenes import draw
from nopg.errors import ConfigError


def animation(
    env: Env,
    states: FloatArray,
    actions: FloatArray,
    path: Path,
    *,
    step_seconds: float,
    every: int = 1,
    most_frames: int = 200,
) -> Path:
    """Write a GIF of a rollout, drawn by the environment's own scene.

    Args:
        env: The task, which decides the scene.
        states: States in time order, (T + 1, d_state).
        actions: Action taken from each of them but the last, (T, d_a).
        path: GIF to write.
        step_seconds: Time one step takes in the world.
        every: Steps per frame.
        most_frames: Stop after this many: a task at rest is soon dull.

    Raises:
        MissingExtraError: If Pillow is not installed.
        ConfigError: If there is no step to draw.
    """
    image = require_extra("PIL.Image", "plots")
    steps = range(0, len(actions), every)[:most_frames]
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
