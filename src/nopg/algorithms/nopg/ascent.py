"""Algorithm 1: Adam ascent on J, an update at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.algorithms.nopg.states import AscentState
from nopg.bellman.solution import BellmanSolution, Estimator
from nopg.errors import ConfigError
from nopg.fitted.history import Update
from nopg.linalg.solve import SolverConfig
from nopg.policies.adam import Adam
from nopg.policies.base import Policy

REFRESH = 8
"""Updates one coarse inverse serves at most: by then it costs as much as it saves."""
GROWTH, NOTICEABLE = 1.15, 3
"""Growth in products, as a factor and a number, that ends its service before: at first
policies change so fast that it is out of date after two updates."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the policy climbs."""

    learning_rate: float = 1e-2
    """Adam's step size at the start."""
    schedule: str = "cosine"
    """"cosine" lets the step size fall to zero over the updates; "constant" keeps it,
    as the paper does."""
    rtol: float = 1e-2
    """Relative residual of the solves during training. Their errors hardly move the
    learning curve, and J is corrected for them."""
    final_rtol: float = 1e-6
    """Relative residual of the last solve, whose q and mu are kept."""

    def __post_init__(self) -> None:
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise ConfigError(
                f"`learning_rate` must be positive, got {self.learning_rate}; 1e-2 is "
                "the paper's."
            )
        if self.schedule not in ("cosine", "constant"):
            raise ConfigError(
                f'`schedule` must be "cosine" or "constant", got {self.schedule!r}.'
            )

    def rate(self, step: int, n_updates: int) -> float:
        """Step size of update `step`, counted from 0."""
        if self.schedule == "constant":
            return self.learning_rate
        return 0.5 * self.learning_rate * (1.0 + math.cos(math.pi * step / n_updates))


def ascend(
    estimator: Estimator,
    policy: Policy,
    config: TrainingConfig,
    n_updates: int,
    generator: torch.Generator,
    state: AscentState | None = None,
) -> Iterator[Update]:
    """Improve `policy` in place, yielding after each update.

    Args:
        estimator: J and its gradient.
        policy: Changed by every update.
        config: Step sizes and accuracy.
        n_updates: How many updates; the schedule is spread over them.
        generator: Source of a stochastic policy's draws, fresh at every update.
        state: Where to begin, kept up to date; a fresh one by default. With that of
            an earlier ascend, and its policy, the updates go on to the same bits.
    """
    parameters = [p for p in policy.parameters() if p.requires_grad]
    if not parameters:
        raise ConfigError(
            "The policy must have parameters to learn, it has none that require a "
            "gradient; give it a trainable layer."
        )
    adam = Adam(parameters)
    solver = SolverConfig(rtol=config.rtol)
    state = AscentState() if state is None else state
    state.attach(adam, generator)
    began = time.perf_counter() - state.seconds
    for step in range(state.step, n_updates):
        solution = estimator.solve(policy, generator, solver, state.start)
        spent = solution.q.matvecs + solution.mu.matvecs
        fewest = state.fewest = min(spent, state.fewest or spent)
        has_grown = spent > max(GROWTH * fewest, fewest + NOTICEABLE)
        is_old = (step + 1) % REFRESH == 0 or has_grown
        state.start = solution.following(keep_correction=not is_old)
        state.fewest = None if is_old else state.fewest
        gradients = solution.gradient(policy)
        rate = config.rate(step, n_updates)
        adam.step(gradients, rate)
        state.step, state.seconds = step + 1, time.perf_counter() - began
        yield _record(step + 1, solution, gradients, rate, state.seconds)


def _record(
    step: int,
    solution: BellmanSolution,
    gradients: tuple[Tensor, ...],
    rate: float,
    seconds: float,
) -> Update:
    objective = solution.objective()
    q, mu = solution.q, solution.mu
    return Update(
        step=step,
        objective=float(objective),
        certificate=objective.certificate,
        gradient_norm=math.hypot(*[g.item() for g in torch._foreach_norm(gradients)]),
        learning_rate=rate,
        matvecs=q.matvecs + mu.matvecs,
        breakdowns=q.breakdowns + mu.breakdowns,
        fallbacks=q.fallbacks + mu.fallbacks,
        seconds=seconds,
    )
