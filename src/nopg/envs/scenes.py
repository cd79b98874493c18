"""How each task looks: one picture of one state."""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np

from nopg.envs.base import Env, FloatArray
from nopg.envs.canvas import BLUE, GREEN, GREY, INK, ORANGE, Canvas, Frame
from nopg.envs.cart_pole import CartPole
from nopg.envs.lqr import Lqr
from nopg.envs.mountain_car import MountainCar, height
from nopg.envs.pendulum import Pendulum
from nopg.errors import ConfigError


@singledispatch
def draw(env: Env, state: FloatArray, action: FloatArray | None = None) -> Frame:
    """Draw one state, and the action taken from it if given.

    Args:
        env: The task, which decides the scene.
        state: One state, (d_state,).
        action: One action, (d_a,).

    Returns:
        The picture, (rows, columns, 3) bytes.
    """
    raise ConfigError(
        f"`{type(env).__name__}` must have a scene to be drawn, it has none; register "
        "one with `nopg.envs.scenes.draw.register`."
    )


@draw.register
def _pendulum(
    env: Pendulum, state: FloatArray, action: FloatArray | None = None
) -> Frame:
    canvas = Canvas((0.0, 0.0), 2.8, (400, 400))
    # theta is counted from upright and grows counter-clockwise.
    tip = (-math.sin(state[0]), math.cos(state[0]))
    canvas.disc((0.0, 1.0), 0.05, GREY)  # the target
    canvas.line((0.0, 0.0), tip, 0.16, BLUE)
    canvas.disc((0.0, 0.0), 0.05, INK)
    if action is not None:
        _gauge(canvas, (0.0, -1.25), 1.0, float(action[0]) / env.max_torque)
    return canvas.frame


@draw.register
def _cart_pole(
    env: CartPole, state: FloatArray, action: FloatArray | None = None
) -> Frame:
    x, phi = float(state[0]), float(state[1])
    canvas = Canvas((x, 0.15), 0.9, (600, 400))  # the camera follows the cart
    rail = min(env.rail, 1e3)
    canvas.line((-rail, 0.0), (rail, 0.0), 0.008, GREY)
    for mark in np.arange(math.floor(x * 10) - 5, math.floor(x * 10) + 7) / 10.0:
        if abs(mark) <= rail:
            canvas.line((mark, -0.015), (mark, 0.015), 0.003, GREY)
    # phi is positive when the pole leans to the right.
    pole = 2.0 * env.half_length
    tip = (x + pole * math.sin(phi), pole * math.cos(phi))
    canvas.box((x, 0.0), (0.12, 0.05), INK)
    canvas.line((x, 0.0), tip, 0.014, BLUE)
    canvas.disc((x, 0.0), 0.01, ORANGE)
    if action is not None:
        _gauge(canvas, (x, -0.1), 0.3, float(action[0]) / env.max_voltage)
    return canvas.frame


@draw.register
def _mountain_car(
    env: MountainCar, state: FloatArray, action: FloatArray | None = None
) -> Frame:
    canvas = Canvas((-0.3, 0.57), 1.8, (600, 400))
    canvas.ground(height(canvas.columns), GREY)
    flag = (env.goal, float(height(np.array(env.goal))))
    canvas.line(flag, (flag[0], flag[1] + 0.14), 0.008, INK)
    canvas.box((flag[0] + 0.035, flag[1] + 0.12), (0.07, 0.04), GREEN)

    position = float(state[0])
    tilt = math.atan(1.35 * math.cos(3.0 * position))  # slope of the valley
    up, along = (-math.sin(tilt), math.cos(tilt)), (math.cos(tilt), math.sin(tilt))
    foot = (position, float(height(np.array(position))))
    body = (foot[0] + 0.045 * up[0], foot[1] + 0.045 * up[1])
    canvas.box(body, (0.11, 0.04), BLUE, tilt)
    for side in (-0.035, 0.035):
        hub = (foot[0] + side * along[0], foot[1] + side * along[1])
        canvas.disc((hub[0] + 0.018 * up[0], hub[1] + 0.018 * up[1]), 0.018, INK)
    if action is not None:
        _gauge(canvas, (-0.3, 1.1), 0.6, float(action[0]))
    return canvas.frame


@draw.register
def _lqr(env: Lqr, state: FloatArray, action: FloatArray | None = None) -> Frame:
    # The view doubles until the state fits: an unstable loop stays in sight.
    reach = float(np.abs(state).max())
    half = 1.5 * 2.0 ** max(0, math.ceil(math.log2(max(reach, 1e-9) / 1.3)))
    canvas = Canvas((0.0, 0.0), 2.0 * half, (400, 400))
    canvas.line((-half, 0.0), (half, 0.0), 0.008 * half, GREY)
    canvas.line((0.0, -half), (0.0, half), 0.008 * half, GREY)
    here = (float(state[0]), float(state[1]))
    if action is not None:
        push = env.B @ action
        tip = (here[0] + float(push[0]), here[1] + float(push[1]))
        canvas.line(here, tip, 0.02 * half, ORANGE)
    canvas.disc(here, 0.05 * half, BLUE)
    return canvas.frame


def _gauge(
    canvas: Canvas, centre: tuple[float, float], width: float, level: float
) -> None:
    """A bar from the middle to the side the action pushes to."""
    level = max(-1.0, min(1.0, level))
    half, thickness = width / 2.0, 0.04 * width
    x, y = centre
    canvas.line((x - half, y), (x + half, y), thickness, GREY)
    canvas.line((x, y), (x + half * level, y), thickness, ORANGE)
