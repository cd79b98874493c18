"""Roughly how long a trial takes: the longest are started first.

A long trial begun last keeps one core busy while all others wait. Nothing but the order
in which trials are started depends on these numbers.
"""

from __future__ import annotations

from types import MappingProxyType

from reproduction.trial import Trial

MILLISECONDS_PER_STEP = MappingProxyType(
    {"CQL": 80.0, "IQL": 15.0, "TD3+BC": 7.5, "BC": 1.5, "DiscreteCQL": 8.0}
    | {"DDPG offline": 2.5, "DDPG online": 2.5}
)
"""Of methods whose step does not depend on the size of the data, on one core."""
ROWS_PER_DEMONSTRATION = MappingProxyType(
    {"mountain-car": 350, "mountain-car-recorded": 350, "MountainCar-v0": 230}
)
"""Where sizes count demonstrations, the transitions of one."""
FIT_UPDATES = 300
"""Updates of NOPG where a trial leaves them to the library."""


def rough_seconds(trial: Trial) -> float:
    """An estimate good enough to put trials in order."""
    length = FIT_UPDATES if trial.method.startswith("NOPG") else trial.size
    n_steps = float(trial.settings.get("n_updates", length))
    if trial.method in MILLISECONDS_PER_STEP:
        return 1e-3 * MILLISECONDS_PER_STEP[trial.method] * n_steps
    n = trial.size * ROWS_PER_DEMONSTRATION.get(trial.task, 1)
    if trial.method == "PWIS":
        return n_steps * (1e-3 + 4e-7 * n)
    if trial.method in ("learn", "learn-S"):
        return _learning(trial, n)
    widening = 3.0 if trial.method == "NOPG-S" else 1.0  # several actions per state
    widening *= float(trial.settings.get("next_state_samples", 1))
    return n_steps * (1e-3 + 5e-6 * n * widening)


def _learning(trial: Trial, n: int) -> float:
    """Six candidates on short lists, an ensemble of two models, three refinements."""
    n_updates = float(trial.settings.get("n_updates", 200))
    n_refining = float(trial.settings.get("n_refining", 100))
    n_near = min(n, 1000)
    searching = 6.0 * n_updates * (2e-3 + 4e-6 * n)
    refining = 3.0 * n_refining * (1e-1 + 1e-4 * n_near)
    return searching + 2e-2 * n_near + refining
