"""Every finding appears when its cause is planted, and only then."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from nopg.data import Dataset


def clean(n: int = 400, **changes: Any) -> Dataset:
    """A smooth random walk in four episodes, without anything to complain about."""
    rng = np.random.default_rng(0)
    # Each episode is a walk of its own: s' of a row is s of the next, exactly.
    walks = rng.normal(size=(4, n // 4 + 1, 2)).cumsum(axis=1) * 0.1
    parts: dict[str, Any] = {
        "observations": walks[:, :-1].reshape(n, 2),
        "actions": rng.uniform(-1, 1, (n, 1)),
        "rewards": rng.normal(size=n),
        "next_observations": walks[:, 1:].reshape(n, 2),
        "terminations": np.zeros(n, bool),
        "truncations": np.arange(n) % (n // 4) == n // 4 - 1,
        "episodes": np.repeat(np.arange(4), n // 4),
    }
    return Dataset(**(parts | changes))


def names(data: Dataset, **options: Any) -> set[str]:
    return {finding.name for finding in data.describe(**options).findings}


def warnings_of(data: Dataset, **options: Any) -> set[str]:
    findings = data.describe(**options).findings
    return {finding.name for finding in findings if finding.level == "warning"}


def test_clean_data_give_no_warning() -> None:
    assert warnings_of(clean()) == set()


def test_the_numbers_are_right() -> None:
    data = clean()
    found = data.describe()
    assert found.n_transitions == 400
    assert found.episode_lengths == (100, 100, 100)
    assert found.n_truncations == 4
    column = found.columns[1]
    assert column.name == "s1"
    assert column.low == data.observations[:, 1].min()
    assert column.median == np.median(data.observations[:, 1])
    assert column.n_distinct == len(set(data.observations[:, 1]))


def test_words_and_json_say_the_same() -> None:
    found = clean().describe()
    stored = json.loads(found.to_json())
    assert stored["n_transitions"] == 400
    assert [f["name"] for f in stored["findings"]] == [f.name for f in found.findings]
    printed = str(found)
    assert "400 transitions in 4 episodes of 100 to 100 steps" in printed
    assert max(map(len, printed.splitlines())) <= 100
    for finding in found.findings:
        assert finding.meaning.split()[0] in printed


def rows_of(data: Dataset) -> dict[str, Any]:
    return {
        name: getattr(data, name).copy()
        for name in (
            *("observations", "actions", "rewards", "next_observations"),
            *("terminations", "truncations", "episodes"),
        )
    }


def test_duplicates_constants_and_outliers() -> None:
    parts = rows_of(clean())
    parts["observations"][:50] = parts["observations"][50:100]
    parts["actions"][:50] = parts["actions"][50:100]
    assert "duplicates" in warnings_of(Dataset(**parts))
    parts = rows_of(clean())
    parts["observations"][:, 1] = 3.0
    assert "constant_columns" in warnings_of(Dataset(**parts))
    parts = rows_of(clean())
    parts["observations"][7, 0] = 1e6
    assert "outliers" in warnings_of(Dataset(**parts))


def test_jumps_and_a_shift_by_one_row() -> None:
    parts = rows_of(clean())
    parts["next_observations"][10] += 1.0
    found = {f.name: f.what for f in Dataset(**parts).describe().findings}
    assert found["jumps"].startswith("In 1 of 396 steps")
    parts = rows_of(clean())
    parts["next_observations"] = parts["observations"].copy()
    assert {"jumps", "shifted_rows"} <= warnings_of(Dataset(**parts))


def test_a_wrapped_angle() -> None:
    parts = rows_of(clean())
    angle = np.linspace(0, 40, 401)
    wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
    parts["observations"][:, 0], parts["next_observations"][:, 0] = (wrapped[:-1], wrapped[1:])
    assert "wrapped_angle" in warnings_of(Dataset(**parts))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_actions_at_their_limits_and_beyond(share: float) -> None:
    parts = rows_of(clean())
    parts["actions"][: int(400 * share)] = 1.0
    assert ("saturated_actions" in names(Dataset(**parts))) == (share > 0)
    space = Box(-0.5, 0.5, (1,), np.float64)
    assert "actions_out_of_bounds" in warnings_of(Dataset(**parts), action_space=space)


def test_few_levels_and_constant_actions() -> None:
    parts = rows_of(clean())
    parts["actions"] = np.sign(parts["actions"])
    assert "few_action_levels" in names(Dataset(**parts))
    parts["actions"] = np.ones((400, 1))
    assert "constant_action" in warnings_of(Dataset(**parts))


def test_discrete_actions_never_tried() -> None:
    parts = rows_of(clean())
    parts["actions"] = np.arange(400) % 3
    assert "untried_actions" in warnings_of(Dataset(**parts, action_space=Discrete(4)))


def test_rewards_that_teach_nothing() -> None:
    assert "constant_reward" in warnings_of(clean(rewards=np.ones(400)))
    rewards = np.zeros(400)
    rewards[5] = 1.0
    assert "sparse_reward" in warnings_of(clean(rewards=rewards))


def test_rows_that_stand_alone() -> None:
    rng = np.random.default_rng(1)
    wide = Dataset(
        rng.normal(size=(60, 12)),
        rng.normal(size=(60, 2)),
        rng.normal(size=60),
        rng.normal(size=(60, 12)),
        np.zeros(60, bool),
    )
    assert "isolated_rows" in warnings_of(wide)


def test_neighbours_count_rows_at_the_same_place() -> None:
    from nopg.data.coverage import neighbour_weights

    points = np.repeat([[0.0], [1000.0]], 5, axis=0)
    data = Dataset(points, np.ones((10, 1)), np.ones(10), points, np.zeros(10, bool))
    np.testing.assert_allclose(neighbour_weights(data), 4.0, atol=0.1)
