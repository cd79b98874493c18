"""Where the policy is predicted to go: every state dimension over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.evaluation.safety import PredictedStates
from nopg.plots.theme import ACCENT, INK, MUTED, WARM, figure, save

BANDS = ((0.05, 0.95, 0.15), (0.25, 0.75, 0.3))
"""Quantiles that are shaded, and how darkly."""


def state_forecast(
    predicted: PredictedStates,
    path: Path,
    *,
    names: Sequence[str] | None = None,
    simulated: NDArray[np.float64] | None = None,
) -> Path:
    """Draw the predicted distribution of states step by step.

    Args:
        predicted: From `model.predicted_states`.
        path: Picture to write.
        names: A name a state dimension.
        simulated: Paths to draw over it, (B, T + 1, d_s), where a simulator is at hand.
    """
    steps = np.arange(1, len(predicted.weights) + 1)
    levels = [level for low, high, _ in BANDS for level in (low, high)]
    quantiles = predicted.quantiles([*levels, 0.5])
    d_s = predicted.states.shape[1]
    is_ending = bool(predicted.running.min() < 0.999)
    rows = d_s + is_ending
    with figure(rows=rows, figsize=(7.2, 1.9 * rows)) as (drawn, axes):
        for d, axis in enumerate(axes[:d_s, 0]):
            for b, (_, _, alpha) in enumerate(BANDS):
                low, high = quantiles[2 * b, :, d], quantiles[2 * b + 1, :, d]
                axis.fill_between(steps, low, high, color=ACCENT, alpha=alpha, lw=0)
            axis.plot(steps, quantiles[-1, :, d], color=ACCENT, lw=1.4)
            if simulated is not None:
                _draw_paths(axis, simulated[:, : len(steps) + 1, d])
            axis.set_ylabel(names[d] if names is not None else f"s{d}")
        axes[0, 0].set_title("Predicted states: median, half and nine tenths of runs")
        if is_ending:
            axes[-1, 0].plot(steps, predicted.running, color=INK, lw=1.4)
            axes[-1, 0].set_ylim(-0.05, 1.05)
            axes[-1, 0].set_ylabel("still running")
        axes[-1, 0].set_xlabel("step")
        return save(drawn, path)


def _draw_paths(axis: Any, paths: NDArray[np.float64]) -> None:
    for number, walked in enumerate(paths):
        colour = WARM if number == 0 else MUTED
        axis.plot(np.arange(len(walked)), walked, color=colour, lw=0.7, alpha=0.7)
