from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box

from nopg import Dataset
from nopg.errors import ConfigError, DataError
from nopg.record import RecordConfig
from nopg.record.session import Demonstrations, Episode
from nopg.record.simulator import Transition

LAYOUT = {
    "observation_space": Box(-1.0, 1.0, (1,)),
    "action_space": Box(-1.0, 1.0, (1,)),
    "observation_names": ("x",),
    "action_names": ("u",),
}


def episode(length: int, value: float = 0.5) -> Episode:
    x = np.array([value])
    return tuple(Transition(x, x, 1.0, x, False, k == length - 1) for k in range(length))


def test_it_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "demo.npz"
    path.write_bytes(b"precious")
    with pytest.raises(ConfigError, match="a recording never overwrites"):
        Demonstrations(path, LAYOUT)
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["demo", "demo.csv", "demo.npz.gz"])
def test_the_file_is_an_npz(name: str) -> None:
    with pytest.raises(ConfigError, match=r"ending in \.npz"):
        RecordConfig(environment="Pendulum-v1", out=Path(name))


def test_an_episode_of_one_step_waits_for_a_second_row(tmp_path: Path) -> None:
    path = tmp_path / "demo.npz"
    demonstrations = Demonstrations(path, LAYOUT)
    demonstrations.add(episode(1))
    assert not path.exists()
    demonstrations.add(episode(1))
    data = Dataset.load(path)
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 1]
    assert (demonstrations.n_episodes, demonstrations.n_transitions) == (2, 2)


def test_rows_that_are_no_transitions_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "demo.npz"
    demonstrations = Demonstrations(path, LAYOUT)
    demonstrations.add(episode(2))
    with pytest.raises(DataError, match="must be finite"):
        demonstrations.add(episode(2, float("nan")))
    assert demonstrations.n_episodes == 1
    assert Dataset.load(path).n_episodes == 1
