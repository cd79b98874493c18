"""Puts a data set into words: numbers first, then what they mean for learning."""

import json
import textwrap
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Space

from nopg.data.coverage import neighbour_weights
from nopg.data.diagnostics.checks import Diagnostic, all_diagnostics
from nopg.data.diagnostics.hardware import hardware_diagnostics
from nopg.data.diagnostics.memory import memory_diagnostics
from nopg.data.transitions import TransitionTable


@dataclass(frozen=True)
class Column:
    """Range and spread of one column."""

    name: str
    part: Literal["state", "action", "reward"]
    low: float
    median: float
    mean: float
    high: float
    std: float
    n_distinct: int  # number of different values


@dataclass(frozen=True, kw_only=True)
class Description:
    """Counts, ranges and findings of a data set; `print` it or take `to_json()`."""

    n_transitions: int  # rows
    n_episodes: int  # distinct episode ids, 0 if rows have none
    episode_lengths: tuple[int, int, int] | None  # shortest, median, longest
    n_terminations: int  # rows after which the task was over
    n_truncations: int  # rows after which only the recording stopped
    n_actions: int | None  # number of labels if the action is discrete
    columns: tuple[Column, ...]  # every column of state, action and reward
    sample_time: float | None  # time from one row to the next, if the log had a clock
    neighbours: tuple[float, float, float]  # 10, 50, 90 % of weights around rows
    findings: tuple[Diagnostic, ...]  # what stands out, warnings first
    notes: tuple[str, ...]  # how the rows came to be

    def to_json(self) -> str:
        """The whole record as JSON text."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        blocks = [self.counts(), self._ranges()]
        if self.notes:
            lines = [line for note in self.notes for line in _wrapped("- ", note)]
            blocks.append(["How the rows came to be", *lines])
        lines = ["What it means for learning"]
        lines += [] if self.findings else ["- Nothing stands out."]
        for finding in self.findings:
            mark = "!" if finding.level == "warning" else "-"
            lines += _wrapped(f"{mark} ", finding.what) + _wrapped("    ", finding.meaning)
        return "\n\n".join("\n".join(block) for block in [*blocks, lines])

    def counts(self) -> list[str]:
        """How many rows, how they ended, how close they are, a sentence each."""
        rows = f"{self.n_transitions:,} transitions"
        if self.episode_lengths is None:
            rows += " without episodes"
        else:
            low, middle, high = self.episode_lengths
            rows += f" in {self.n_episodes:,} episodes of {low} to {high} steps (median {middle})"
        if self.sample_time is not None:
            rows += f", one every {self.sample_time:.4g} of the clock"
        n, (few, typical, many) = self.n_actions, self.neighbours
        kind = "continuous action" if n is None else f"{n} discrete actions"
        return [
            rows,
            f"{self.n_terminations:,} terminated, {self.n_truncations:,} truncated; {kind}",
            f"A typical row has {typical:.3g} neighbours "
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
    return textwrap.wrap(sentence, 88, initial_indent=lead, subsequent_indent=" " * len(lead))


def describe(table: TransitionTable, action_space: Space[Any] | None = None) -> Description:
    """Count and measure a data set, and say what that means."""
    weights = neighbour_weights(table)
    findings = [
        *all_diagnostics(table, action_space or table.action_space, weights),
        *hardware_diagnostics(table),
        *memory_diagnostics(table),
    ]
    findings.sort(key=lambda finding: finding.level == "note")
    lengths = None
    if table.episodes is not None:
        counts = np.unique(table.episodes, return_counts=True)[1]
        lengths = int(counts.min()), int(np.median(counts)), int(counts.max())
    few, typical, many = np.quantile(weights, [0.1, 0.5, 0.9]).tolist()
    return Description(
        n_transitions=len(table),
        n_episodes=table.n_episodes,
        episode_lengths=lengths,
        n_terminations=int(table.terminations.sum()),
        n_truncations=int(table.truncations.sum()),
        n_actions=table.n_actions if table.is_discrete else None,
        columns=columns(table),
        sample_time=table.sample_time,
        neighbours=(few, typical, many),
        findings=tuple(findings),
        notes=table.notes,
    )


def columns(table: TransitionTable) -> tuple[Column, ...]:
    """Every column of state, action and reward."""
    parts: list[tuple[Literal["state", "action", "reward"], Any, Any]] = [
        ("state", table.observation_names, table.observations.T),
        ("action", table.action_names, table.actions.reshape(len(table), -1).astype(np.float64).T),
        ("reward", ("reward",), table.rewards[None]),
    ]
    found = []
    for part, names, values in parts:
        for name, x in zip(names, values, strict=True):
            numbers = (x.min(), np.median(x), x.mean(), x.max(), x.std())
            low, median, mean, high, std = map(float, numbers)
            found.append(Column(name, part, low, median, mean, high, std, len(np.unique(x))))
    return tuple(found)
