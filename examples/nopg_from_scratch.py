"""The nonparametric off-policy policy gradient in one file, for reading.

    python examples/nopg_from_scratch.py

swings up a pendulum from 450 logged transitions. Everything the method needs is here,
written as in the paper (Tosatto, Carvalho, Abdulsamad, Peters, AISTATS 2020), with
dense matrices and nothing but numpy and torch. The library computes the same numbers
sparsely and with error bounds; tests hold the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Log:
    """The transitions (s_i, a_i, r_i, s'_i), and the widths of the kernels on them."""

    s: Tensor  # (n, d_s)
    a: Tensor  # (n, d_a)
    r: Tensor  # (n,)
    s_next: Tensor  # (n, d_s)
    ends: Tensor  # (n,) whether the step ended the task
    h_s: Tensor  # (d_s,) bandwidths of the state kernel psi
    h_a: Tensor  # (d_a,) bandwidths of the action kernel varphi


def log_kernel(x: Tensor, centres: Tensor, h: Tensor) -> Tensor:
    """The log of a Gaussian kernel, up to a constant: (m, d), (n, d) -> (m, n)."""
    return -0.5 * (((x[:, None] - centres[None]) / h) ** 2).sum(dim=2)


def responsibilities(states: Tensor, policy: nn.Module, log: Log) -> Tensor:
    """eps_pi(s): how much each logged step says about acting in s, (m, n).

    Definition 2 for a deterministic policy a = pi(s):

        eps_i(s) = psi_i(s) varphi_i(pi(s)) / sum_j psi_j(s) varphi_j(pi(s)).

    A quotient of products of exponentials is a softmax of sums, which cannot
    underflow however far s is from the data.
    """
    log_psi = log_kernel(states, log.s, log.h_s)
    log_varphi = log_kernel(policy(states), log.a, log.h_a)
    return torch.softmax(log_psi + log_varphi, dim=1)


@dataclass(frozen=True)
class Estimate:
    """What the nonparametric Bellman equation says of one policy."""

    P: Tensor  # (n, n) which logged steps speak where each of them led to
    eps0: Tensor  # (n,) responsibilities averaged over the initial states
    q: Tensor  # (n,) value of each logged step
    mu: Tensor  # (n,) discounted visits to each logged step
    J: Tensor  # () expected discounted return


def evaluate(policy: nn.Module, log: Log, starts: Tensor, gamma: float) -> Estimate:
    """Solve the nonparametric Bellman equation.

    Row i of P is the integral of phi_i(s') eps_pi(s')' over s', taken at the mean of
    phi_i, which is s'_i, as in the paper's experiments. A step that ended the task
    leads nowhere: its row is zero.

    Theorem 1: V(s) = eps_pi(s)' q with Lambda q = r, Lambda = I - gamma P, is the
    only solution. Then J = eps_0' q, and Lambda' mu = eps_0 counts the visits.
    """
    P = responsibilities(log.s_next, policy, log) * ~log.ends[:, None]
    eps0 = responsibilities(starts, policy, log).mean(dim=0)
    with torch.no_grad():
        Lambda = torch.eye(len(log.r), dtype=P.dtype) - gamma * P
        q = torch.linalg.solve(Lambda, log.r)
        mu = torch.linalg.solve(Lambda.T, eps0)
        return Estimate(P, eps0, q, mu, J=eps0 @ q)


def gradient(estimate: Estimate, policy: nn.Module, gamma: float) -> tuple[Tensor, ...]:
    """The whole gradient of J, Eq. (10): dJ = (d eps_0)' q + gamma mu' (dP) q.

    q and mu are held fixed; that is exact, not an approximation.
    """
    surrogate = estimate.eps0 @ estimate.q
    surrogate = surrogate + gamma * (estimate.mu @ (estimate.P @ estimate.q))
    return torch.autograd.grad(surrogate, list(policy.parameters()))


def ascend(
    policy: nn.Module, log: Log, starts: Tensor, gamma: float, n_updates: int
) -> list[float]:
    """Algorithm 1: Adam ascent on J; returns J as it was before each update."""
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2, maximize=True)
    curve = []
    for _ in range(n_updates):
        estimate = evaluate(policy, log, starts, gamma)
        gradients = gradient(estimate, policy, gamma)
        for parameter, slope in zip(policy.parameters(), gradients, strict=True):
            parameter.grad = slope
        optimizer.step()
        curve.append(float(estimate.J))
    return curve


# The pendulum of the paper's first experiment, with the angle measured from upright.


def pendulum(theta: Any, speed: Any, torque: Any) -> tuple[Any, Any, Any]:
    """One step of 0.05 s: next angle, next speed, reward."""
    wrapped = (theta + np.pi) % (2.0 * np.pi) - np.pi
    reward = -(wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2)
    speed = np.clip(speed + 0.05 * (15.0 * np.sin(theta) + 3.0 * torque), -8.0, 8.0)
    return theta + 0.05 * speed, speed, reward


def observe(theta: Any, speed: Any) -> Tensor:
    """(cos, sin, speed): the angle as a point of the circle, (n, 3)."""
    return torch.tensor(np.stack([np.cos(theta), np.sin(theta), speed], axis=-1))


def grid(n_angles: int, n_speeds: int) -> Log:
    """One step from every point of a grid, with full torque either way."""
    angles = np.linspace(-np.pi, np.pi, n_angles)
    speeds = np.linspace(-8.0, 8.0, n_speeds)
    theta, speed, torque = (
        x.ravel() for x in np.meshgrid(angles, speeds, [-2.0, 2.0], indexing="ij")
    )
    next_theta, next_speed, reward = pendulum(theta, speed, torque)
    # Kernels half as wide as the grid's spacing: neighbours blend, others do not.
    angle, velocity = (angles[1] - angles[0]) / 2, (speeds[1] - speeds[0]) / 2
    return Log(
        s=observe(theta, speed),
        a=torch.tensor(torque)[:, None],
        r=torch.tensor(reward),
        s_next=observe(next_theta, next_speed),
        ends=torch.zeros(len(reward), dtype=torch.bool),
        h_s=torch.tensor([angle, angle, velocity]),
        h_a=torch.tensor([2.0]),
    )


class Policy(nn.Module):
    """pi(s) = 2 tanh(net(s)) with one hidden layer of 50, as in the paper."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 50), nn.ReLU(), nn.Linear(50, 1)).double()
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            bound = (6.0 / sum(parameter.shape)) ** 0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, states: Tensor) -> Tensor:
        """Torques, (m, 1)."""
        return 2.0 * torch.tanh(self.net(states))


def swing_up(policy: nn.Module, n_steps: int = 500) -> float:
    """The policy's return on the pendulum itself, from hanging at rest."""
    theta, speed, total = np.pi, 0.0, 0.0
    for _ in range(n_steps):
        with torch.no_grad():
            torque = policy(observe(theta, speed)[None]).item()
        theta, speed, reward = pendulum(theta, speed, torque)
        total += reward
    return total


if __name__ == "__main__":
    log, starts, policy = grid(15, 15), observe(np.pi, 0.0)[None], Policy()
    print(f"{len(log.r)} transitions; return before learning {swing_up(policy):.0f}")
    curve = ascend(policy, log, starts, gamma=0.97, n_updates=300)
    print(f"J rose from {curve[0]:.0f} to {curve[-1]:.0f}")
    print(f"return {swing_up(policy):.0f}; hanging still -4935, the best about -299")
