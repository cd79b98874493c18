"""Puts a data set into words: numbers first, then what they mean for learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nopg.data.coverage import grid_coverage, neighbour_weights
from nopg.data.diagnostics.columns import action_diagnostics, column_diagnostics
from nopg.data.diagnostics.description import Column, Description, Diagnostic
from nopg.data.diagnostics.time import time_diagnostics
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray

if TYPE_CHECKING:
    from gymnasium.spaces import Space


def describe(
    table: TransitionTable, action_space: Space[Any] | None = None
) -> Description:
    """Count and measure a data set, and say what that means.

    Args:
        table: The transitions.
        action_space: Bounds to hold the actions against, if the data know none.
    """
    weights = neighbour_weights(table)
    findings = [
        *time_diagnostics(table),
        *action_diagnostics(table, action_space or table.action_space),
        *column_diagnostics(table),
        _neighbours(weights),
    ]
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
        columns=(
            *_columns("state", table.observation_names, table.observations),
            *_columns("action", table.action_names, table.actions),
            *_columns("reward", ("reward",), table.rewards),
        ),
        coverage=grid_coverage(table.observations),
        neighbours=(few, typical, many),
        findings=tuple(sorted(findings, key=lambda finding: finding.level == "note")),
        notes=table.notes,
    )


def _columns(
    part: Literal["state", "action", "reward"], names: tuple[str, ...], values: Any
) -> list[Column]:
    matrix: FloatArray = values.reshape(len(values), -1).astype(np.float64)
    return [
        Column(
            name=name,
            part=part,
            low=float(column.min()),
            median=float(np.median(column)),
            high=float(column.max()),
            std=float(column.std()),
            n_distinct=len(np.unique(column)),
        )
        for name, column in zip(names, matrix.T, strict=True)
    ]


def _neighbours(weights: FloatArray) -> Diagnostic:
    alone = float((weights < 1.0).mean())
    if alone > 0.5:
        return Diagnostic(
            "isolated_rows",
            "warning",
            f"{alone:.0%} of the rows have less than one neighbour.",
            "Most values rest on single samples, so noise in them is learnt as truth; "
            "record more data, drop irrelevant columns or widen the bandwidths.",
        )
    return Diagnostic(
        "neighbours",
        "note",
        f"A typical row has {float(np.median(weights)):.3g} neighbours; {alone:.0%} "
        "of the rows have less than one.",
        "Values there average several samples; where rows are alone the policy copies "
        "one sample, noise included.",
    )
