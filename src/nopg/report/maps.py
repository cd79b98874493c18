"""Value, visits and policy over planes through the state space.

A plane moves two coordinates and holds the others at the mean of the predicted
visits. Every plane is computed here, so that the page can show any two coordinates
without a policy behind it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from scipy.ndimage import gaussian_filter, map_coordinates

from nopg.data.validation import FloatArray
from nopg.fitted.policy import FittedPolicy
from nopg.report.coordinates import Coordinate
from nopg.report.evidence import Evidence
from nopg.report.support_map import VisitedStates, in_parts, support_at

CELLS = 500_000
"""Numbers all planes together may have: five bytes each on the page."""
WORK = 40_000_000
"""Kernel entries all planes together may take: a few seconds on a slow core."""
MODEL_WORK = 250_000_000
"""Kernel entries they may take of learned models: some fifteen seconds."""
FINEST, COARSEST, LINE = 72, 21, 301
"""Points per side of a plane, at most and at least; points of a line."""
FINEST_VALUE, COARSEST_VALUE = 25, 5
"""The same for values by learned models, between which values are interpolated."""
BLUR = 1 / 32
"""Standard deviation by which visits are blurred, as a share of the plane's side."""


@dataclass(frozen=True)
class Plane:
    """One slice on a grid; rows of the arrays go with the second coordinate.

    Attributes:
        x: Number of the horizontal coordinate.
        y: Number of the vertical one; None for a line of one-dimensional states.
        xs: Grid of the first, (c,).
        ys: Grid of the second, (r,); one zero for a line.
        value: V(s) by the evaluator that fits the policy, (r, c).
        visits: Share of the predicted visits around each cell, wherever the other
            coordinates are, (r, c).
        distance: To the nearest sample at the policy's action, in bandwidths, (r, c).
        actions: The policy: one layer per action dimension, (d_a, r, c); for discrete
            actions the likeliest label and its probability, (2, r, c).
    """

    x: int
    y: int | None
    xs: FloatArray
    ys: FloatArray
    value: FloatArray
    visits: FloatArray
    distance: FloatArray
    actions: FloatArray


def planes(
    evidence: Evidence, axes: tuple[Coordinate, ...], held: FloatArray
) -> list[Plane]:
    """Every two coordinates, or a line where there is only one.

    Args:
        evidence: What is known of a policy.
        axes: The coordinates.
        held: The state that gives the coordinates a plane does not move, (d_s,).
    """
    if len(axes) == 1:
        return [_plane(evidence, axes, held, 0, None, LINE)]
    pairs = list(combinations(range(len(axes)), 2))
    side = _side(evidence, len(pairs))
    return [_plane(evidence, axes, held, x, y, side) for x, y in pairs]


def _side(evidence: Evidence, n_pairs: int) -> int:
    """Points per side, so that page and time stay small."""
    data, config = evidence.data, evidence.policy.estimator
    layers = 3 + (2 if data.is_discrete else data.actions.shape[1])
    states = min(CELLS / layers, WORK / (len(data) * config.policy_samples))
    return int(np.clip(math.sqrt(states / n_pairs), COARSEST, FINEST))


def _plane(
    evidence: Evidence,
    axes: tuple[Coordinate, ...],
    held: FloatArray,
    x: int,
    y: int | None,
    side: int,
) -> Plane:
    policy = evidence.policy
    xs, ys, states = _grid(axes, held, x, y, side)
    shape = (len(ys), len(xs))
    distance, _ = support_at(policy, states)
    return Plane(
        x=x,
        y=y,
        xs=xs,
        ys=ys,
        value=_values(evidence, axes, held, x, y, side).reshape(shape),
        visits=_visits(evidence.visited, axes[x], None if y is None else axes[y], side),
        distance=distance.reshape(shape),
        actions=_policy_layers(policy, states).reshape(-1, *shape),
    )


def _grid(
    axes: tuple[Coordinate, ...], held: FloatArray, x: int, y: int | None, side: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Both axes of a grid and its states, (c,), (r,) and (r c, d_s)."""
    xs = np.linspace(axes[x].low, axes[x].high, side)
    ys = np.zeros(1) if y is None else np.linspace(axes[y].low, axes[y].high, side)
    states = np.tile(held, (len(ys) * len(xs), 1))
    axes[x].place(states, np.tile(xs, len(ys)))
    if y is not None:
        axes[y].place(states, np.repeat(ys, len(xs)))
    return xs, ys, states


def _values(
    evidence: Evidence,
    axes: tuple[Coordinate, ...],
    held: FloatArray,
    x: int,
    y: int | None,
    side: int,
) -> FloatArray:
    """V(s) on the grid; by learned models on a coarser one, and interpolated."""
    policy, n = evidence.policy, len(evidence.data)
    if not evidence.is_by_models:
        _, _, states = _grid(axes, held, x, y, side)
        parts = in_parts(states, n * policy.estimator.policy_samples)
        return np.concatenate([policy.value(part) for part in parts])
    # Some 7 / (1 - gamma) steps in each of two models, n entries every time.
    affordable = MODEL_WORK * (1.0 - policy.gamma) / (14.0 * n)
    n_planes = max(1, math.comb(len(axes), 2))
    per_side = affordable if y is None else math.sqrt(affordable / n_planes)
    coarse = int(np.clip(per_side, COARSEST_VALUE, min(side, FINEST_VALUE)))
    xs, ys, states = _grid(axes, held, x, y, coarse)
    values = np.asarray(policy.value(states)).reshape(len(ys), len(xs))
    steps = np.linspace(0.0, coarse - 1.0, side)
    rows = np.zeros(1) if y is None else steps
    return np.asarray(
        map_coordinates(values, np.meshgrid(rows, steps, indexing="ij"), order=1)
    )


def _visits(
    visited: VisitedStates, x: Coordinate, y: Coordinate | None, side: int
) -> FloatArray:
    """Shares of the visits in cells around the grid points, a little blurred."""
    drawn = [x] if y is None else [y, x]
    edges, modes = [], []
    for axis in drawn:
        half = 0.5 * (axis.high - axis.low) / (side - 1)
        edges.append(np.linspace(axis.low - half, axis.high + half, side + 1))
        modes.append("wrap" if axis.is_angle else "constant")
    places = np.column_stack([axis.of(visited.states) for axis in drawn])
    counts, _ = np.histogramdd(places, bins=edges, weights=visited.visits)
    blurred = gaussian_filter(counts, max(0.7, BLUR * side), mode=modes)
    return np.atleast_2d(np.asarray(blurred, dtype=np.float64))


def _policy_layers(policy: FittedPolicy, states: FloatArray) -> FloatArray:
    like = next(policy.policy.parameters())
    with torch.no_grad():
        first = policy.policy.outputs(torch.tensor(states).to(like))[0]
    outputs = first.double().cpu().numpy()
    if policy.data is None or not policy.data.is_discrete:
        return np.asarray(outputs.T)
    return np.stack([outputs.argmax(axis=1).astype(np.float64), outputs.max(axis=1)])
