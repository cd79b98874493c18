"""Figure 3's numbers: against a pendulum that nobody pushes, and a table by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from reproduction.figures.figure3_phase import COLUMNS, analyse
from reproduction.results import Record
from reproduction.trial import Trial
from reproduction.trials import phase

from nopg.fitted.policy import FittedPolicy
from nopg.policies.build import linear_policy

TRIAL = Trial(
    experiment="figure3-phase",
    task="pendulum-grid",
    method="NOPG-D",
    setting="paper",
    size=450,
    seed=0,
    settings={"gamma": 0.97, "n_points": 3},
)


def unpushed(value: Any) -> FittedPolicy:
    """No torque; half of the visits near the goal; a value function of one's own."""
    states = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])  # upright, hanging
    kernel = SimpleNamespace(
        solution=SimpleNamespace(mu=SimpleNamespace(value=torch.tensor([2.0, 2.0]))),
        data=SimpleNamespace(observations=states),
        visitation=lambda states: np.zeros(len(states)),
    )
    policy = linear_policy([[0.0, 0.0, 0.0]])
    return cast("FittedPolicy", SimpleNamespace(policy=policy, value=value, kernel=kernel))


def test_numbers_of_a_pendulum_that_nobody_pushes() -> None:
    """Of nine states on the grid only the upright one at rest stays upright."""
    states = phase.phase_states(3)
    truth, _, ends_up = phase._simulated(unpushed(None), states, 0.97)
    assert states[ends_up].tolist() == [[0.0, 0.0]]
    hanging = -(np.pi**2) * (1.0 - 0.97**300) / 0.03
    assert truth[3] == pytest.approx(hanging)  # at rest, angle -pi
    off_by_3 = {len(truth): truth + 3.0, 1: np.array([hanging])}  # the grid, the start
    found = phase.portrait(unpushed(lambda x: off_by_3[len(x)]), TRIAL)
    assert found["value_rmse"] == pytest.approx(3.0)
    assert found["value_correlation"] == 1.0
    assert found["upright_from"] == pytest.approx(1.0 / 9.0, abs=1e-4)
    assert found["time_near_goal"] == 0.5
    assert found["time_near_goal_simulated"] == 0.0
    assert found["true"] == found["estimated"] == pytest.approx(hanging, abs=1e-3)
    assert found["return"] == pytest.approx(-500 * np.pi**2, abs=1e-2)


def test_table_has_means_over_seeds() -> None:
    def record(seed: int, returned: float) -> Record:
        numbers = dict.fromkeys(COLUMNS, 0.5)
        fields = TRIAL.to_json() | {"seed": seed}
        after = {**numbers, "return": returned}
        return Record(Trial.from_json(fields), "code", "run", {"after": after})

    table = analyse([record(0, -400.0), record(1, -600.0)])["markdown"].splitlines()
    assert len(table) == 3
    assert table[2].startswith("| `paper`, after | 2 | -500, worst -600 | 0.5 | 0.5 |")
    assert table[2].endswith("| 50% | 50% | 50% |")
