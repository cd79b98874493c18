"""A scripted operator of MountainCar-v0, slow and unsure, as a person might be.

It has the habits of `scripted_operator`, milder, since the engine here has two thirds
of the power: it sees the car four steps late, holds one of three keys (left,
nothing, right) for two to eight steps before thinking again, presses nothing a third
of the time, and the wrong key one time in ten. While recording there is no limit of
200 steps: it drives until it is out of the valley, on average after 230 steps.
"""

from __future__ import annotations

import numpy as np

from nopg.errors import ConfigError
from reproduction.tasks.gym_steps import Steps, make
from reproduction.tasks.scripted_operator import Operator

TASK = "MountainCar-v0"
OPERATOR = Operator(delay=4, shortest_hold=2, longest_hold=8, idleness=0.35, clumsiness=0.1)
PATIENCE = 1000
"""Steps after which an attempt is given up and left out."""


def demonstrations(n: int, generator: np.random.Generator) -> Steps:
    """Let the operator out of the valley n times, each an episode of its own.

    Args:
        n: Number of demonstrations.
        generator: Source of the starts and of the operator's whims.

    Raises:
        ConfigError: If fewer than one is asked for.
    """
    if n < 1:
        raise ConfigError(f"There must be at least one demonstration, got {n}; ask for more.")
    recorded, episode = Steps(), 0
    while episode < n:
        attempt = drive(generator)
        if attempt is not None:
            recorded.extend(attempt, episode)
            episode += 1
    return recorded


def drive(generator: np.random.Generator, operator: Operator = OPERATOR) -> Steps | None:
    """One attempt; None if the operator loses patience."""
    env, steps = make(TASK).unwrapped, Steps()  # without the limit of 200 steps
    seen = [env.reset(seed=int(generator.integers(2**31)))[0]]
    label, next_decision = 1, 0
    while len(steps) < PATIENCE:
        now = len(steps)
        if now == next_decision:
            late = seen[max(0, now - operator.delay)]
            key = operator.decide(float(late[1]), generator)  # -1, 0 or 1
            label = round(key) + 1
            hold = generator.integers(operator.shortest_hold, operator.longest_hold + 1)
            next_decision += int(hold)
        following, reward, is_over, _, _ = env.step(label)
        steps.add(seen[-1], label, reward, following, is_over, False, 0)
        seen.append(following)
        if is_over:
            return steps
    return None
