"""The experiments by name, imported when asked for."""

from __future__ import annotations

import importlib
from types import MappingProxyType

from nopg.errors import ConfigError
from reproduction.experiment import Experiment

MODULES = MappingProxyType(
    {
        "figure1-lqr": "figure1_lqr",
        "figure2-pendulum-grid": "figure2_pendulum_grid",
        "figure2-pendulum-random": "figure2_pendulum_random",
        "figure2-cart-pole": "figure2_cart_pole",
        "figure3-phase": "figure3_phase",
        "figure4-mountain-car": "figure4_mountain_car",
        "table1-applicability": "table1_applicability",
        "comparison-offline": "comparison_offline",
        "coverage": "coverage",
        "safety": "safety",
        "robustness": "robustness",
        "noisy": "noisy",
        "machines": "machines",
    }
)
"""Every experiment and the file it is written in."""


def experiment(name: str) -> Experiment:
    """The experiment called `name`; underscores are as good as dashes.

    Raises:
        ConfigError: If there is none; the known ones are listed.
    """
    module = MODULES.get(name.replace("_", "-").lower())
    if module is None:
        raise ConfigError(
            f"An experiment must be one of {', '.join(MODULES)}, or all of them with "
            f"`all`, got {name!r}."
        )
    found = importlib.import_module(f"reproduction.figures.{module}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found


def experiments(*names: str) -> list[Experiment]:
    """The experiments called so, in that order; every one for the name `all`."""
    wanted = list(MODULES) if "all" in names else list(dict.fromkeys(names))
    return [experiment(each) for each in wanted]
