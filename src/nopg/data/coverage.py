"""How the rows fill the space, in standard deviations: neighbours, farthest points."""

import numpy as np

from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray, IntArray

FAR = 10.0  # an outlier lies this many robust standard deviations from the median


def without_far(values: FloatArray, far: float = FAR) -> FloatArray:
    """A column with its outliers brought to where they begin, (n,)."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    # 1.349 is the width between the quartiles of a standard normal; where half the
    # values are equal the quartiles say nothing and the deviation has to do.
    scale = (high - low) / 1.349 or float(values.std())
    return np.clip(values, middle - far * scale, middle + far * scale)


def scaled(columns: FloatArray) -> FloatArray:
    """Each column divided by its standard deviation; constant ones left out, (n, d)."""
    std = columns.std(axis=0)
    if not (varies := std > 1e-12 * (1.0 + np.abs(columns).max(axis=0))).any():
        return np.zeros((len(columns), 1))
    return np.asarray(columns[:, varies] / std[varies])


def state_actions(dataset: TransitionTable) -> FloatArray:
    """States and actions side by side; labels become one column per label, (n, d)."""
    actions = dataset.actions
    if dataset.is_discrete:
        actions = (actions[:, None] == np.unique(actions)[None, :]).astype(np.float64)
    return np.hstack([dataset.observations, actions])


def neighbour_weights(dataset: TransitionTable) -> FloatArray:
    """Kernel weight of the other rows around up to a thousand rows, (m,)."""
    # A row at the very same (s, a) counts 1, one three bandwidths away 0.01. Bandwidths are
    # Silverman's; the two hundred nearest rows are counted.
    from scipy.spatial import cKDTree

    points = scaled(state_actions(dataset))
    n, d = points.shape
    bandwidth = (4.0 / ((d + 2.0) * n)) ** (1.0 / (d + 4.0))
    queries = np.unique(np.linspace(0, n - 1, min(n, 1_000)).astype(np.int64))
    distances, _ = cKDTree(points).query(points[queries], k=min(201, n))
    weights = np.exp(-0.5 * (distances / bandwidth) ** 2)  # (m, nearest)
    return np.asarray(weights.sum(axis=1) - 1.0)  # without the row itself


def farthest_points(points: FloatArray, n: int) -> tuple[IntArray, FloatArray]:
    """Rows picked one by one, (n,), and the distance of every row to a pick, (m,)."""
    # The first is nearest the mean, each next one farthest from those before: at most twice as far
    # from all as the best choice of `n` (Gonzalez, 1985).
    picked = np.empty(n, dtype=np.int64)
    nearest = np.full(len(points), np.inf)  # squared, -1 for rows that were picked
    row = int(((points - points.mean(axis=0)) ** 2).sum(axis=1).argmin())
    for i in range(n):
        picked[i] = row
        np.minimum(nearest, ((points - points[row]) ** 2).sum(axis=1), out=nearest)
        nearest[row] = -1.0  # never twice, even among duplicates
        row = int(nearest.argmax())
    return picked, np.sqrt(np.maximum(nearest, 0.0))
