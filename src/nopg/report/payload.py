"""The numbers a page draws, as JSON that is safe inside HTML.

Long arrays are little-endian float32 in base64: a third of the bytes of decimal
digits, and read by a phone at once.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nopg.algorithms.nopg.nopg import NOPG
from nopg.data.dataset import Dataset
from nopg.data.validation import FloatArray, IntArray
from nopg.randomness import Seed
from nopg.report.coordinates import Coordinate
from nopg.report.maps import Plane
from nopg.report.paths import Paths
from nopg.report.read import Run
from nopg.report.support import FEW, REACH, NearestSample, Support, typical_actions

MOST_SAMPLES, MOST_UPDATES = 3000, 1200
"""Samples and updates drawn; of more, an even choice."""


@dataclass(frozen=True)
class Drawing:
    """Everything the page draws, computed.

    Attributes:
        axes: The coordinates of the maps.
        held: The state that gives the coordinates a plane does not move, (d_s,).
        planes: The maps.
        paths: Predicted paths.
        support: Support of the visits.
    """

    axes: tuple[Coordinate, ...]
    held: FloatArray
    planes: list[Plane]
    paths: Paths
    support: Support


def payload(run: Run, drawing: Drawing) -> dict[str, Any]:
    """All numbers of the page."""
    axes = drawing.axes
    return {
        "axes": [
            {"name": a.name, "angle": a.is_angle, "low": a.low, "high": a.high}
            for a in axes
        ],
        "first": most_telling(drawing.planes),
        "held": [float(axis.of(drawing.held)) for axis in axes],
        "action": _action(run.data, run.model),
        "planes": [_plane(plane) for plane in drawing.planes],
        "samples": _samples(run, axes),
        "paths": _paths(run.model, drawing),
        "curve": _curve(run),
        "support": _histograms(drawing.support),
    }


def json_in_html(numbers: Any) -> str:
    """JSON that no HTML parser takes for a tag, whatever the names in it are."""
    text = json.dumps(_finite(numbers), ensure_ascii=True, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def most_telling(found: list[Plane]) -> tuple[int, int | None]:
    """The two coordinates shown first: where the value varies most within reach."""

    def told(plane: Plane) -> float:
        near = plane.distance <= REACH
        return float(plane.value[near].std() * near.mean()) if near.any() else 0.0

    best = max(found, key=told)
    return best.x, best.y


def packed(values: Any) -> str:
    """An array as little-endian float32 in base64."""
    numbers = np.ascontiguousarray(values, dtype="<f4")
    return base64.b64encode(numbers.tobytes()).decode()


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: both become null."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _action(data: Dataset, model: NOPG) -> dict[str, Any]:
    names = list(data.action_names)
    if data.is_discrete:
        return {"discrete": True, "names": names, "n": data.n_actions}
    low, high = (
        np.asarray(getattr(model.action_space, s), dtype=float) for s in ("low", "high")
    )
    bounds = {"low": low.tolist(), "high": high.tolist()}
    return {"discrete": False, "names": names, **bounds}


def _plane(plane: Plane) -> dict[str, Any]:
    return {
        "x": plane.x,
        "y": plane.y,
        "nx": len(plane.xs),
        "ny": len(plane.ys),
        "value": packed(plane.value),
        "visits": packed(plane.visitation),
        "distance": packed(np.minimum(plane.distance, 1e6)),
        "actions": [packed(layer) for layer in plane.actions],
    }


def _samples(run: Run, axes: tuple[Coordinate, ...]) -> dict[str, Any]:
    data, model = run.data, run.model
    solution = model.solution
    in_order = solution.estimator.problem.samples.in_original_order
    visits = in_order(solution.mu.value).double().cpu().numpy()
    rows: IntArray = np.arange(len(data))
    if len(data) > MOST_SAMPLES:
        generator = Seed(model.config.seed).numpy("report-samples")
        rows = np.sort(generator.choice(len(data), MOST_SAMPLES, replace=False))
    actions = data.actions.reshape(len(data), -1)[rows]
    return {
        # A reward that never changes has nothing to show.
        "colour": "reward" if np.ptp(data.rewards) > 0.0 else "visits",
        "row": rows.tolist(),
        "at": [packed(axis.of(data.observations[rows])) for axis in axes],
        "to": [packed(axis.of(data.next_observations[rows])) for axis in axes],
        "reward": packed(data.rewards[rows]),
        "visits": packed(visits[rows]),
        "action": [packed(column) for column in actions.T],
    }


def _paths(model: NOPG, drawing: Drawing) -> dict[str, Any]:
    paths = drawing.paths
    k, steps, d_s = *paths.samples.shape, paths.states.shape[2]
    lived = paths.samples.reshape(-1) >= 0
    states = paths.states[:, :-1].reshape(-1, d_s)[lived]
    actions = typical_actions(model, states)
    distance = NearestSample(model).distance(states, actions)

    def along(values: Any) -> str:
        filled = np.full(k * steps, np.nan)
        filled[lived] = values
        return packed(filled)

    columns = actions.reshape(len(states), -1).T
    return {
        "k": k,
        "steps": steps,
        "at": [packed(axis.of(paths.states)) for axis in drawing.axes],
        "action": [along(column) for column in columns],
        "reward": packed(paths.rewards),
        "distance": along(distance),
    }


def _curve(run: Run) -> dict[str, Any] | None:
    steps, objectives = run.column("step"), run.column("objective")
    certificates = np.nan_to_num(run.column("certificate"))
    known = [i for i, j in enumerate(objectives) if math.isfinite(j + steps[i])]
    if len(known) < 2:
        return None
    if len(known) > MOST_UPDATES:
        even = np.linspace(0, len(known) - 1, MOST_UPDATES).round().astype(int)
        known = [known[i] for i in even]
    return {
        "step": [steps[i] for i in known],
        "value": [objectives[i] for i in known],
        "band": [float(certificates[i]) for i in known],
        "evaluations": [
            {"name": f"{name}, measured", "step": at, "value": values}
            for name, (at, values) in run.evaluations().items()
        ],
    }


def _histograms(support: Support) -> dict[str, Any]:
    """Shares of the visits by distance, and by effective samples on a log scale."""
    far = max(2.0 * REACH, min(4.0 * REACH, support.quantile(support.distance, 0.999)))
    far_edges = np.linspace(0.0, far, 25)
    most = max(16.0, support.quantile(support.effective, 0.999))
    few_edges = 2.0 ** np.arange(0.0, math.ceil(math.log2(most)) + 0.25, 0.25)
    return {
        "reach": REACH,
        "few": FEW,
        "distance": _histogram(support.distance, support.visits, far_edges),
        "effective": _histogram(support.effective, support.visits, few_edges),
    }


def _histogram(
    values: FloatArray, weights: FloatArray, edges: FloatArray
) -> dict[str, Any]:
    """Shares between the edges; what lies beyond the last counts to the last bar."""
    inside = np.clip(values, edges[0], np.nextafter(edges[-1], 0.0))
    shares, _ = np.histogram(inside, bins=edges, weights=weights)
    return {"edges": edges.tolist(), "share": shares.tolist()}
