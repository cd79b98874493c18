"""What a baseline reports while it learns, and how its policy is called."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nopg.errors import ConfigError

Act = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Observations (m, d_s) to actions (m, d_a), ready for `reproduction.envs.rollout`."""


class Update(NamedTuple):
    """One policy update of a baseline written here."""

    step: int
    """Updates made so far, this one included."""
    objective: float
    """The estimate of J the update started from."""
    gradient: Tensor
    """Flat gradient of that estimate, (n_parameters,)."""


class Progress(NamedTuple):
    """Where a baseline of another library stands."""

    step: int
    """Updates (offline) or environment steps (online) made so far."""
    seconds: float
    """Time spent learning, without what the caller did in between."""
    act: Act
    """The present policy without exploration; it changes as learning goes on."""


def acting(policy: nn.Module) -> Act:
    """A torch policy, states to actions, as a function of numpy arrays."""

    def act(observations: NDArray[np.float64]) -> NDArray[np.float64]:
        with torch.no_grad():
            actions: Tensor = policy(torch.as_tensor(observations))
        return np.asarray(actions.numpy(), dtype=np.float64)

    return act


def in_chunks(
    learn: Callable[[int], None], act: Act, *, n_steps: int, report_every: int
) -> Iterator[Progress]:
    """Learn exactly `n_steps` steps, reporting each time a chunk is done.

    Args:
        learn: Makes the given number of further steps.
        act: The policy being learnt.
        n_steps: Steps in all; a last, shorter chunk makes up the rest.
        report_every: Steps a chunk.
    """
    if n_steps < 1 or report_every < 1:
        raise ConfigError(
            "`n_steps` and `report_every` must be at least 1, got "
            f"{n_steps} and {report_every}; a run needs a step."
        )
    done, seconds = 0, 0.0
    while done < n_steps:
        chunk = min(report_every, n_steps - done)
        start = time.perf_counter()
        learn(chunk)
        seconds += time.perf_counter() - start
        done += chunk
        yield Progress(done, seconds, act)


def flat_gradient(module: nn.Module) -> Tensor:
    """The gradients of all parameters in one vector; untouched ones are zero."""
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]
    return torch.cat([part.detach().reshape(-1) for part in parts]).clone()
