"""Which data set is large enough: the comparison behind "an order of magnitude"."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from reproduction.results import Record
from reproduction.trials.ddpg import ONLINE

OURS = ("paper", "NOPG", "learn")
"""Labels of our arms; those of stochastic policies begin with them."""
SHARE = 0.9
"""A size is enough when this share of the seeds solves the task: 9 of 10."""


def smallest_sizes(records: list[Record], solved: float) -> dict[str, Any]:
    """For each method the smallest size at which 9 of 10 seeds solve the task.

    By the last policy (`last`) and, for methods evaluated on the way, by the best one
    too (`best`), which is what the paper does for them. A method that learns online
    has one long run per seed: its size is the number of steps at which 9 of 10 runs
    have first reached the mark, which also is a `best`.

    Returns:
        By label, the size or None where no size was enough; and for each baseline the
        ratio of its size to that of each of our arms with a deterministic policy.
    """
    enough: dict[str, int | None] = {}
    by_label: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_label[record.trial.label].append(record)
    for label, group in sorted(by_label.items()):
        if group[0].trial.method == ONLINE:
            enough[f"{label}, best"] = _online(group, solved)
            continue
        enough[f"{label}, last"] = _offline(group, "last", solved)
        if "best" in group[0].result:
            enough[f"{label}, best"] = _offline(group, "best", solved)
    ratios = {
        f"{other} / {ours}": round(size / base, 2)
        for ours, base in enough.items()
        if ours in (f"{name}, last" for name in OURS) and base
        for other, size in enough.items()
        if not other.startswith(OURS) and size
    }
    return {"solved_from": solved, "smallest_size": enough, "ratios": ratios}


def _offline(records: list[Record], name: str, solved: float) -> int | None:
    by_size: dict[int, list[bool]] = defaultdict(list)
    for record in records:
        value = record.result.get(name)
        by_size[record.trial.size].append(value is not None and value >= solved)
    sizes = (s for s, won in sorted(by_size.items()) if sum(won) >= SHARE * len(won))
    return next(sizes, None)


def _online(records: list[Record], solved: float) -> int | None:
    """Steps after which 9 of 10 runs have been at the mark at least once."""
    reached = []
    for record in records:
        steps = (step for step, value in record.result["curve"] if value >= solved)
        reached.append(next(steps, None))
    found = sorted(step for step in reached if step is not None)
    needed = -(-len(records) * 9 // 10)  # rounded up
    return found[needed - 1] if len(found) >= needed else None
