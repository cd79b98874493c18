"""Newton's method for matched rows, all rows of a block at once, in torch.

For GPUs, and where no compiler makes `rows.c`. What is minimised is explained in `matched.py`.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

# Where the wall stands, in bandwidths, and its power; a tilt of 2 leaves a mean 2e-7 off its query.
REACH, STEEPNESS = 8.0, 12  # these and the others are in `rows.c`, too
RIDGE = 1e-9  # curvature that is always there: samples in one place have none
MAX_STEPS = 40
LONGEST_STEP = 4.0  # of Newton's method in theta: farther out the curvature is another


class Features(NamedTuple):
    """What no action changes of the rows of one block."""

    base: Tensor  # log of psi_j exp(-|a_j|^2 / 2), (m, k)
    g: Tensor  # offsets and actions in bandwidths, (m, d, k)


def search(
    features: Features, taken: Tensor, start: Tensor | None, accuracy: float
) -> tuple[Tensor, ...]:
    """Rows for one action per query, in bandwidths, (m, d_a)."""
    # Weights (m, k); states (m, d + d d_a + d_a): theta, its derivative by the actions, and these;
    # the log of the mass, a bound on the total variation and the displacement left, (m,) each. From
    # `start`, states of rows of actions close by, or plain rows, to a decrement of `accuracy`.
    (m, d, _), d_a = features.g.shape, taken.shape[1]
    plain = torch.cat([taken.new_zeros((m, d - d_a)), taken], dim=1)  # theta_0
    theta = plain.clone() if start is None else _predicted(start, taken)
    accuracy = max(accuracy, 100.0 * torch.finfo(taken.dtype).eps)
    found = _evaluate(features, theta, plain)
    is_open = found.left > accuracy
    for _ in range(MAX_STEPS):
        if not bool(is_open.any()):
            break
        which = is_open.nonzero()[:, 0]
        some = Features(features.base[which], features.g[which])
        better = _improved(some, plain[which], found.of(which))
        found.put(which, better)
        is_open[which] = better.left > accuracy
    one = torch.eye(d, dtype=taken.dtype, device=taken.device)
    moved = (found.bend + one)[:, :, d - d_a :]  # (I + H) e_a
    gains = torch.linalg.solve_ex(found.curvature, moved)[0]  # by C + H, (m, d, d_a)
    state = torch.cat([found.theta, gains.reshape(m, d * d_a), taken], dim=1)
    # The mass is that of the kernel: a tilt only moves where it is looked from.
    log_mass = found.log_mass - 0.5 * plain.square().sum(dim=1)
    return found.weights, state, log_mass, 0.5 * found.left, found.offset.square().sum(dim=1).sqrt()


def slopes_of(g: Tensor, weights: Tensor, state: Tensor, beside: Tensor, widths: Tensor) -> Tensor:
    """d (E q)_i / d a_i of rows, (m, d_a); `beside` is q of their samples, (m, k)."""
    d, d_a = g.shape[1], len(widths)
    mean = (weights * beside).sum(dim=1, keepdim=True)
    c = torch.matmul(g, (weights * (beside - mean))[..., None])  # Cov(q, g), (m, d, 1)
    return (c * state[:, d : d + d * d_a].reshape(-1, d, d_a)).sum(dim=1) / widths


def _predicted(state: Tensor, taken: Tensor) -> Tensor:
    """Where theta goes, to first order, when the action goes to `taken`, (m, d)."""
    d_a = taken.shape[1]
    d = (state.shape[1] - d_a) // (1 + d_a)
    gains = state[:, d : d + d * d_a].reshape(-1, d, d_a)
    return state[:, :d] + (gains * (taken - state[:, d + d * d_a :])[:, None]).sum(dim=2)


@dataclass
class _Rows:
    """Rows at one theta each, and what Newton's method needs of them, (m, ...)."""

    weights: Tensor
    theta: Tensor
    dual: Tensor
    step: Tensor  # Newton's
    curvature: Tensor
    bend: Tensor
    log_mass: Tensor
    left: Tensor  # Newton decrement: sqrt(2 KL) from the row that is meant, nearly
    offset: Tensor  # mean less query

    def of(self, which: Tensor) -> Self:
        """Only some of the rows."""
        return type(self)(*(value[which] for value in vars(self).values()))

    def put(self, which: Tensor, other: Self) -> None:
        """Take some rows from another."""
        for name, value in vars(self).items():
            value[which] = getattr(other, name)


def _improved(features: Features, plain: Tensor, now: _Rows) -> _Rows:
    """A Newton step, drawn back while the dual does not fall."""
    length = now.step.norm(dim=1, keepdim=True)
    step = now.step * (LONGEST_STEP / length.clamp(min=LONGEST_STEP))
    share = torch.ones_like(length)
    rounding = max(1e-12, 10.0 * torch.finfo(step.dtype).eps)
    for _ in range(MAX_STEPS):
        tried = _evaluate(features, now.theta - share * step, plain)
        is_worse = ~(tried.dual <= now.dual + rounding * (1.0 + now.dual.abs()))
        if not bool(is_worse.any()):
            break
        share = torch.where(is_worse[:, None], 0.25 * share, share)
    return tried


def _evaluate(features: Features, theta: Tensor, plain: Tensor) -> _Rows:
    logits = features.base + torch.matmul(theta[:, None], features.g)[:, 0]
    weights, log_mass = torch.softmax(logits, dim=1), torch.logsumexp(logits, dim=1)
    weighted = features.g * weights[:, None]  # (m, d, k)
    mean, second = weighted.sum(dim=2), torch.matmul(weighted, features.g.mT)
    covariance = second - mean[:, :, None] * mean[:, None]
    # What the difference may have lost to rounding, or it were indefinite.
    lost = 10.0 * torch.finfo(mean.dtype).eps
    covariance.diagonal(dim1=1, dim2=2).add_(second.diagonal(dim1=1, dim2=2), alpha=lost)
    tilt, offset = theta - plain, mean - plain
    wall, bend = _wall(tilt)
    slope = offset + wall[:, None] * tilt
    dual = log_mass - (theta * plain).sum(dim=1) + wall * tilt.square().sum(dim=1) / STEEPNESS
    curvature = covariance + bend
    step = torch.linalg.solve_ex(curvature, slope)[0]
    left = (slope * step).sum(dim=1).clamp(min=0.0).sqrt()
    return _Rows(weights, theta, dual, step, curvature, bend, log_mass, left, offset)


def _wall(tilt: Tensor) -> tuple[Tensor, Tensor]:
    """Slope of the wall per tilt, (m,), and its curvature, (m, d, d)."""
    square = tilt.square().sum(dim=1)
    steep = (square / REACH**2) ** (0.5 * STEEPNESS - 1.0) / REACH
    tiny = torch.finfo(tilt.dtype).tiny  # 0 / 0 where nothing is tilted
    outward = tilt / (square + tiny).sqrt()[:, None]
    bend = (STEEPNESS - 2.0) * steep[:, None, None] * outward[:, :, None] * outward[:, None]
    bend.diagonal(dim1=1, dim2=2).add_((steep + RIDGE)[:, None])
    return steep, bend
