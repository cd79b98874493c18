"""Puts the tables of `results/` on the pages: `python -m scripts.result_tables`.

A page asks for a table by a mark and ends it by another:

    <!-- results: figure2-cart-pole/standard -->
    <!-- end of results -->

What stands between is written here and checked by `tests/docs/test_results.py`, so no
page shows figures of older results. Nothing is run: summaries are made by
`python -m reproduction FIGURE --preset standard --draw-only`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/experiments.md", "docs/learn.md", "docs/evaluation.md")
_MARKED = re.compile(
    r"(<!-- results: (?P<name>\S+)(?: (?P<kind>\S+))? -->\n).*?"
    r"(<!-- end of results -->)",
    re.S,
)

LEARN_AND_IQL = ("task", "size", "success from", "learn", "IQL")
"""Columns of the table of successes that tell how `nopg.learn` compares."""

Summary = Mapping[str, Any]
Row = Mapping[str, Any]


def filled(page: str, folder: Path = ROOT / "results") -> str:
    """The text of a page with every table it asks for as the results have it."""

    def table(found: re.Match[str]) -> str:
        path, kind = folder / f"{found['name']}.summary.json", found["kind"] or "sizes"
        if kind not in KINDS or not path.is_file():
            raise SystemExit(
                f"A mark must name results that are there and one of {', '.join(KINDS)}"
                f", got {found[1].strip()}; run python -m reproduction with "
                "--draw-only first."
            )
        summary = json.loads(path.read_text(encoding="utf-8"))
        return f"{found[1]}\n{KINDS[kind](summary)}\n\n{found[4]}"

    return _MARKED.sub(table, page)


def by_size(summary: Summary) -> str:
    """A line per arm: mean of the last policies, and how many solve the task.

    Those evaluated on the way have a line for the best ones, too.
    """
    rows = [row for row in summary["rows"] if "last" in row]
    sizes = sorted({row["size"] for row in rows})
    lines = _head("", *(f"{size:,}" for size in sizes))
    for label in dict.fromkeys(row["label"] for row in rows):
        mine = {row["size"]: row for row in rows if row["label"] == label}
        has_best = any("best" in row for row in mine.values())
        for kind in ("last", "best") if has_best else ("last",):
            title = f"{label}, {kind}" if has_best else _quoted(label)
            cells = [_cell(mine.get(size), kind) for size in sizes]
            lines.append(_line([title, *cells]))
    return "\n".join(lines)


def as_written(summary: Summary) -> str:
    """The table an experiment writes itself."""
    return str(summary["analysis"]["markdown"])


def against_iql(summary: Summary) -> str:
    """Of the table of successes, the columns of `nopg.learn` and of IQL."""
    table = as_written(summary).split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    kept = [rows[0].index(name) for name in LEARN_AND_IQL]
    return "\n".join(_line([row[i] for i in kept]) for row in rows)


def smallest(summary: Summary) -> str:
    """The least data with which nine of ten seeds solve the task, by method."""
    found = summary["analysis"]["smallest_size"]
    lines = _head("", "smallest n")
    for name, size in sorted(found.items()):
        lines.append(_line([name, "not reached" if size is None else f"{size:,}"]))
    return "\n".join(lines)


def beside_fqe(summary: Summary) -> str:
    """Mean error of J on the policies that fitted Q evaluation was run on, too."""
    lines = _head("task", "policies", "fitted Q evaluation", "kernels", "models")
    for row in summary["analysis"]["coverage"]:
        if "fqe_policies" in row:
            names = ("fqe", "kernel", "model")
            errors = (row[f"{by}_error_beside_fqe"] for by in names)
            cells = [f"{error:.3g}" for error in errors]
            lines.append(_line([row["task"], str(row["fqe_policies"]), *cells]))
    return "\n".join(lines)


KINDS: dict[str, Callable[[Summary], str]] = {
    "sizes": by_size,
    "written": as_written,
    "smallest": smallest,
    "against-iql": against_iql,
    "beside-fqe": beside_fqe,
}


def _quoted(label: str) -> str:
    """The arm as code, its kind of policy beside it."""
    arm, comma, policy = label.partition(",")
    return f"`{arm}`{comma}{policy}"


def _cell(row: Row | None, kind: str) -> str:
    """Mean return, and how many of how many seeds solve the task."""
    if row is None or kind not in row:
        return ""
    mean = f"{row[kind][0]:,.0f}"
    solved = row.get(f"{kind}_solved")
    if solved is None:
        return f"{mean} ({row['seeds']})"
    return f"{mean} ({solved}/{row['seeds']})"


def _head(*titles: str) -> list[str]:
    return [_line(list(titles)), "|---" * len(titles) + "|"]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Write every page whose tables are older than the results."""
    for name in PAGES:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        new = filled(text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{name}: tables renewed\n")


if __name__ == "__main__":
    main()
