"""The guard of an export: the library's distances, from fewer samples."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg
from nopg.export import export_policy
from nopg.export.deployed import deployed, policy_arrays
from nopg.export.guard import SupportPoints, support_points
from nopg.export.program_formats import Program, to_c
from nopg.export.verify import ProgramRunner, trial_states
from tests.export.test_export import fitted


def distances(guard: SupportPoints, states: Any, actions: Any) -> Any:
    """To the nearest point, in bandwidths, by all pairs."""
    n_labels = len(guard.scale) - states.shape[1]
    taken = actions if actions.ndim == 2 else np.eye(n_labels)[actions]
    places = np.concatenate([states, taken], axis=1) * guard.scale
    apart = np.linalg.norm(places[:, None] - guard.points[None], axis=2)
    return apart.min(axis=1)


@pytest.mark.parametrize("kind", ["deterministic", "discrete"])
def test_with_every_sample_distances_are_those_of_the_library(kind: str) -> None:
    policy = fitted(kind)
    guard = support_points(policy)
    assert guard.threshold == pytest.approx(guard.full_threshold)
    states = trial_states(policy, 200)
    actions = policy.predict(states)[0]
    expected = policy.support(states, actions).distance
    np.testing.assert_allclose(distances(guard, states, actions), expected, rtol=1e-6)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("kind", ["deterministic", "discrete"])
def test_the_program_answers_as_its_points_do(kind: str) -> None:
    policy = fitted(kind)
    guard = support_points(policy, 20)
    arrays = policy_arrays(deployed(policy))
    program = Program("policy", ["a policy"], arrays, guard)
    run = ProgramRunner(program, to_c(program), ".h")
    states = trial_states(policy, 1000)
    run(states)
    far = distances(guard, states, policy.predict(states)[0]) > guard.threshold
    assert run.found is not None
    assert (run.found == far).all()
    assert 0.05 < far.mean() < 0.95


def test_fewer_samples_reach_the_data_and_tell_what_is_lost(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(2000, 3)), rng.uniform(-1, 1, size=(2000, 1))
    data = nopg.Dataset(
        states, actions, -(states[:, 0] ** 2), 0.9 * states, np.zeros(2000, dtype=bool)
    )
    given = nopg.Bandwidths(state=(0.2, 0.2, 0.2), action=(0.2,))
    policy = nopg.NOPG(bandwidths=given, search_start=False).fit(
        data, states[:1], n_updates=1, progress=False
    )
    guard = support_points(policy, 64)
    assert guard.points.shape == (64, 4)
    near = distances(guard, states, actions) <= guard.threshold
    assert near.mean() >= 0.99
    assert guard.threshold > guard.full_threshold
    # Farthest-first: no two points are nearer than the widest gap that is left.
    apart = np.linalg.norm(guard.points[:, None] - guard.points[None], axis=2)
    gaps = distances(guard, states, actions)
    assert apart[~np.eye(64, dtype=bool)].min() >= gaps.max() - 1e-9
    done = [export_policy(policy, tmp_path / "policy.h", guard_points=n) for n in (64, 1024)]
    assert done[0].lost[1] > 0.0  # a wider threshold lets more through
    assert sum(done[1].lost) < sum(done[0].lost)
