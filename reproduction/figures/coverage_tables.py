"""Tables of the coverage experiment: how often, how wide, how wrong."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import scipy.stats

from reproduction.results import Record

UNTRAINED = "0"
"""Name of the policy that has seen no update."""
SCORES = {"distance": 1.0, "mass": -1.0, "effective": -1.0, "model_value": -1.0}
"""Scores of a state, and the sign that makes the larger the worse."""
SURE = 0.1
"""Half width from which an interval of a probability says nothing definite."""


Estimates = list[dict[str, Any]]
"""What was estimated for each policy, as records hold it."""


def coverage_tables(records: list[Record]) -> dict[str, Any]:
    """Every table of the experiment, as plain JSON."""
    by_task: dict[str, Estimates] = defaultdict(list)
    by_fqe: dict[str, Estimates] = defaultdict(list)
    by_learn: dict[str, Estimates] = defaultdict(list)
    methods = {"FQE": by_fqe, "learn": by_learn}
    for record in records:
        groups = methods.get(record.trial.method, by_task)
        groups[record.trial.task] += record.result["estimates"]
    rows = [_row(task, found, by_fqe[task]) for task, found in by_task.items()]
    if rows:
        ours, theirs = (
            [one for found in groups.values() for one in found] for groups in (by_task, by_fqe)
        )
        rows.append(_row("all", ours, theirs))
    rows += [_row(f"{task}, learn", found, []) for task, found in by_learn.items()]
    tables: dict[str, Any] = {"coverage": rows}
    falls = [one["fall"] for one in by_task["cart-pole"] if "fall" in one]
    if falls:
        tables["falls"] = _falls(falls)
    separated = {task: _areas(by_task[task]) for task in list(by_task)}
    tables["support_auc"] = {task: area for task, area in separated.items() if area}
    return tables


def _row(task: str, ours: Estimates, of_fqe: Estimates) -> dict[str, Any]:
    true = np.array([one["true"] for one in ours])
    ratios = [one["interval_seconds"] / max(one["seconds"], 1e-3) for one in ours]
    row: dict[str, Any] = {"task": task, "policies": len(ours)}
    kernel = [one | {"value": one["estimate"]} for one in ours]
    row |= {f"kernel_{name}": x for name, x in _quality(true, kernel).items()}
    row["kernel_cost"] = round(float(np.median(ratios)), 1)
    model = [one["model"] for one in ours if "model" in one]
    if len(model) == len(ours):
        row |= {f"model_{name}": x for name, x in _quality(true, model).items()}
        seconds = [one["seconds"] for one in model]
        row["model_seconds"] = round(float(np.median(seconds)), 2)
    return row | _beside_fqe(ours, of_fqe) if of_fqe else row


def _quality(true: np.ndarray, found: Estimates) -> dict[str, Any]:
    """How often intervals hold the truth, how wide they are, how far the value is."""
    value, low, high = (np.array([one[name] for one in found]) for name in ("value", "low", "high"))
    return {
        "held": f"{np.mean((low <= true) & (true <= high)):.0%}",
        "width": round(float(np.mean(high - low)), 2),
        "error": round(float(np.mean(np.abs(value - true))), 2),
    }


def _beside_fqe(ours: Estimates, of_fqe: Estimates) -> dict[str, Any]:
    """Errors for the policies that fitted Q evaluation was run on."""
    known = {round(one["true"], 6) for one in of_fqe}
    shared = [one for one in ours if one["true"] in known]
    errors = {
        "fqe": [abs(one["estimate"] - one["true"]) for one in of_fqe],
        "kernel": [abs(one["estimate"] - one["true"]) for one in shared],
        "model": [abs(one["model"]["value"] - one["true"]) for one in shared if "model" in one],
    }
    found: dict[str, Any] = {
        f"{by}_error_beside_fqe": round(float(np.mean(wrong)), 2)
        for by, wrong in errors.items()
        if wrong
    }
    seconds = float(np.mean([one["seconds"] for one in of_fqe]))
    return found | {"fqe_policies": len(of_fqe), "fqe_seconds": round(seconds, 1)}


def _falls(falls: list[dict[str, float]]) -> dict[str, Any]:
    true, value, low, high = (
        np.array([fall[name] for fall in falls]) for name in ("true", "value", "low", "high")
    )
    sure = (high - low) <= 2.0 * SURE
    close = np.abs(value - true) <= 0.1
    return {
        "policies": len(falls),
        "held": round(float(np.mean((low <= true) & (true <= high))), 3),
        "definite": int(sure.sum()),
        "definite_within_0.1": round(float(close[sure].mean()), 3) if sure.any() else 0,
        "mean_width": round(float(np.mean(high - low)), 3),
    }


def _areas(ours: Estimates) -> dict[str, Any]:
    """Area under the curve of each score, failed against successful.

    Whole paths are compared by their worst state; of failed paths also the last tenth,
    where a guard must have stepped in, with all states of successful ones. Untrained
    policies are left out: they fail where there are data, and are seen to.
    """
    trained = [one for one in ours if one["policy"] != UNTRAINED]
    paths = [path for one in trained for path in one.get("support", [])]
    failed = [path for path in paths if path["failed"]]
    others = [path for path in paths if not path["failed"]]
    if not failed or not others:
        return {}
    found: dict[str, Any] = {"failed": len(failed), "succeeded": len(others)}
    for name, sign in SCORES.items():
        bad, good = (
            [[sign * score for score in path[name]] for path in kind] for kind in (failed, others)
        )
        late = [score for path in bad for score in path[-max(1, len(path) // 10) :]]
        every = [score for path in good for score in path]
        found[name] = {
            "paths": round(area_under_curve([max(p) for p in bad], [max(p) for p in good]), 3),
            "last_tenth": round(area_under_curve(late, every), 3),
        }
    return found


def area_under_curve(positive: list[float], negative: list[float]) -> float:
    """How often a positive score exceeds a negative one, ties counting half."""
    ranks = scipy.stats.rankdata(np.concatenate([positive, negative]))
    n, m = len(positive), len(negative)
    return float((ranks[:n].sum() - n * (n + 1) / 2.0) / (n * m))
