from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box

from nopg import Dataset
from nopg.errors import ConfigError, DataError
from nopg.record import RecordConfig
from nopg.record.demonstrations import Demonstrations, Episode, Layout
from nopg.record.simulator import Transition

LAYOUT = Layout(
    observation_space=Box(-1.0, 1.0, (1,)),
    action_space=Box(-1.0, 1.0, (1,)),
    observation_names=("x",),
    action_names=("u",),
)


def episode(length: int, value: float = 0.5) -> Episode:
    x = np.array([value])
    return tuple(
        Transition(x, x, 1.0, x, False, k == length - 1) for k in range(length)
    )


def test_it_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "demo.npz"
    path.write_bytes(b"precious")
    with pytest.raises(ConfigError, match="a recording never overwrites"):
        Demonstrations(path, LAYOUT, append=False)
    with pytest.raises(DataError, match="must be an npz archive"):
        Demonstrations(path, LAYOUT, append=True)
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["demo", "demo.csv", "demo.npz.gz"])
def test_the_file_is_an_npz(name: str) -> None:
    with pytest.raises(ConfigError, match=r"ending in \.npz"):
        RecordConfig(environment="Pendulum-v1", out=Path(name))


def test_other_spaces_and_names_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "demo.npz"
    Demonstrations(path, LAYOUT, append=False).add(episode(3))
    wider = replace(LAYOUT, action_space=Box(-2.0, 2.0, (1,)))
    with pytest.raises(DataError, match="it has action space Box"):
        Demonstrations(path, wider, append=True)
    renamed = replace(LAYOUT, observation_names=("y",))
    with pytest.raises(DataError, match="it has observation names"):
        Demonstrations(path, renamed, append=True)


def test_rows_without_episodes_are_not_added_to(tmp_path: Path) -> None:
    path = tmp_path / "grid.npz"
    rows = np.zeros((4, 1))
    Dataset(rows, rows, rows, rows, np.zeros(4, bool), **vars(LAYOUT)).save(path)
    with pytest.raises(DataError, match="must have episode ids"):
        Demonstrations(path, LAYOUT, append=True)


def test_an_episode_of_one_step_waits_for_a_second_row(tmp_path: Path) -> None:
    path = tmp_path / "demo.npz"
    demonstrations = Demonstrations(path, LAYOUT, append=False)
    demonstrations.add(episode(1))
    assert not path.exists()
    demonstrations.add(episode(1))
    data = Dataset.load(path)
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 1]
    assert (demonstrations.n_new, demonstrations.n_transitions) == (2, 2)


def test_rows_that_are_no_transitions_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "demo.npz"
    demonstrations = Demonstrations(path, LAYOUT, append=False)
    demonstrations.add(episode(2))
    with pytest.raises(DataError, match="must be finite"):
        demonstrations.add(episode(2, float("nan")))
    assert demonstrations.n_new == 1
    assert Dataset.load(path).n_episodes == 1
