"""Linear feedback around paths: controllers that change with time.

A path that is unstable is lost after some steps if its actions are merely repeated.
With a feedback it stays near its own prediction, in the model and in others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nopg.dynamics.rollouts import ModelRollout, discounted_return
from nopg.dynamics.transition_model import ArrayTransitionModel, PredictedStep
from nopg.policies.arrays import Array


class Feedback(NamedTuple):
    """B controllers a_t = u_t + K_t (s_t - x_t) of T steps, within the actions' range.

    The states x need not follow from one another: a controller may begin as one that
    pulls towards a place.
    """

    states: Array  # (T, B, d_s)
    actions: Array  # (T, B, d_a)
    gains: Array  # (T, B, d_a, d_s)

    def act(self, states: Array, limits: Array, t: Any = slice(None)) -> Array:
        """Actions at step t, or at all of them; `limits` are lowest and highest."""
        away = (states - self.states[t])[..., None]
        return np.clip(self.actions[t] + (self.gains[t] @ away)[..., 0], *limits)

    def of_paths(self, paths: Array) -> Feedback:
        """Those of some paths, by their indices."""
        return Feedback(*(field[:, paths] for field in self))


class _Limited(NamedTuple):
    """Controllers as compiled code takes them."""

    controllers: Feedback
    limits: Array

    def compiled_fields(self, d_a: int) -> dict[str, Any]:
        states, actions, gains = self.controllers
        half = 0.5 * (self.limits[1] - self.limits[0])
        middle = self.limits.mean(axis=0)
        fields = {"count": 1, "given": actions, "gains": gains, "centres": states}
        return fields | {"middle": middle, "half": half}


def follow_feedback(
    model: ArrayTransitionModel,
    controllers: Feedback,
    starts: Array,
    limits: Array,
    worst: float,
    gamma: float,
    noise: Array | None = None,
) -> ModelRollout:
    """Roll out controllers from their starts; `worst` is earned out of support.

    Args:
        model: A learned model, or drawn ones.
        controllers: B of them.
        starts: Where each starts, (B, d_s).
        limits: Lowest and highest action, (2, d_a).
        worst: Value out of support.
        gamma: Discount factor.
        noise: Disturbs the actions, (T, B, d_a); those given back are as meant.
    """
    moved = controllers
    if noise is not None:
        moved = controllers._replace(actions=controllers.actions + noise)
    n_steps = len(moved.actions)
    if model.compiled is not None:
        made = model.compiled.rollout(_Limited(moved, limits), starts, n_steps, None)
    else:
        steps, states = [], starts
        for t in range(n_steps):
            taken = moved.act(states, limits, t)
            steps.append((states, taken, *model.step(states, taken)))
            states = steps[-1][3]
        made = tuple(np.stack(field) for field in zip(*steps, strict=True))
    outcomes = PredictedStep(*made[2:])
    returns = discounted_return(outcomes, gamma, worst)
    meant = controllers.act(made[0], limits)
    return ModelRollout(made[0], meant, outcomes, returns)
