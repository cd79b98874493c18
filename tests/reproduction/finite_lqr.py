"""Exact return and gradient of a linear policy over some steps, by recursion."""

import numpy as np
from reproduction.envs.base import FloatArray
from reproduction.tasks.lqr import Lqr


def finite_lqr(
    env: Lqr, gain: FloatArray, horizon: int, covariance: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """J and dJ/dK of the first `horizon` steps of u = K x + e, backward then forward.

    Args:
        env: The task.
        gain: The matrix K, (2, 2).
        horizon: Steps that are summed.
        covariance: That of the Gaussian noise e, (2, 2); none is deterministic.
    """
    if covariance is None:
        covariance = np.zeros((2, 2))
    gamma, M = env.gamma, env.A + env.B @ gain
    stage = env.Q + gain.T @ env.R @ gain
    P, c = np.zeros((2, 2)), 0.0
    to_go = []  # P with 0, 1, 2, ... steps to go
    for _ in range(horizon):
        to_go.append(P)
        c = np.trace((env.R + gamma * env.B.T @ P @ env.B) @ covariance) + gamma * c
        P = stage + gamma * M.T @ P @ M
    objective = float(0.5 * (env.start @ P @ env.start + c))
    gradient, discount = np.zeros((2, 2)), 1.0
    moment = np.outer(env.start, env.start)  # E[x_t x_t']
    for P_next in reversed(to_go):
        gradient += discount * (env.R @ gain + gamma * env.B.T @ P_next @ M) @ moment
        moment = M @ moment @ M.T + env.B @ covariance @ env.B.T
        discount *= gamma
    return objective, gradient
