"""Value, visitation and policy over planes through the state space.

A plane moves two coordinates and holds the others at the mean of the predicted
visits. Every plane is computed here, so that the page can show any pair of
coordinates without a model behind it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch

from nopg.algorithms.nopg.nopg import NOPG
from nopg.bellman.equation import evaluate_at
from nopg.data.validation import FloatArray
from nopg.randomness import Seed
from nopg.report.coordinates import Coordinate
from nopg.report.support import NearestSample, typical_actions

CELLS = 500_000
"""Numbers all planes together may have: five bytes each on the page."""
WORK = 40_000_000
"""Kernel entries all planes together may take: a few seconds on a slow core."""
FINEST, COARSEST, LINE = 72, 21, 301
"""Points a side of a plane, at most and at least; points of a line."""
COMPLETE = 4_096
"""Samples up to which rows are complete."""
_ENTRIES = 2_000_000


@dataclass(frozen=True)
class Plane:
    """One slice on a grid; rows of the arrays go with the second coordinate.

    Attributes:
        x: Number of the horizontal coordinate.
        y: Number of the vertical one; None for a line of one-dimensional states.
        xs: Grid of the first, (c,).
        ys: Grid of the second, (r,); one zero for a line.
        value: V(s), (r, c).
        visitation: mu(s), (r, c).
        distance: To the nearest sample at the policy's action, in bandwidths, (r, c).
        actions: The policy: one layer an action dimension, (d_a, r, c); for discrete
            actions the likeliest label and its probability, (2, r, c).
    """

    x: int
    y: int | None
    xs: FloatArray
    ys: FloatArray
    value: FloatArray
    visitation: FloatArray
    distance: FloatArray
    actions: FloatArray


def planes(model: NOPG, axes: tuple[Coordinate, ...], held: FloatArray) -> list[Plane]:
    """Every pair of coordinates, or a line where there is only one.

    Args:
        model: A fitted model.
        axes: The coordinates.
        held: The state that gives the coordinates a plane does not move, (d_s,).
    """
    nearest = NearestSample(model)
    if len(axes) == 1:
        xs = np.linspace(axes[0].low, axes[0].high, LINE)
        return [_plane(model, nearest, axes, held, 0, None, xs, np.zeros(1))]
    pairs = list(combinations(range(len(axes)), 2))
    side = _side(model, len(pairs))
    draws = _draws(model, len(pairs) * side**2)
    found = []
    for x, y in pairs:
        xs, ys = (np.linspace(axes[c].low, axes[c].high, side) for c in (x, y))
        found.append(_plane(model, nearest, axes, held, x, y, xs, ys, draws))
    return found


def _side(model: NOPG, n_pairs: int) -> int:
    """Points a side, so that page and time stay small."""
    data = model.setup.data
    assert data is not None
    layers = 3 + (2 if data.is_discrete else data.actions.shape[1])
    by_size = math.sqrt(CELLS / (n_pairs * layers))
    by_work = math.sqrt(WORK / (n_pairs * _row_length(model, len(data))))
    return int(np.clip(min(by_size, by_work), COARSEST, FINEST))


def _plane(
    model: NOPG,
    nearest: NearestSample,
    axes: tuple[Coordinate, ...],
    held: FloatArray,
    x: int,
    y: int | None,
    xs: FloatArray,
    ys: FloatArray,
    draws: int | None = None,
) -> Plane:
    states = np.tile(held, (len(ys) * len(xs), 1))
    axes[x].place(states, np.tile(xs, len(ys)))
    if y is not None:
        axes[y].place(states, np.repeat(ys, len(xs)))
    shape = (len(ys), len(xs))
    value, visitation = values_and_visits(model, states, draws)
    distance = nearest.distance(states, typical_actions(model, states))
    return Plane(
        x=x,
        y=y,
        xs=xs,
        ys=ys,
        value=value.reshape(shape),
        visitation=visitation.reshape(shape),
        distance=distance.reshape(shape),
        actions=_policy_layers(model, states).reshape(-1, *shape),
    )


def values_and_visits(
    model: NOPG, states: FloatArray, draws: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """V(s) and mu(s) as `NOPG.value` and `NOPG.visitation` give them, (m,) each.

    Rows may hold samples that lists leave out: the two agree to the `tolerance`.

    Args:
        model: A fitted model.
        states: Where, (m, d_s).
        draws: Draws of a stochastic policy; by default as many as it was learned with.
    """
    solution = model.solution
    q, mu = solution.q.value, solution.mu.value
    problem = solution.estimator.problem
    config = problem.config
    if len(q) <= COMPLETE:  # all samples cost less than a search for the near ones
        config = replace(config, neighbours=None)
    if draws is not None:
        config = replace(config, policy_samples=draws)
    problem = replace(problem, config=config)
    values, visits = [], []
    for some in _in_parts(states, _row_length(model, len(q))):
        # A fresh Seed a part, as in NOPG.value: the draws of sampled rows are equal.
        rows = evaluate_at(problem, model.policy, some, Seed(model.config.seed))
        values.append(rows.matvec(q).double().cpu().numpy())
        visits.append(rows.matvec(mu).double().cpu().numpy())
    return np.concatenate(values), np.concatenate(visits)


def _draws(model: NOPG, n_states: int) -> int | None:
    """Fewer draws of a stochastic policy where all of them would take minutes."""
    data, config = model.setup.data, model.config.estimator
    assert data is not None
    affordable = 2 * WORK // (n_states * _row_length(model, len(data)))
    return None if config.policy_samples <= affordable else max(3, affordable)


def _row_length(model: NOPG, n_samples: int) -> int:
    """Entries of a row at most, about: all samples, or twice what a list may hold."""
    config = model.config.estimator
    if config.neighbours is None or n_samples <= COMPLETE:
        return n_samples
    listed = config.neighbours if isinstance(config.neighbours, int) else 0
    return min(n_samples, 2 * max(listed, config.max_neighbours))


def _in_parts(states: FloatArray, row_length: int) -> Iterator[FloatArray]:
    size = max(64, _ENTRIES // row_length)
    for start in range(0, len(states), size):
        yield states[start : start + size]


def _policy_layers(model: NOPG, states: FloatArray) -> FloatArray:
    like = next(model.policy.parameters())
    with torch.no_grad():
        first = model.policy.outputs(torch.tensor(states).to(like))[0]
    outputs = first.double().cpu().numpy()
    data = model.setup.data
    assert data is not None
    if not data.is_discrete:
        return np.asarray(outputs.T)
    return np.stack([outputs.argmax(axis=1).astype(np.float64), outputs.max(axis=1)])
