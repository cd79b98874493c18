"""Roughly how long a trial takes: the longest are started first.

A long trial begun last keeps one core busy while all others wait. Nothing but the order
in which trials are started depends on these numbers.
"""

from __future__ import annotations

from types import MappingProxyType

from nopg.experiments.trial import Trial

MILLISECONDS_A_STEP = MappingProxyType(
    {"CQL": 80.0, "IQL": 10.0, "TD3+BC": 7.5, "BC": 1.5}
    | {"DDPG offline": 2.5, "DDPG online": 2.5}
)
"""Of methods whose step does not depend on the size of the data, on one core."""
ROWS_OF_A_DEMONSTRATION = 350


def rough_seconds(trial: Trial) -> float:
    """An estimate good enough to put trials in order."""
    n_steps = float(trial.settings.get("n_updates", trial.size))
    if trial.method in MILLISECONDS_A_STEP:
        return 1e-3 * MILLISECONDS_A_STEP[trial.method] * n_steps
    is_demonstration = trial.task == "mountain-car"
    n = trial.size * (ROWS_OF_A_DEMONSTRATION if is_demonstration else 1)
    if trial.method == "PWIS":
        return n_steps * (1e-3 + 4e-7 * n)
    widening = 3.0 if trial.method == "NOPG-S" else 1.0  # several actions a state
    return n_steps * (1e-3 + 5e-6 * n * widening)
