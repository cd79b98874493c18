"""Linear and quadratic models of predicted steps, for optimising whole trajectories."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.compiled import MOST_THREADS, compiled, packed
from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.hyperparameters import angle_bends, angle_slopes
from nopg.dynamics.rewards import KnownReward
from nopg.dynamics.rollouts import GONE
from nopg.dynamics.transition_model import PredictedStep, TransitionModel
from nopg.policies.arrays import Array
from nopg.threads import parallel_map, threads_for

BATCH = 512  # steps whose derivatives are taken at once
LONGER = 2.0  # times its length, up to which a path that has ended is looked at
DIFFERENCE = 1e-4  # of a known reward's slopes, in deviations of what it depends on


class Derivatives(NamedTuple):
    """Of steps by (s, a), arrays of (T, B, ...); d is d_s + d_a."""

    outcomes: PredictedStep[Array]
    moving: Array  # (.., d_s, d), of the next state
    earning: Array  # (.., d), of the reward
    bending: Array  # (.., d, d), its curvature without what bends upwards
    ending: Array  # (.., d), of the probability of an end
    leaving: Array  # (.., d), of that of leaving the data


def derivatives(
    model: TransitionModel,
    states: Array,
    actions: Array,
    *,
    are_paths: bool = False,
    is_exact: bool = False,  # in double precision
) -> Derivatives:
    """At states and actions (T, B, ...), some at a time.

    Of paths of T steps there are none long after they ended: 0, and an end for sure.
    """
    s, a = (x.reshape(-1, x.shape[2]) for x in (states, actions))
    steps = [field[0] for field in model.arrays.follow(s, a[None])]
    is_near = np.ones(states.shape[:2], dtype=bool)
    if are_paths:  # a change may make them longer
        survives = PredictedStep(*steps).survives.reshape(is_near.shape)
        n_made = (np.cumprod(survives, axis=0) > GONE).sum(axis=0)
        is_near = np.arange(len(states))[:, None] <= LONGER * (1 + n_made)
    rows, d_s, d = np.flatnonzero(is_near), s.shape[1], s.shape[1] + a.shape[1]
    widths = [*(field.shape[1:] for field in steps), (d_s, d), (d,), (d, d), (d,), (d,)]
    whole = [np.zeros((is_near.size, *width)) for width in widths]

    def part(first: int) -> None:
        some = rows[first : first + BATCH]
        states, actions, *fields = (torch.from_numpy(x[some]) for x in (s, a, *steps))
        step = PredictedStep(*fields)
        found = model.jacobians(states, actions, step, is_exact=is_exact)
        moving = found.next_states @ found.reached
        earning = found.rewards + (found.final_rewards[:, None] @ moving)[:, 0]
        ending = (found.terminated[:, None] @ moving)[:, 0]
        leaving = (found.out_of_support[:, None] @ found.reached)[:, 0]
        bending = _downwards(_reward_curvature(model, states, actions, step, moving))
        every = (*step, moving, earning, bending, ending, leaving)
        for to, made in zip(whole, every, strict=True):
            to[some] = made.numpy()

    made = None if is_exact else model.arrays.compiled
    if made is None:
        parallel_map(part, range(0, len(rows), BATCH))
    else:
        for field, to in zip(steps, whole[:6], strict=True):
            to[rows] = field[rows]
        made.derive(rows, *(np.ascontiguousarray(x, np.float64) for x in (s, a)), *whole)
        whole[8] = _downwards(torch.from_numpy(whole[8])).numpy()
    whole = [field.reshape(*is_near.shape, *field.shape[1:]) for field in whole]
    outcomes = PredictedStep(*whole[:6])
    outcomes.terminated[~is_near] = 1.0
    return Derivatives(outcomes, *whole[6:])


class SecondDerivatives(NamedTuple):
    """Of single steps by (s, a), (B, ...)."""

    earning: Array  # (B, d, d)
    moving: Array  # (B, d_s, d, d)

    def of_return(self, weights: Array) -> Array:
        """Downward curvature of the reward and of weighted next states, (B, d, d)."""
        found = self.earning + np.einsum("bi,bijk->bjk", weights, self.moving)
        return np.asarray(_downwards(torch.from_numpy(found)).numpy())


def second_derivatives(model: TransitionModel, states: Array, actions: Array) -> SecondDerivatives:
    """At B states and actions, by differences of the slopes."""
    # Of the motion, too: where an angle is a cosine and a sine, a reward that falls with the cosine
    # falls with the square of the sine, by how the two move together.
    every, d_s = np.concatenate([states, actions], axis=1), states.shape[1]
    sizes = DIFFERENCE * model.process.spread.numpy()[: every.shape[1]]
    moved = every + np.concatenate([np.diag(sizes), -np.diag(sizes)])[:, None]  # (2 d, B, d)
    found = derivatives(model, moved[..., :d_s], moved[..., d_s:], is_exact=True)

    def differences(slopes: Array) -> Array:
        above, below = np.split(slopes, 2)
        by_last = np.moveaxis(above - below, 0, -1) / (2.0 * sizes)
        return np.asarray(0.5 * (by_last + np.swapaxes(by_last, -1, -2)))

    return SecondDerivatives(differences(found.earning), differences(found.moving))


def _reward_curvature(
    model: TransitionModel,
    states: Tensor,
    actions: Tensor,
    step: PredictedStep[Tensor],
    moving: Tensor,
) -> Tensor:
    """Second derivatives of the reward by (s, a), (m, d, d)."""
    inputs = torch.cat([states, actions], dim=1)
    if model.known_reward is None:
        counts = model.reward_bounds.are_inside(step.continuing_rewards) * (1.0 - step.terminated)
        return counts[:, None, None] * process_curvature(model.process, inputs)
    whole = _known_curvature(model.known_reward, states, actions, step.next_states)
    same = torch.eye(inputs.shape[1]).to(inputs).expand(len(inputs), -1, -1)
    along = torch.cat([same, moving], dim=1)  # of (s, a, s') by (s, a)
    return along.mT @ whole @ along


def process_curvature(process: GaussianProcess, inputs: Tensor) -> Tensor:
    """Second derivatives of the last target, (m, d, d)."""
    # Of w exp(-|z|^2 / 2) with z = (x - c) / l they are w exp(-|z|^2 / 2) (z z' - 1)
    # over l l'. With angles t of the inputs x they are T' F T + sum_k f_k t_k'', where
    # T = d(x, t)/dx, F and f are second and first derivatives by (x, t).
    found = _kernel_curvature(process, inputs)
    if not process.angles:
        return found
    d = inputs.shape[1]
    same = torch.eye(d).to(inputs).expand(len(inputs), -1, -1)
    along = torch.cat([same, angle_slopes(inputs, process.angles)], dim=1)
    by_angle = process.slopes(inputs)[:, -1, d:]
    bends = angle_bends(inputs, process.angles)
    return along.mT @ found @ along + torch.einsum("mk,mkij->mij", by_angle, bends)


def _kernel_curvature(process: GaussianProcess, inputs: Tensor) -> Tensor:
    """The same by inputs and by angles, as if these were free."""
    d, last = len(process.centre), process.linear.shape[1] - 1
    where = torch.nonzero(process.curved == last)[:, 0].tolist()
    if not where:  # a linear function
        return inputs.new_zeros(len(inputs), d, d)
    z, scales = process.standardised(inputs), process.inverse_scales[where[0]]
    x, weighted = z * scales, process.weighted(where[0], z)
    points = process.inducing[: weighted.shape[1]] * scales  # (k, d)
    # Multiplied out, so that products of points are made once: the first is most of the work.
    squares = (points[:, :, None] * points[:, None]).view(len(points), -1)
    across = (weighted @ points)[:, :, None] * x[:, None]
    total = weighted.sum(dim=1)[:, None, None]
    found = (weighted @ squares).view(-1, d, d) - across - across.mT
    found += total * (x[:, :, None] * x[:, None] - torch.eye(d).to(x))
    unit = scales / process.spread
    return found * unit[:, None] * unit


def _known_curvature(known: KnownReward, *given: Tensor) -> Tensor:
    """Those of a function by (s, a, s'), by differences of its slopes."""
    every, widths = torch.cat(given, dim=1), [x.shape[1] for x in given]
    sizes = DIFFERENCE * every.std(dim=0, correction=0).clamp_min(1e-6)

    def slopes(j: int, size: Tensor) -> Tensor:
        moved = every.clone()
        moved[:, j] += size
        return torch.cat(known.gradients(*torch.split(moved, widths, dim=1)), dim=1)

    columns = [(slopes(j, size) - slopes(j, -size)) / (2.0 * size) for j, size in enumerate(sizes)]
    return torch.stack(columns, dim=2)


def _downwards(curvature: Tensor) -> Tensor:
    """The nearest matrices that bend nowhere upwards, in place: a maximum of them is one."""
    curvature, failed = curvature.contiguous(), np.zeros(1, dtype=np.int64)
    library = compiled("nopg.dynamics", "curvature.c", False)
    if library is not None:
        given = packed(*curvature.shape[:2], curvature, failed)
        if not library.nopg_downwards(given, threads_for(MOST_THREADS)):
            return curvature
    # A known reward may be undefined where nobody has been.
    curvature = torch.nan_to_num(0.5 * (curvature + curvature.mT), 0.0, 0.0, 0.0)
    bends = torch.linalg.cholesky_ex(-curvature)[1] > 0  # the others are as they should be
    values, vectors = torch.linalg.eigh(curvature[bends])
    curvature[bends] = (vectors * values.clamp_max(0.0)[:, None]) @ vectors.mT
    return curvature
