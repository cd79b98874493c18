"""What a map can have as its axes: columns of the state, and angles of two of them."""

import math
import re
from dataclasses import dataclass

import numpy as np

from nopg.data.dataset import Dataset
from nopg.data.validation import FloatArray, angle_pairs

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
        if not self.is_angle:
            return np.asarray(states[..., self.columns[0]])
        cosine, sine = self.columns
        return np.asarray(np.arctan2(states[..., sine], states[..., cosine]))

    def place(self, states: FloatArray, values: FloatArray) -> None:
        """Move states (m, d_s) to `values` (m,) on this axis, in place."""
        if not self.is_angle:
            states[:, self.columns[0]] = values
            return
        cosine, sine = self.columns
        states[:, cosine], states[:, sine] = np.cos(values), np.sin(values)


def coordinates(
    data: Dataset, starts: FloatArray, bandwidths: FloatArray, most: int = MOST
) -> tuple[Coordinate, ...]:
    """The axes of a data set; bandwidths, (d_s,), are infinite for ignored columns."""
    states = np.vstack([data.observations, data.next_observations, starts])
    angles = {min(pair): pair for pair in _angles(data)}
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


def held_state(
    axes: tuple[Coordinate, ...], states: FloatArray, weights: FloatArray
) -> FloatArray:
    """The weighted mean state, on the circle where a coordinate is an angle, (d_s,)."""
    mean = np.average(states, axis=0, weights=weights)
    for axis in axes:
        if axis.is_angle:
            cosine, sine = axis.columns
            axis.place(mean[None, :], np.arctan2(mean[[sine]], mean[[cosine]]))
    return np.asarray(mean)


def _angles(data: Dataset) -> list[tuple[int, int]]:
    """Columns (cosine, sine) of every angle; names tell which is which."""
    names = [name.lower() for name in data.observation_names]
    return [
        (j, i) if "sin" in names[i] or "cos" in names[j] else (i, j)
        for i, j in angle_pairs(data.observations)
    ]


def _angle_name(names: list[str]) -> str:
    """`theta` from `cos(theta)` and `sin(theta)`, else what the two are."""
    bare = {
        re.sub(r"(?i)^(cosine|sine|cos|sin)\b|[\s_]*(cosine|sine|cos|sin)$", "", name)
        .strip(" _()")
        for name in names
    }  # fmt: skip
    if len(bare) > 1:
        return f"angle of ({names[0]}, {names[1]})"
    return bare.pop() or "angle"


def _range(values: FloatArray) -> tuple[float, float]:
    """All values with a little room; far outliers do not stretch the axis."""
    low, high = float(values.min()), float(values.max())
    near_low, near_high = np.quantile(values, [0.005, 0.995])
    if high - low > 3.0 * (near_high - near_low) > 0.0:
        low, high = float(near_low), float(near_high)
    room = 0.03 * (high - low) or 0.5
    return low - room, high + room
