"""The Qube's demonstrations: the script against the recordings, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reproduction.experiment import Plan
from reproduction.figures import machines
from reproduction.tasks.qube import SwingUp, qube_task
from reproduction.trials.machines import CONTROLLER, DEMONSTRATIONS, run_reference

import nopg
from nopg.errors import ConfigError, DataError
from tests.reproduction.envs.shared_files import shared_data


def test_the_script_does_what_was_recorded() -> None:
    file = shared_data("qube_10.npz")
    np.testing.assert_allclose(SwingUp()(file["observations"]), file["actions"], atol=0.01)


def test_the_script_swings_up_and_holds() -> None:
    returns = qube_task().returns(SwingUp(), 0)
    assert np.median(returns) > 2.0  # hanging earns 1e-4, a perfect start 7.5
    still = qube_task().returns(lambda s: np.zeros((len(s), 1)), 0)
    assert still.max() < 0.01


def test_demonstrations_follow_from_the_seed_and_may_be_recorded(tmp_path: Path) -> None:
    data = qube_task().dataset(2, 3)
    assert data.n_episodes == 2
    np.testing.assert_array_equal(data.actions, qube_task().dataset(2, 3).actions)
    data.save(tmp_path / "log.npz")
    again = qube_task(str(tmp_path / "log.npz"))
    assert again.dataset(1, 0).n_episodes == 1
    with pytest.raises(ConfigError, match="as many demonstrations as asked for, 3"):
        again.dataset(3, 0)
    s = np.zeros((4, 2))
    other = nopg.Dataset(s, s[:, :1], s[:, 0], s, s[:, 0] > 0)
    other.save(tmp_path / "other.npz")
    with pytest.raises(DataError, match="six columns"):
        qube_task(str(tmp_path / "other.npz")).dataset(1, 0)


def test_references_are_measured_as_policies_are() -> None:
    found = {trial.method: trial for trial in machines.trials(Plan(preset="smoke"))}
    assert set(found) == {"learn", DEMONSTRATIONS, CONTROLLER}
    data = qube_task().dataset(2, 0)
    demonstrated = run_reference(found[DEMONSTRATIONS])
    assert demonstrated["last"] == pytest.approx(data.rewards.sum() / 2.0, abs=1e-4)
    script = run_reference(found[CONTROLLER])
    expected = qube_task().returns(SwingUp(), 0)
    assert script["returns"] == pytest.approx(expected.tolist(), abs=1e-3)
