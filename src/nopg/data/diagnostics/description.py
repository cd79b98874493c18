"""The record that `Dataset.describe` returns: numbers, findings, and their meaning."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Diagnostic:
    """One thing about the data that matters for learning."""

    name: str
    """A short fixed name, for programs."""
    level: Literal["note", "warning"]
    """A warning asks for a decision; a note is only worth knowing."""
    what: str
    """What was found, with its numbers."""
    meaning: str
    """What it means for learning and what to do."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """Range and spread of one column."""

    name: str
    """The column's name."""
    part: Literal["state", "action", "reward"]
    """What the column is part of."""
    low: float
    """Smallest value."""
    median: float
    """Median."""
    high: float
    """Largest value."""
    std: float
    """Standard deviation."""
    n_distinct: int
    """Number of different values."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """Counts, ranges and findings of a data set; `print` it or take `to_json()`."""

    n_transitions: int
    """Rows."""
    n_episodes: int
    """Distinct episode ids, 0 if rows have none."""
    episode_lengths: tuple[int, int, int] | None
    """Shortest, median and longest episode in rows."""
    n_terminations: int
    """Rows after which the task was over."""
    n_truncations: int
    """Rows after which only the recording stopped."""
    n_actions: int | None
    """Number of labels if the action is discrete."""
    columns: tuple[Column, ...]
    """Every column of state, action and reward."""
    coverage: float
    """Share of the cells of a ten-per-side grid over the states that hold data, out
    of those the data could fill."""
    neighbours: tuple[float, float, float]
    """Kernel weight of the other rows around a row: 10 %, 50 % and 90 % quantile."""
    findings: tuple[Diagnostic, ...]
    """What stands out, warnings first."""
    notes: tuple[str, ...]
    """How the rows came to be, in the sentences of readers and transforms."""

    def to_dict(self) -> dict[str, Any]:
        """The whole record as plain dictionaries and lists."""
        return asdict(self)

    def to_json(self, indent: int | None = 2) -> str:
        """The whole record as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        blocks = [self._counts(), self._ranges()]
        if self.notes:
            lines = [line for note in self.notes for line in _wrapped("- ", note)]
            blocks.append(["How the rows came to be", *lines])
        lines = ["What it means for learning"]
        for finding in self.findings:
            mark = "!" if finding.level == "warning" else "-"
            lines += _wrapped(f"{mark} ", finding.what)
            lines += _wrapped("    ", finding.meaning)
        return "\n\n".join("\n".join(block) for block in [*blocks, lines])

    def _counts(self) -> list[str]:
        rows = f"{self.n_transitions:,} transitions without episodes"
        if self.episode_lengths is not None:
            low, middle, high = self.episode_lengths
            rows = (
                f"{self.n_transitions:,} transitions in {self.n_episodes:,} episodes "
                f"of {low} to {high} steps (median {middle})"
            )
        discrete = f"{self.n_actions} discrete actions"
        few, typical, many = self.neighbours
        return [
            rows,
            f"{self.n_terminations:,} terminated, {self.n_truncations:,} truncated; "
            f"{'continuous action' if self.n_actions is None else discrete}",
            f"Coverage {self.coverage:.0%}; a typical row has {typical:.3g} neighbours "
            f"(10 % of rows fewer than {few:.3g}, 10 % more than {many:.3g})",
        ]

    def _ranges(self) -> list[str]:
        width = max(6, *(len(column.name) for column in self.columns))
        heads = ("min", "median", "max", "std", "distinct")
        lines = [f"{'column':<{width}}  part   " + "".join(f"{h:>11}" for h in heads)]
        for column in self.columns:
            numbers = (column.low, column.median, column.high, column.std)
            cells = "".join(f"{number:>11.4g}" for number in numbers)
            name = f"{column.name:<{width}}  {column.part:<7}"
            lines.append(f"{name}{cells}{column.n_distinct:>11,}")
        return lines


def _wrapped(lead: str, sentence: str) -> list[str]:
    """Lines of at most 88 characters, the later ones indented under the first."""
    indent = " " * len(lead)
    return textwrap.wrap(sentence, 88, initial_indent=lead, subsequent_indent=indent)
