"""Small random problems with everything in them: terminals, several starts, draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nopg
from nopg.bellman.equation import BellmanEquation
from nopg.bellman.samples import Samples
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy

KINDS = ("deterministic", "paper", "kernel-average", "analytic", "discrete")


@dataclass(frozen=True)
class SmallProblem:
    """Data, policy and settings of one equation."""

    data: nopg.Dataset
    policy: Policy
    initial_states: np.ndarray
    bandwidths: nopg.Bandwidths
    settings: dict[str, Any]

    def equation(self, **changes: Any) -> BellmanEquation:
        return BellmanEquation(
            self.data,
            self.policy,
            self.initial_states,
            bandwidths=self.bandwidths,
            **(self.settings | changes),
        )


def only_states(states: Tensor) -> Samples:
    """Samples of which nothing but the states is asked for."""
    one = states[:, 0]
    return Samples(states, one, one, states, one)


def small_problem(
    kind: str,
    seed: int = 0,
    *,
    n: int = 40,
    d_s: int = 2,
    d_a: int = 2,
    next_state_samples: int = 3,
    gamma: float = 0.9,
    has_terminals: bool = True,
    state_bandwidth: float = 0.5,
) -> SmallProblem:
    """A problem for one kind of policy; the same seed gives the same problem."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, d_s))
    is_discrete = kind == "discrete"
    actions = rng.integers(0, 3, n) if is_discrete else rng.uniform(-1, 1, (n, d_a))
    data = nopg.Dataset(
        states,
        actions,
        rng.normal(size=n),
        states + 0.4 * rng.normal(size=(n, d_s)),
        (rng.random(n) < 0.15) & has_terminals,
    )
    family = kind if kind in ("deterministic", "discrete") else "stochastic"
    spec = PolicySpec(kind=family, n_states=d_s, n_outputs=3 if is_discrete else d_a, hidden=(6,))
    generator = torch.Generator().manual_seed(seed)
    box = (None, None) if is_discrete else (-torch.ones(d_a), torch.ones(d_a))
    stochastic = {"stochastic": kind} if family == "stochastic" else {}
    return SmallProblem(
        data=data,
        policy=spec.build(generator, *box),
        initial_states=rng.normal(size=(4, d_s)),
        bandwidths=nopg.Bandwidths(
            [state_bandwidth] * d_s, [0.05] if is_discrete else [0.6] * d_a, [0.2] * d_s
        ),
        settings={
            "gamma": gamma,
            "rtol": 1e-12,
            "policy_samples": 5,
            "next_state_samples": next_state_samples,
            "seed": seed,
            **stochastic,
        },
    )
