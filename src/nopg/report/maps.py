"""Value, visits and policy over planes through the mean of the predicted visits."""

import math
import re
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from scipy.ndimage import gaussian_filter, map_coordinates

from nopg.data.dataset import Dataset
from nopg.data.validation import FloatArray, angle_pairs
from nopg.evaluation.model_paths import LEAST_PATHS
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.sign_off import untried_at
from nopg.report.evidence import Evidence, VisitedStates

CELLS = 500_000  # numbers all planes together may have: five bytes each on the page
WORK = 40_000_000  # kernel entries all planes together may take: seconds
PART = 2_000_000  # kernel entries at once
MODEL_WORK = 25_000_000  # kernel entries of learned models: a second or two
FINEST, COARSEST, LINE = 72, 21, 301  # points per side of a plane, and of a line
FINEST_VALUE, COARSEST_VALUE = 15, 5  # the same for values by models
MOST, MOST_BY_MODELS = 10, 4
"""Coordinates offered; of more, those that vary most in units of their bandwidth.
Learned models take longer for every plane of values, so that fewer are offered."""


@dataclass(frozen=True)
class Coordinate:
    """One axis: a column of the state, or the angle of two."""

    name: str  # how it is called
    columns: tuple[int, ...]  # the column, or those of the cosine and the sine
    low: float  # where the axis begins
    high: float  # where it ends

    @property
    def is_angle(self) -> bool:
        """Whether two columns are drawn as the angle they are of."""
        return len(self.columns) == 2

    def of(self, states: FloatArray) -> FloatArray:
        """Where states lie on this axis, (..., d_s) -> (...)."""
        parts = [states[..., column] for column in self.columns]
        return np.asarray(np.arctan2(parts[1], parts[0]) if self.is_angle else parts[0])

    def place(self, states: FloatArray, values: FloatArray) -> None:
        """Move states (m, d_s) to `values` (m,) on this axis, in place."""
        parts = [np.cos(values), np.sin(values)] if self.is_angle else [values]
        states[:, self.columns] = np.stack(parts, axis=1)


def coordinates(
    data: Dataset, starts: FloatArray, bandwidths: FloatArray, most: int = MOST
) -> tuple[Coordinate, ...]:
    """The axes of a data set; bandwidths, (d_s,), are infinite for ignored columns."""
    states = np.vstack([data.observations, data.next_observations, starts])
    names = [name.lower() for name in data.observation_names]
    angles = {  # columns (cosine, sine) of every angle; names tell which is which
        i: (j, i) if "sin" in names[i] or "cos" in names[j] else (i, j)
        for i, j in angle_pairs(data.observations)
    }
    paired = {column for pair in angles.values() for column in pair}
    found: list[tuple[float, Coordinate]] = []
    for column, name in enumerate(data.observation_names):
        if (pair := angles.get(column)) is not None:
            named = _angle_name([data.observation_names[c] for c in pair])
            found.append((math.inf, Coordinate(named, pair, -math.pi, math.pi)))
        elif column not in paired:
            low, high = _range(states[:, column])
            spread = float(states[:, column].std() / bandwidths[column])
            found.append((spread, Coordinate(name, (column,), low, high)))
    varied = [pair for pair in found if pair[0] > 0.0] or found[:1]
    kept = sorted(varied, key=lambda pair: -pair[0])[:most]
    return tuple(pair[1] for pair in varied if pair in kept)


def held_state(axes: tuple[Coordinate, ...], states: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted mean state, on the circle where a coordinate is an angle, (d_s,)."""
    mean = np.average(states, axis=0, weights=weights)
    for axis in axes:
        axis.place(mean[None, :], axis.of(mean[None, :]))
    return np.asarray(mean)


def _angle_name(names: list[str]) -> str:
    """`theta` from `cos(theta)` and `sin(theta)`, else what the two are."""
    function = r"(?i)^(cosine|sine|cos|sin)\b|[\s_]*(cosine|sine|cos|sin)$"
    bare = {re.sub(function, "", name).strip(" _()") for name in names}
    return f"angle of ({names[0]}, {names[1]})" if len(bare) > 1 else bare.pop() or "angle"


def _range(values: FloatArray) -> tuple[float, float]:
    """All values with a little room; far outliers do not stretch the axis."""
    low, high = float(values.min()), float(values.max())
    near_low, near_high = np.quantile(values, [0.005, 0.995])
    if high - low > 3.0 * (near_high - near_low) > 0.0:
        low, high = float(near_low), float(near_high)
    room = 0.03 * (high - low) or 0.5
    return low - room, high + room


@dataclass(frozen=True)
class Plane:
    """One slice on a grid; rows of the arrays go with the second coordinate."""

    x: int  # number of the horizontal coordinate
    y: int | None  # of the vertical one; None for a line
    value: FloatArray  # V(s) by the evaluator that fits the policy, (r, c)
    visits: FloatArray  # share of visits around each cell, (r, c)
    untried: FloatArray  # how untried the policy's action is, from 1 on, (r, c)
    actions: FloatArray  # (d_a, r, c), or label and probability, (2, r, c)


def planes(evidence: Evidence, axes: tuple[Coordinate, ...], held: FloatArray) -> list[Plane]:
    """Every two coordinates, or a line; `held`, (d_s,), gives the others."""
    pairs: list[tuple[int, int | None]] = [*combinations(range(len(axes)), 2)] or [(0, None)]
    side, value_side = _sides(evidence, len(pairs), is_line=len(axes) == 1)
    found = []
    for x, y in pairs:
        drawn = (axes[x],) if y is None else (axes[x], axes[y])
        states = _grid(drawn, held, side)
        shape = (1 if y is None else side, side)
        value = _values(evidence, drawn, held, side, value_side).reshape(shape)
        visits = _visits(evidence.visited, drawn, side)
        untried = untried_at(evidence.policy, states).clip(max=1e6).reshape(shape)
        actions = _policy_layers(evidence.policy, states).reshape(-1, *shape)
        found.append(Plane(x, y, value, visits, untried, actions))
    return found


def _sides(evidence: Evidence, n_planes: int, *, is_line: bool) -> tuple[int, int]:
    """Points per side, and those with a value, so that page and time stay small."""
    data, policy = evidence.data, evidence.policy
    layers = 3 + (2 if data.is_discrete else data.actions.shape[1])
    states = min(CELLS / layers, WORK / (len(data) * policy.estimator.policy_samples))
    side = LINE if is_line else int(np.clip(math.sqrt(states / n_planes), COARSEST, FINEST))
    if not evidence.is_by_models:
        return side, side
    # Some 7 / (1 - gamma) steps in each of two models, n entries every time.
    affordable = MODEL_WORK * (1.0 - policy.gamma) / (14.0 * len(data))
    if policy.model.models[0].noise is not None:
        affordable /= LEAST_PATHS
    per_side = affordable if is_line else math.sqrt(affordable / n_planes)
    return side, int(np.clip(per_side, COARSEST_VALUE, min(side, FINEST_VALUE)))


def _grid(drawn: tuple[Coordinate, ...], held: FloatArray, side: int) -> FloatArray:
    """States of a grid, the first coordinate changing fastest, (r c, d_s)."""
    lines = [np.linspace(axis.low, axis.high, side) for axis in drawn]
    states = np.tile(held, (side ** len(drawn), 1))
    for axis, grid in zip(drawn, np.meshgrid(*lines), strict=True):
        axis.place(states, grid.ravel())
    return states


def _values(
    evidence: Evidence, drawn: tuple[Coordinate, ...], held: FloatArray, side: int, value_side: int
) -> FloatArray:
    """V(s) on the grid; by learned models on a coarser one, and interpolated."""
    policy, states = evidence.policy, _grid(drawn, held, value_side)
    if not evidence.is_by_models:
        size = max(64, PART // (len(evidence.data) * policy.estimator.policy_samples))
        parts = [states[first : first + size] for first in range(0, len(states), size)]
        return np.concatenate([policy.value(part) for part in parts])
    values = np.asarray(policy.value(states)).reshape(-1, value_side)
    steps = np.linspace(0.0, value_side - 1.0, side)
    rows = steps if len(drawn) == 2 else np.zeros(1)
    return np.asarray(map_coordinates(values, np.meshgrid(rows, steps, indexing="ij"), order=1))


def _visits(visited: VisitedStates, drawn: tuple[Coordinate, ...], side: int) -> FloatArray:
    """Shares of the visits in cells around the grid points, a little blurred."""
    edges, modes, places = [], [], []
    for axis in reversed(drawn):
        half = 0.5 * (axis.high - axis.low) / (side - 1)
        edges.append(np.linspace(axis.low - half, axis.high + half, side + 1))
        modes.append("wrap" if axis.is_angle else "constant")
        places.append(axis.of(visited.states))
    counts, _ = np.histogramdd(places, bins=edges, weights=visited.visits)
    blurred = gaussian_filter(counts, max(0.7, side / 32), mode=modes)
    return np.atleast_2d(np.asarray(blurred, dtype=np.float64))


def _policy_layers(policy: FittedPolicy, states: FloatArray) -> FloatArray:
    if (actions := np.asarray(policy.predict(states)[0], dtype=np.float64)).ndim == 2:
        return actions.T
    like = next(policy.policy.parameters())
    with torch.no_grad():
        probabilities = policy.policy.outputs(torch.tensor(states).to(like))[0]
    return np.stack([actions, probabilities.double().cpu().numpy().max(axis=1)])
