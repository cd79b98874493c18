"""Puts a dataset into words: numbers first, then what they mean for learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nopg.data.coverage import grid_coverage, neighbour_weights
from nopg.data.diagnostics.actions import action_findings
from nopg.data.diagnostics.columns import column_findings
from nopg.data.diagnostics.description import Column, Description, Diagnostic
from nopg.data.diagnostics.time import time_findings
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray

if TYPE_CHECKING:
    from gymnasium.spaces import Space


def describe(
    dataset: TransitionTable, action_space: Space[Any] | None = None
) -> Description:
    """Count, measure and judge a dataset.

    Args:
        dataset: The transitions.
        action_space: Bounds to hold the actions against, if the data know none.
    """
    weights = neighbour_weights(dataset)
    findings = [
        *time_findings(dataset),
        *action_findings(dataset, action_space or dataset.action_space),
        *column_findings(dataset),
        _neighbour_finding(dataset, weights),
    ]
    low, middle, high = np.quantile(weights, [0.1, 0.5, 0.9])
    return Description(
        n_transitions=len(dataset),
        n_episodes=dataset.n_episodes,
        episode_lengths=_lengths(dataset),
        n_terminations=int(dataset.terminations.sum()),
        n_truncations=int(dataset.truncations.sum()),
        n_actions=dataset.n_actions if dataset.is_discrete else None,
        columns=_columns(dataset),
        coverage=grid_coverage(dataset.observations),
        neighbours=(float(low), float(middle), float(high)),
        findings=tuple(sorted(findings, key=lambda finding: finding.level == "note")),
        notes=dataset.notes,
    )


def _lengths(dataset: TransitionTable) -> tuple[int, int, int] | None:
    if dataset.episodes is None:
        return None
    counts = np.unique(dataset.episodes, return_counts=True)[1]
    return int(counts.min()), int(np.median(counts)), int(counts.max())


def _columns(dataset: TransitionTable) -> tuple[Column, ...]:
    actions = dataset.actions.reshape(len(dataset), -1).astype(np.float64)
    return (
        *(
            _column(name, "state", values)
            for name, values in zip(
                dataset.observation_names, dataset.observations.T, strict=True
            )
        ),
        *(
            _column(name, "action", values)
            for name, values in zip(dataset.action_names, actions.T, strict=True)
        ),
        _column("reward", "reward", dataset.rewards),
    )


def _column(
    name: str, part: Literal["state", "action", "reward"], values: FloatArray
) -> Column:
    return Column(
        name=name,
        part=part,
        low=float(values.min()),
        median=float(np.median(values)),
        high=float(values.max()),
        std=float(values.std()),
        n_distinct=len(np.unique(values)),
    )


def _neighbour_finding(dataset: TransitionTable, weights: FloatArray) -> Diagnostic:
    alone = float((weights < 1.0).mean())
    typical = float(np.median(weights))
    if alone > 0.5:
        return Diagnostic(
            name="isolated_rows",
            level="warning",
            what=f"{alone:.0%} of the rows have less than one neighbour.",
            meaning="Most values rest on single samples, so noise in them is learnt as "
            "truth; record more data, drop irrelevant columns or widen the bandwidths.",
        )
    return Diagnostic(
        name="neighbours",
        level="note",
        what=f"A typical row has {typical:.3g} neighbours; {alone:.0%} of the rows "
        "have less than one.",
        meaning="Values there average several samples; where rows are alone the policy "
        "copies one sample, noise included.",
    )
