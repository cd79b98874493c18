"""Sentences and tables of the page as HTML; everything from data is escaped here."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from nopg.data.diagnostics.checks import Diagnostic
from nopg.data.diagnostics.description import Description
from nopg.evaluation.replay import Replay
from nopg.evaluation.suggest import Suggestion
from nopg.fitted.history import SearchResult

MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"


def number(value: float, digits: int = 4) -> str:
    """A number to a few digits, with a true minus sign."""
    if not math.isfinite(value):
        return DASH if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    return f"{value:.{digits}g}".replace("-", MINUS)


def range_bars(rows: Sequence[tuple[str, float, float, float]]) -> str:
    """Returns on one scale: name, lower end, value, upper end of each."""
    if not rows:
        return ""
    ends = np.array([row[1:] for row in rows])
    low, high = float(ends.min()), float(ends.max())
    room = 0.05 * (high - low) or 1.0
    low, width = low - room, high - low + 2.0 * room
    bars = ""
    for name, *numbers in rows:
        first, value, last = (100.0 * (x - low) / width for x in numbers)
        bars += (
            f"<li><span>{escape(name)}</span>"
            '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
            '<rect class="whole" width="100" y="4" height="2"/>'
            f'<rect class="band" x="{first:.2f}" width="{last - first:.2f}" '
            f'height="10"/><rect class="mark" x="{value - 0.3:.2f}" width="0.6" '
            f'height="10"/></svg><em>{number(numbers[1])}</em></li>'
        )
    return f'<ul class="ranges">{bars}</ul>'


def note_list(found: Sequence[Diagnostic]) -> str:
    """What the appendix says in words."""
    items = "".join(
        f'<li class="{one.level}" data-name="{escape(one.name)}">'
        f"<p>{escape(one.what)}</p><p>{escape(one.meaning)}</p></li>"
        for one in found
    )
    return f'<ul class="findings">{items}</ul>' if items else "<p>Nothing.</p>"


def replay_table(replay: Replay) -> str:
    """How far predictions of recordings held, by how far ahead."""
    rows = []
    for i, label in enumerate(replay.labels):
        worst = replay.names[int(replay.errors[i].argmax())]
        held, ratio = replay.coverage[i].mean(), replay.relative[i]
        rows.append([label, f"{replay.n_starts[i]:,}", f"{held:.0%}", f"{ratio:.2f}", worst])
    return table(["after", "starts", "in 90% bands", "error", "worst"], rows)


def suggestion_table(suggestion: Suggestion) -> str:
    """Steps to record next: where to be and what to do."""
    columns = [suggestion.table[name] for name in suggestion.names]
    found: dict[tuple[str, ...], list[float]] = {}  # noise may ask for a step twice
    for *row, gain in zip(*columns, -np.diff(suggestion.remaining, prepend=1.0), strict=True):
        found.setdefault(tuple(number(float(x), 3) for x in row), []).append(gain)
    rows = [[*row, str(len(each)), f"{sum(each):.1%}"] for row, each in found.items()]
    return table([*suggestion.names, "times", "narrows by"], rows)


def search_table(search: SearchResult) -> str:
    """Every policy that was tried, and what the learned models expect of it."""
    rows = []
    for i, one in enumerate(search.candidates):
        refined = DASH if one.refined is None else number(one.refined.value)
        cells = [number(one.first.value), refined, f"{one.final.uncertainty:.2f}"]
        rows.append([str(one.method), *cells, "kept" if i == search.chosen else ""])
    return table(["found by", "first estimate", "last estimate", "uncertainty", ""], rows)


def column_table(description: Description) -> str:
    """Ranges of every column."""
    rows = []
    for c in description.columns:
        cells = [number(value) for value in (c.low, c.median, c.high, c.std)]
        rows.append([c.name, c.part, *cells, f"{c.n_distinct:,}"])
    return table(["column", "part", "min", "median", "max", "std", "distinct"], rows)


def facts(entries: Iterable[tuple[str, Any]]) -> str:
    """Names and values side by side; long values take a line of their own."""
    cells = ""
    for name, value in entries:
        text = str(value)
        kind = ' class="long"' if len(text) > 36 else ""
        cells += f"<div{kind}><dt>{escape(name)}</dt><dd><code>{escape(text)}</code></dd></div>"
    return f'<dl class="facts">{cells}</dl>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that scrolls by itself where it is too wide."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
