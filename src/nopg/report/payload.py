"""The numbers a page draws, as JSON that is safe inside HTML."""

import base64
import json
import math
from typing import Any

import numpy as np

from nopg.data.validation import FloatArray, IntArray
from nopg.fitted.sign_off import untried_at
from nopg.randomness import Seed
from nopg.report import maps
from nopg.report.evidence import Evidence, logged_paths
from nopg.report.maps import Coordinate, Plane

MOST_SAMPLES, MOST_UPDATES = 3000, 1200  # drawn; of more, an even choice


def payload(evidence: Evidence) -> dict[str, Any]:
    """All numbers of the page."""
    policy, visited = evidence.policy, evidence.visited
    starts = policy.initial_states
    assert starts is not None  # kept with the data
    spread = evidence.data.observations.std(axis=0)
    widths = spread if evidence.is_by_models else np.array(policy.bandwidths.state)
    widths = np.where(widths > 0.0, widths, np.inf)
    most = maps.MOST_BY_MODELS if evidence.is_by_models else maps.MOST
    axes = maps.coordinates(evidence.data, starts, widths, most)
    held = maps.held_state(axes, visited.states, visited.visits)
    drawn = maps.planes(evidence, axes, held)
    return {
        "axes": [{"name": a.name, "angle": a.is_angle, "low": a.low, "high": a.high} for a in axes],
        "first": most_telling(drawn),
        "held": [float(axis.of(held)) for axis in axes],
        "action": _action(evidence),
        "planes": [_plane(plane) for plane in drawn],
        "samples": _samples(evidence, axes),
        "paths": _paths(evidence, axes),
        "logged": _logged(evidence, axes),
        "curve": _curve(evidence),
    }


def json_in_html(numbers: Any) -> str:
    """JSON that no HTML parser takes for a tag, whatever the names in it are."""
    # JSON has no infinity and no NaN: both become null.
    plain = json.loads(json.dumps(numbers), parse_constant=lambda name: None)
    text = json.dumps(plain, ensure_ascii=True, separators=(",", ":"))
    return text.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"})


def most_telling(found: list[Plane]) -> tuple[int, int | None]:
    """The two coordinates shown first: where the value varies most within reach."""

    def variation(plane: Plane) -> float:
        near = plane.untried <= 1.0
        return float(plane.value[near].std() * near.mean()) if near.any() else 0.0

    best = max(found, key=variation)
    return best.x, best.y


def packed(values: Any) -> str:
    """An array as little-endian float32 in base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def _action(evidence: Evidence) -> dict[str, Any]:
    data, space = evidence.data, evidence.policy.action_space
    shared = {"discrete": data.is_discrete, "names": list(data.action_names)}
    if data.is_discrete:
        return {**shared, "n": data.n_actions}
    # Anything with a box's bounds will do: simulations need no Gymnasium.
    low, high = (np.asarray(getattr(space, side)).tolist() for side in ("low", "high"))
    return {**shared, "low": low, "high": high}


def _plane(plane: Plane) -> dict[str, Any]:
    ny, nx = plane.value.shape
    layers = {name: packed(getattr(plane, name)) for name in ("value", "visits", "untried")}
    actions = [packed(layer) for layer in plane.actions]
    return {"x": plane.x, "y": plane.y, "nx": nx, "ny": ny, **layers, "actions": actions}


def _samples(evidence: Evidence, axes: tuple[Coordinate, ...]) -> dict[str, Any]:
    data = evidence.data
    rows: IntArray = np.arange(len(data))
    if len(data) > MOST_SAMPLES:
        generator = Seed(evidence.policy.seed).numpy("report-samples")
        rows = np.sort(generator.choice(len(data), MOST_SAMPLES, replace=False))
    return {
        # A reward that never changes has nothing to show.
        "colour": "reward" if np.ptp(data.rewards) > 0.0 else "action",
        "row": rows.tolist(),
        "at": [packed(axis.of(data.observations[rows])) for axis in axes],
        "to": [packed(axis.of(data.next_observations[rows])) for axis in axes],
        "reward": packed(data.rewards[rows]),
        "action": [packed(column) for column in data.actions.reshape(len(data), -1)[rows].T],
    }


def _paths(evidence: Evidence, axes: tuple[Coordinate, ...]) -> dict[str, Any]:
    paths, policy = evidence.paths, evidence.policy
    k, length, d_s = paths.states.shape
    everywhere = paths.states.reshape(-1, d_s)
    lasting = ~np.isnan(everywhere[:, 0])
    states = everywhere[lasting]

    def along(values: FloatArray | IntArray) -> str:
        filled = np.full(k * length, np.nan)
        filled[lasting] = values
        return packed(filled)

    return {
        "k": k,
        "steps": paths.horizon,
        "isPath": paths.is_path,
        "at": [packed(axis.of(paths.states)) for axis in axes],
        "action": [along(a) for a in policy.predict(states)[0].reshape(len(states), -1).T],
        "untried": along(untried_at(policy, states)),
        "running": paths.running.tolist(),
    }


def _logged(evidence: Evidence, axes: tuple[Coordinate, ...]) -> dict[str, Any] | None:
    if (found := logged_paths(evidence.data, evidence.paths.horizon)) is None:
        return None
    states, actions = found
    return {
        "k": len(states),
        "at": [packed(axis.of(states)) for axis in axes],
        "action": [packed(actions[..., d]) for d in range(actions.shape[2])],
    }


def _curve(evidence: Evidence) -> dict[str, Any] | None:
    if len(updates := [one for one in evidence.history if math.isfinite(one.objective)]) < 2:
        return None
    if len(updates) > MOST_UPDATES:
        even = np.linspace(0, len(updates) - 1, MOST_UPDATES).round().astype(int)
        updates = [updates[i] for i in even]
    names = dict.fromkeys(name for one in evidence.history for name in one.evaluations)
    found = [(name, evidence.history.evaluations(name)) for name in names]
    return {
        "step": [one.step for one in updates],
        "value": [one.objective for one in updates],
        "band": [one.certificate for one in updates],
        "evaluations": [{"name": f"{n}, measured", "step": t, "value": v} for n, (t, v) in found],
    }
