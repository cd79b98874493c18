"""Sentences and tables of the page as HTML; everything from data is escaped here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.data.diagnostics.description import Description
from nopg.data.validation import FloatArray
from nopg.fitted.search_result import SearchResult
from nopg.report.support_map import REACH, VisitedStates
from nopg.report.verdict import GRAVE, SENTENCES, Finding, verdict

MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"


def number(value: float, digits: int = 4) -> str:
    """A number to a few digits, with a true minus sign."""
    if not math.isfinite(value):
        return DASH if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    return f"{value:.{digits}g}".replace("-", MINUS)


def verdict_card(findings: Sequence[Finding]) -> str:
    """The verdict with its reasons; findings come the gravest first."""
    level = verdict(findings)
    sentence, advice = SENTENCES[level]
    reasons = "".join(
        f'<li class="{"against" if finding.level in GRAVE else "for"}">'
        f"{escape(finding.brief[0].upper() + finding.brief[1:])}.</li>"
        for finding in findings
        if finding.brief and finding.level != "note"
    )
    return (
        f'<div class="verdict {level}" id="verdict"><strong>{sentence}</strong>'
        f"<p>{advice}</p><ul>{reasons}</ul></div>"
    )


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """Large numbers: name, number, what it means."""
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small>"
        "</dd></div>"
        for name, value, more in entries
    )
    return f'<dl class="tiles">{cells}</dl>'


def finding_list(findings: Sequence[Finding]) -> str:
    """Warnings and notes in the open, what speaks for the policy folded below."""
    good = [finding for finding in findings if finding.level == "good"]
    others = [finding for finding in findings if finding.level != "good"]
    shown = _findings(others) if others else "<p>Nothing to warn of.</p>"
    return shown + _folded("What speaks for it", good)


def share_bar(visited: VisitedStates) -> str:
    """How the visits divide into near, stretched and out of reach."""
    half = REACH / 2.0
    near = float(visited.visits[visited.distance <= half].sum())
    shares = {
        "near": (near, f"within {half:g} bandwidth"),
        "stretched": (
            max(0.0, 1.0 - near - visited.beyond),
            f"from {half:g} to {REACH:g} bandwidths",
        ),
        "beyond": (visited.beyond, f"beyond {REACH:g}: out of reach"),
    }
    rects = items = ""
    left = 0.0
    for name, (share, meaning) in shares.items():
        place = f'x="{left:.3f}" width="{100.0 * share:.3f}"'
        rects += f'<rect class="{name}" {place} height="10"/>'
        items += f'<li class="{name}">{share:.0%} {escape(meaning)}</li>'
        left += 100.0 * share
    return (
        '<svg class="shares" viewBox="0 0 100 10" preserveAspectRatio="none" '
        f'role="img" aria-label="Shares of the visits">{rects}</svg>'
        f'<ul class="key">{items}</ul>'
    )


def worst_table(visited: VisitedStates, data: Dataset, count: int = 8) -> str:
    """The least known of the visited states."""
    # What is wrong comes first: on a phone the rest is a swipe away.
    heads = ["distance", "rows", "visits"]
    heads += [*data.observation_names, *data.action_names]
    rows: dict[tuple[str, ...], list[str]] = {}
    for i in visited.worst(8 * count):
        place = tuple(number(value, 2) for value in visited.states[i])
        if place in rows or len(rows) == count:  # paths of two models are often alike
            continue
        cells = [number(float(visited.distance[i]), 3)]
        cells += [number(float(visited.effective[i]), 3)]
        share = float(visited.visits[i])
        cells += ["< 0.1%" if share < 0.0005 else f"{share:.1%}"]
        actions = np.atleast_1d(visited.actions[i])
        rows[place] = cells + [number(v, 3) for v in (*visited.states[i], *actions)]
    return table(heads, rows.values())


def search_table(search: SearchResult) -> str:
    """Every policy that was tried, and what the learned models expect of it."""
    rows = []
    for i, one in enumerate(search.candidates):
        refined = DASH if one.refined is None else number(one.refined.value)
        kept = "kept" if i == search.chosen else ""
        cells = [number(one.first.value), refined, f"{one.final.uncertainty:.2f}", kept]
        rows.append([str(one.method), *cells])
    return table(
        ["found by", "first estimate", "last estimate", "uncertainty", ""], rows
    )


def column_table(description: Description, data: Dataset) -> str:
    """Ranges of every column with a small histogram."""
    actions = data.actions.reshape(len(data), -1).astype(np.float64)
    values = [*data.observations.T, *actions.T, data.rewards]
    heads = ["column", "part", "values", "min", "median", "max", "std", "distinct"]
    body = ""
    for column, entries in zip(description.columns, values, strict=True):
        numbers = (column.low, column.median, column.high, column.std)
        cells = "".join(f"<td>{number(v)}</td>" for v in numbers)
        body += (
            f"<tr><td>{escape(column.name)}</td><td>{column.part}</td>"
            f"<td>{_sparkline(entries)}</td>{cells}<td>{column.n_distinct:,}</td></tr>"
        )
    return _framed(heads, body)


def notes(description: Description) -> str:
    """How the rows came to be, and what `describe` notes without warning."""
    parts = ""
    if description.notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in description.notes)
        parts += f"<h3>How the rows came to be</h3><ul>{items}</ul>"
    found = [
        Finding(one.name, "note", one.what, one.meaning)
        for one in description.findings
        if one.level == "note"
    ]
    return parts + _folded("Notes on the data", found)


def facts(entries: Iterable[tuple[str, Any]]) -> str:
    """Names and values side by side; long values take a line of their own."""
    cells = ""
    for name, value in entries:
        text = str(value)
        kind = ' class="long"' if len(text) > 36 else ""
        cells += (
            f"<div{kind}><dt>{escape(name)}</dt>"
            f"<dd><code>{escape(text)}</code></dd></div>"
        )
    return f'<dl class="facts">{cells}</dl>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that scrolls by itself where it is too wide."""
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return _framed(heads, body)


def _framed(heads: Sequence[str], body: str) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _folded(title: str, findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    head = f"<summary>{escape(title)} ({len(findings)})</summary>"
    return f"<details>{head}{_findings(findings)}</details>"


def _findings(findings: Iterable[Finding]) -> str:
    items = "".join(
        f'<li class="{f.level}" data-name="{escape(f.name)}">'
        f"<b>{f.level.capitalize()}</b>"
        f"<p>{escape(f.what)}</p><p>{escape(f.meaning)}</p></li>"
        for f in findings
    )
    return f'<ul class="findings">{items}</ul>'


def _sparkline(values: FloatArray, bins: int = 21) -> str:
    counts, _ = np.histogram(values, bins=bins)
    heights = 20.0 * counts / max(1, counts.max())
    bars = "".join(
        f'<rect x="{4 * i}" y="{22 - h:.1f}" width="3" height="{h:.1f}"/>'
        for i, h in enumerate(heights)
        if h > 0
    )
    return f'<svg class="spark" viewBox="0 0 84 22" aria-hidden="true">{bars}</svg>'
