"""Tables of sign-off: how often intervals, comparisons and verdicts are right.

Widths are told in shares of a task's range of true returns: from the lowest tenth to
the highest tenth of all its policies, so that no disaster makes all else look narrow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from reproduction.results import Record

NARROW = 0.1
"""Width from which down an interval counts as narrow, in ranges."""
SURE = 0.05
"""Probability of being worse up to which a policy is said to be better."""
CLEARLY = 0.1
"""Difference from which a policy is truly better, in ranges."""
LOSSES = (0.1, 0.3, 0.5, 1.0)
"""What a policy may lose beside the log, in shares of what there is to gain."""


def sign_off_tables(records: list[Record]) -> dict[str, Any]:
    """Every table, as plain JSON; none without records."""
    by_task: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        found = record.result["estimates"]
        for one, other in zip(found, [*found[1:], found[0]], strict=True):
            difference = one["true"] - other["true"]
            against = one["against"] | {"true": difference}
            by_task[record.trial.task].append(one | {"against": against})
    if not by_task:
        return {}
    scales = {task: _range(found) for task, found in by_task.items()}
    every = [
        one | {"range": scales[task], "task": task}
        for task, found in by_task.items()
        for one in found
    ]
    rows = [
        {"task": task} | _intervals([one | {"range": scales[task]} for one in found])
        for task, found in by_task.items()
    ]
    compared = {
        name: [one[key] | {"range": one["range"]} for one in every if key in one]
        for name, key in (("policies", "against"), ("the log", "log"))
    }
    return {
        "sign_off": [*rows, {"task": "all"} | _intervals(every)],
        "ways": _ways(every),
        "compare": [
            {"against": name} | _comparisons(found) for name, found in compared.items() if found
        ],
        **_verdicts(every),
    }


def _range(found: list[dict[str, Any]]) -> float:
    low, high = np.quantile([one["true"] for one in found], [0.1, 0.9])
    return max(float(high - low), 1e-12)


def _intervals(found: list[dict[str, Any]]) -> dict[str, Any]:
    """How often intervals hold, and how wide they are; unknown ones are endless."""
    known = [one for one in found if one["known"]]
    holds = np.array([one["low"] <= one["true"] <= one["high"] for one in known])
    widths = np.array([(one["high"] - one["low"]) / one["range"] for one in known])
    every = np.concatenate([widths, np.full(len(found) - len(known), np.inf)])
    narrow = holds[widths < NARROW]
    return {
        "policies": len(found),
        "known": len(known),
        "held": _share(holds),
        "median_width": round(float(np.median(every)), 3),
        "narrow": len(narrow),
        "narrow_held": _share(narrow),
    }


def _ways(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of every way to an interval, of policies whose return is known by ours.

    Kernels may call it unknown all the same.
    """
    known = [one for one in found if "ways" in one]
    names = known[0]["ways"] if known else ()
    rows = [{"way": "all of these"} | _intervals(known)] if known else []
    for name in names:
        ends = [(one, *one["ways"][name]) for one in known]
        every = [
            one | {"low": low, "high": high, "known": bool(np.isfinite(low))}
            for one, low, high in ends
        ]
        rows.append({"way": name} | _intervals(every))
    return rows


def _comparisons(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Of policies said to be better how many are worse; of better ones how many are."""
    known = [one for one in found if one["known"]]
    said = [one for one in known if one["worse"] <= SURE]
    wrong = np.array([one["true"] < 0.0 for one in said])
    clear = [one for one in found if one["true"] > CLEARLY * one["range"]]
    seen = np.array([one["known"] and one["worse"] <= SURE for one in clear])
    return {
        "comparisons": len(found),
        "known": len(known),
        "held": _share(np.array([x["low"] <= x["true"] <= x["high"] for x in known])),
        "said_better": len(said),
        "of_these_worse": _share(wrong),
        "truly_better": len(clear),
        "of_these_recognised": _share(seen),
    }


def _verdicts(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Verdicts by what is true of the policy beside the log, and who is stopped.

    In shares of what there is to gain: how much better than the log the best policy of
    the task is. Disasters have no limit, and would make all else look as good.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    gains: dict[str, float] = defaultdict(float)
    for one in found:
        if "log" in one:
            gains[one["task"]] = max(gains[one["task"]], one["log"]["true"])
    lost: dict[float, list[bool]] = defaultdict(list)
    for one in found:
        if "verdict" in one and "log" in one:
            better = one["log"]["true"] / (gains[one["task"]] or one["range"])
            truth = "worse" if better < -CLEARLY else "as good"
            truth = "better" if better > CLEARLY else truth
            counts[one["verdict"]][truth] += 1
            for loss in LOSSES:
                if better < -loss:
                    lost[loss].append(one["verdict"] == "stop")
    return {
        "verdicts": {verdict: dict(count) for verdict, count in counts.items()},
        "stopped": [
            {"lose": loss, "policies": len(flags), "stopped": _share(np.array(flags))}
            for loss, flags in lost.items()
        ],
    }


def _share(flags: np.ndarray) -> str:
    return f"{flags.mean():.1%}" if len(flags) else "-"
