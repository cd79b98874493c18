"""The swing-up pendulum as the paper sets it: grid data, start at the bottom.

Appendix, "Pendulum with Uniform Dataset": theta in [-pi, pi], velocity in [-8, 8], torque in {-2,
2}, gamma 0.97, 500 steps from the bottom at rest.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from nopg.data.dataset import Dataset
from nopg.data.files import write_atomically
from nopg.data.validation import FloatArray
from nopg.envs import pendulum
from nopg.errors import require_extra

GAMMA = 0.97
BOTTOM = (-1.0, 0.0, 0.0)  # observation (cos, sin, velocity) of hanging at rest
HANGING = -4935.0  # return of doing nothing for 500 steps: 500 times -pi^2
PAPER_450 = -594.0  # mean return of NOPG-D with 450 samples, Figure 2 of the paper
OPTIMUM = -299.0  # about the best return possible, by value iteration on a fine grid
MOST_STEPS = 400  # of the animation: a task at rest is soon dull


class SwingUp(NamedTuple):
    """What a policy did from the bottom, in T steps."""

    states: FloatArray  # (T + 1, 2)
    actions: FloatArray  # (T, 1)
    rewards: FloatArray  # (T,)

    @property
    def total(self) -> float:
        """The return, not discounted."""
        return float(self.rewards.sum())


def grid_dataset(n_angles: int = 15, n_velocities: int = 15) -> Dataset:
    """The paper's uniform data set; 15 x 15 x 2 gives its 450 samples."""
    highest = np.array([1.0, 1.0, pendulum.MAX_SPEED], dtype=np.float32)
    return Dataset(
        *pendulum.pendulum_grid(n_angles, n_velocities, 2),
        observation_names=("cos", "sin", "theta_dot"),
        action_names=("torque",),
        observation_space=Box(-highest, highest),
        action_space=Box(-pendulum.MAX_TORQUE, pendulum.MAX_TORQUE, (1,)),
    )


def swing_up(policy: Any, n_steps: int = pendulum.N_STEPS) -> SwingUp:
    """Let `policy` act on the pendulum of Gymnasium, from the bottom at rest."""
    states, actions, rewards = [np.array([[math.pi, 0.0]])], [], []
    for _ in range(n_steps):
        action = policy.predict(pendulum.observe(states[-1]))[0].astype(np.float64)
        following, reward = pendulum.step(states[-1], action)
        states.append(following)
        actions.append(action)
        rewards.append(reward)
    return SwingUp(*(np.concatenate(part) for part in (states, actions, rewards)))


def upright_after(path: SwingUp) -> int | None:
    """Steps until the pendulum stays within 0.2 rad of upright; None if never."""
    angles = (path.states[:, 0] + math.pi) % (2 * math.pi) - math.pi
    away = np.nonzero(np.abs(angles) > 0.2)[0]
    last = int(away[-1]) + 1 if len(away) else 0
    return last if last < len(angles) - 50 else None


def explain(path: SwingUp) -> None:
    """Print how good what a policy did is."""
    print("Measured on a simulated pendulum, 500 steps from the bottom:\n")
    scale = {"hanging still": HANGING, "the paper, 450 samples": PAPER_450}
    scale |= {"this policy": path.total, "optimum, about": OPTIMUM}
    for name, value in scale.items():
        mark = "  <--" if name == "this policy" else ""
        print(f"  {name:<24}{value:>8.0f}{mark}")
    if (steps := upright_after(path)) is None:
        print("\nIt does not stay upright: try another --seed or more --updates.")
    else:
        print(f"\nUpright for good after {steps * 0.05:.1f} s.")


def animate(path: SwingUp, gif: Path) -> None:
    """Write a swing-up as a moving picture, every second step of it."""
    image, _ = (require_extra(name, "plots") for name in ("PIL.Image", "pygame"))
    env: Any = pendulum.swing_up_env(render_mode="rgb_array")
    frames = []
    for state, action in zip(path.states, path.actions[:MOST_STEPS], strict=False):
        env.state, env.last_u = state, float(action[0])
        frames.append(image.fromarray(env.render()))
    first, *others = frames[::2]
    how = {"save_all": True, "duration": round(2000 * pendulum.DT), "loop": 0}
    write_atomically(gif, lambda stream: first.save(stream, "GIF", append_images=others, **how))
