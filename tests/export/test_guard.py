"""The guard of an export: the library's distances, from fewer samples."""

from __future__ import annotations

import numpy as np
import pytest

import nopg
from nopg.export.guard import support_points
from nopg.export.verify import trial_states
from tests.export.test_export import fitted


@pytest.mark.parametrize("kind", ["deterministic", "discrete"])
def test_with_every_sample_distances_are_those_of_the_library(kind: str) -> None:
    policy = fitted(kind)
    guard = support_points(policy)
    assert guard.threshold == pytest.approx(guard.full_threshold)
    states = trial_states(policy, 200)
    actions = policy.predict(states)[0]
    expected = policy.support(states, actions).distance
    np.testing.assert_allclose(guard.distance(states, actions), expected, rtol=1e-6)
    assert guard.disagreement(policy, states, actions) == (0.0, 0.0)


def test_fewer_samples_reach_the_data_and_tell_what_is_lost() -> None:
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
    near = guard.distance(states, actions) <= guard.threshold
    assert near.mean() >= 0.99
    assert guard.threshold > guard.full_threshold
    # Farthest-first: no two points are nearer than the widest gap that is left.
    apart = np.linalg.norm(guard.points[:, None] - guard.points[None], axis=2)
    gaps = guard.distance(states, actions)
    assert apart[~np.eye(64, dtype=bool)].min() >= gaps.max() - 1e-9
    asked = trial_states(policy, 500)
    only_here, only_there = guard.disagreement(policy, asked, policy.predict(asked)[0])
    assert only_there > 0.0  # a wider threshold lets more through
    assert only_here < 0.02
    more = support_points(policy, 1024).disagreement(
        policy, asked, policy.predict(asked)[0]
    )
    assert sum(more) < only_here + only_there
