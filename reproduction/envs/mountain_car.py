"""The mountain car in the paper's form: every step costs one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from reproduction.envs.base import BoolArray, Env, FloatArray, Ranges
from reproduction.envs.landscape import GREEN, Landscape, gauge
from reproduction.envs.scenes import BLUE, GREY, INK, Action, Frame, draw


@dataclass(frozen=True, kw_only=True)
class MountainCar(Env):
    """A car in a valley, too weak to climb out without a run-up.

    ## State and observation
    | column | meaning | range |
    |---|---|---|
    | position | along the valley | -1.2 to 0.6 |
    | velocity | per step | -0.07 to 0.07 |

    ## Action
    | column | meaning | range |
    |---|---|---|
    | throttle | force of the engine; clipped | -1 to 1 |

    ## Dynamics
    Gymnasium's MountainCarContinuous-v0: velocity' = velocity + 0.0015 throttle
    - 0.0025 cos(3 position), clipped to +-0.07, then position' = position + velocity',
    clipped; the wall on the left stops the car. Gymnasium rounds its state to
    float32 after each step, this task keeps float64.

    ## Reward
    -1 per step: the return is minus the number of steps. (Gymnasium's own task pays
    100 at the goal and charges the throttle; the paper replaces that.) The best
    possible is 65 to 67 steps, pushing along with the velocity takes 105 to 111.

    ## Start
    Position uniform in [-0.6, -0.4], at rest.

    ## End
    Position at least 0.45 with velocity at least 0; cut after 500 steps.
    """

    observation_names: ClassVar[tuple[str, ...]] = ("position", "velocity")
    action_names: ClassVar[tuple[str, ...]] = ("throttle",)

    horizon: int = 500

    min_position: ClassVar[float] = -1.2
    max_position: ClassVar[float] = 0.6
    max_speed: ClassVar[float] = 0.07
    observation_ranges: ClassVar[Ranges] = ((min_position, max_position), (-max_speed, max_speed))
    action_ranges: ClassVar[Ranges] = ((-1.0, 1.0),)
    goal: ClassVar[float] = 0.45
    power: ClassVar[float] = 0.0015
    gravity: ClassVar[float] = 0.0025

    def reset_states(self, n: int, generator: np.random.Generator) -> FloatArray:
        """At rest near the bottom of the valley."""
        return np.stack([generator.uniform(-0.6, -0.4, n), np.zeros(n)], axis=1)

    def transition(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """One step of engine against gravity."""
        position, velocity = states.T
        throttle = np.clip(actions[:, 0], -1.0, 1.0)
        pull = self.gravity * np.cos(3.0 * position)
        velocity = velocity + self.power * throttle - pull
        velocity = np.clip(velocity, -self.max_speed, self.max_speed)
        position = np.clip(position + velocity, self.min_position, self.max_position)
        is_at_wall = (position == self.min_position) & (velocity < 0.0)
        return np.stack([position, np.where(is_at_wall, 0.0, velocity)], axis=1)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Minus one, always."""
        return np.full(len(states), -1.0)

    def is_terminal(self, next_states: FloatArray) -> BoolArray:
        """Whether the step reached the flag without rolling back."""
        position, velocity = next_states.T
        return np.asarray((position >= self.goal) & (velocity >= 0.0), dtype=bool)


def height(positions: FloatArray) -> FloatArray:
    """The shape of the valley, for drawing."""
    return np.asarray(np.sin(3.0 * positions) * 0.45 + 0.55, dtype=np.float64)


@draw.register
def _mountain_car(env: MountainCar, state: FloatArray, action: Action = None) -> Frame:
    canvas = Landscape((-0.3, 0.57), 1.8, (600, 400))
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
        gauge(canvas, (-0.3, 1.1), 0.6, float(action[0]))
    return canvas.frame
