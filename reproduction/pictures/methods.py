"""The colour each method has in every picture, and the legend that names it."""

from __future__ import annotations

from typing import Any

from reproduction.pictures.theme import ACCENT, INK, MUTED, WARM

COLOURS = {
    "learn": ACCENT,
    "learn, stochastic policy": "#74a9f7",
    "NOPG": "#2b8a3e",
    "NOPG, stochastic policy": "#8ce99a",
    "paper": "#7950f2",
    "paper, stochastic policy": "#c0a9f7",
    "paper with floor": "#f783ac",
    "paper with N_phi": "#f783ac",
    "DDPG offline": WARM,
    "DDPG online": "#ae3ec9",
    "PWIS": "#e03131",
    "DPG": WARM,
    "BC": "#868e96",
    "TD3+BC": "#f08c00",
    "IQL": "#c2255c",
    "CQL": "#0c8599",
}
PRINTED = {"NOPG-D": INK, "NOPG-S": MUTED}
"""Colours of the numbers printed in the paper, which are dashed."""


FEW = 6
"""Up to so many names fit among the curves; more stand below."""


def legend(axis: Any) -> None:
    """Name what is drawn, if anything is, readable over curves too."""
    n_names = len(axis.get_legend_handles_labels()[0])
    if n_names > FEW:
        axis.legend(
            fontsize=7, frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14)
        )
    elif n_names:
        axis.legend(fontsize=7, frameon=True, facecolor="w", edgecolor="none", framealpha=0.7)
