"""Tables of the coverage experiment: how often, how wide, how wrong."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from reproduction.results import Record

UNTRAINED = "0"
"""Name of the policy that has seen no update."""
SCORES = {"distance": 1.0, "mass": -1.0, "effective": -1.0, "foretold": -1.0}
"""Scores of a state, and the sign that makes the larger the worse."""
SURE = 0.1
"""Half width from which an interval of a probability says nothing definite."""


def coverage_tables(records: list[Record]) -> dict[str, Any]:
    """Every table of the experiment, as plain JSON."""
    by_task: dict[str, list[dict[str, Any]]] = defaultdict(list)
    by_fqe: dict[str, list[dict[str, Any]]] = defaultdict(list)
    by_learn: dict[str, list[dict[str, Any]]] = defaultdict(list)
    methods = {"FQE": by_fqe, "learn": by_learn}
    for record in records:
        groups = methods.get(record.trial.method, by_task)
        groups[record.trial.task] += record.result["pairs"]
    rows = [_row(task, pairs, by_fqe[task]) for task, pairs in by_task.items()]
    if rows:
        everything = [pair for pairs in by_task.values() for pair in pairs]
        by_others = [pair for pairs in by_fqe.values() for pair in pairs]
        rows.append(_row("all", everything, by_others))
    rows += [_row(f"{task}, learn", pairs, []) for task, pairs in by_learn.items()]
    pairs = by_task["cart-pole"]
    found: dict[str, Any] = {"coverage": rows}
    falls = [pair["fall"] for pair in pairs if "fall" in pair]
    if falls:
        found["falls"] = _falls(falls)
    separated = {task: _areas(by_task[task]) for task in list(by_task)}
    found["support_auc"] = {task: area for task, area in separated.items() if area}
    return found


def _row(
    task: str, pairs: list[dict[str, Any]], of_fqe: list[dict[str, Any]]
) -> dict[str, Any]:
    true, estimate, low, high = (
        np.array([pair[name] for pair in pairs])
        for name in ("true", "estimate", "low", "high")
    )
    ratios = [p["interval_seconds"] / max(p["seconds"], 1e-3) for p in pairs]
    row: dict[str, Any] = {
        "task": task,
        "pairs": len(pairs),
        "held": f"{np.mean((low <= true) & (true <= high)):.0%}",
        "width": round(float(np.mean(high - low)), 2),
        "error": round(float(np.mean(np.abs(estimate - true))), 2),
        "cost": round(float(np.median(ratios)), 1),
    }
    foretold = [pair["foretold"] for pair in pairs if "foretold" in pair]
    if len(foretold) == len(pairs):
        row |= _foretold(true, foretold)
    if of_fqe:
        wrong = [abs(pair["estimate"] - pair["true"]) for pair in of_fqe]
        # The same pairs for both: those that fitted Q evaluation was run on.
        known = {round(pair["true"], 6) for pair in of_fqe}
        shared = [pair for pair in pairs if pair["true"] in known]
        ours = [abs(pair["estimate"] - pair["true"]) for pair in shared]
        row["fqe_pairs"] = len(of_fqe)
        row["fqe_error"] = round(float(np.mean(wrong)), 2)
        row["our_error"] = round(float(np.mean(ours)), 2) if ours else None
        if shared and all("foretold" in pair for pair in shared):
            row["our_foretold_error"] = _foretold_error(shared)
        row["fqe_seconds"] = round(float(np.mean([p["seconds"] for p in of_fqe])), 1)
    return row


def _foretold_error(pairs: list[dict[str, Any]]) -> float:
    wrong = [abs(pair["foretold"]["value"] - pair["true"]) for pair in pairs]
    return round(float(np.mean(wrong)), 2)


def _foretold(true: np.ndarray, foretold: list[dict[str, float]]) -> dict[str, Any]:
    """The same of what the learned systems foretell."""
    value, low, high, seconds = (
        np.array([one[name] for one in foretold])
        for name in ("value", "low", "high", "seconds")
    )
    return {
        "foretold_held": f"{np.mean((low <= true) & (true <= high)):.0%}",
        "foretold_width": round(float(np.mean(high - low)), 2),
        "foretold_error": round(float(np.mean(np.abs(value - true))), 2),
        "foretold_seconds": round(float(np.median(seconds)), 2),
    }


def _falls(falls: list[dict[str, float]]) -> dict[str, Any]:
    true, value, low, high = (
        np.array([fall[name] for fall in falls])
        for name in ("true", "value", "low", "high")
    )
    sure = (high - low) <= 2.0 * SURE
    close = np.abs(value - true) <= 0.1
    return {
        "pairs": len(falls),
        "held": round(float(np.mean((low <= true) & (true <= high))), 3),
        "definite": int(sure.sum()),
        "definite_within_0.1": round(float(close[sure].mean()), 3) if sure.any() else 0,
        "mean_width": round(float(np.mean(high - low)), 3),
    }


def _areas(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """Area under the curve of each score, failed against successful.

    Whole paths are compared by their worst state; of failed paths also the last tenth,
    where a guard must have stepped in, with all states of successful ones. Untrained
    policies are left out: they fail where there are data, and are seen to.
    """
    trained = [pair for pair in pairs if pair["policy"] != UNTRAINED]
    paths = [path for pair in trained for path in pair.get("support", [])]
    failed = [path for path in paths if path["failed"]]
    others = [path for path in paths if not path["failed"]]
    if not failed or not others:
        return {}
    found: dict[str, Any] = {"failed": len(failed), "succeeded": len(others)}
    for name, sign in SCORES.items():
        bad, good = (
            [[sign * score for score in path[name]] for path in kind]
            for kind in (failed, others)
        )
        late = [score for path in bad for score in path[-max(1, len(path) // 10) :]]
        every = [score for path in good for score in path]
        found[name] = {
            "paths": round(
                area_under_curve([max(p) for p in bad], [max(p) for p in good]), 3
            ),
            "last_tenth": round(area_under_curve(late, every), 3),
        }
    return found


def area_under_curve(positive: list[float], negative: list[float]) -> float:
    """How often a positive score exceeds a negative one, ties counting half."""
    import scipy.stats

    ranks = scipy.stats.rankdata(np.concatenate([positive, negative]))
    n, m = len(positive), len(negative)
    return float((ranks[:n].sum() - n * (n + 1) / 2.0) / (n * m))
