"""ROS 2 bags in MCAP: topics at their own rates become one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nopg.data import Dataset
from nopg.errors import DataError

pytest.importorskip("mcap")
ros2_writer = pytest.importorskip("mcap_ros2.writer")

JOINTS = """std_msgs/Header header
string[] name
float64[] position
float64[] velocity
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
N = 20


def written(path: Path, delay: float = 0.01) -> Path:
    """Joint states at 10 Hz, each followed by a command, and a score twice as often."""
    with path.open("wb") as stream:
        writer = ros2_writer.Writer(stream)
        joints = writer.register_msgdef("sensor_msgs/JointState", JOINTS)
        number = writer.register_msgdef("std_msgs/Float64", "float64 data")
        text = writer.register_msgdef("std_msgs/String", "string data")

        def send(topic: str, schema: Any, message: dict[str, Any], time: float) -> None:
            at = round(time * 1e9)
            writer.write_message(topic, schema, message, log_time=at, publish_time=at)

        stamp = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
        send("/note", text, {"data": "started"}, 0.0)
        for i in range(N):
            state = {
                "header": stamp,
                "name": ["elbow", "wrist"],
                "position": [float(i), -float(i)],
                "velocity": [0.1 * i, 0.0],
            }
            send("/joint_states", joints, state, 1.0 + 0.1 * i)
            send("/command", number, {"data": 0.5 * i}, 1.0 + 0.1 * i + delay)
            send("/score", number, {"data": float(i)}, 1.0 + 0.1 * i - 0.001)
            send("/score", number, {"data": i + 0.5}, 1.0 + 0.1 * i + 0.05)
        writer.finish()
    return path


COLUMNS: dict[str, Any] = {
    "observations": ["/joint_states.position.elbow", "/joint_states.velocity.elbow"],
    "actions": ["/command.data"],
    "reward": "/score.data",
}


def test_topics_meet_at_the_times_of_the_state(tmp_path: Path) -> None:
    data = Dataset.load(written(tmp_path / "bag.mcap"), **COLUMNS)
    np.testing.assert_allclose(data.observations[:, 0], np.arange(N - 1))
    np.testing.assert_allclose(data.next_observations[:, 0], np.arange(1, N))
    # The command that follows a state belongs to it, though it is a little later.
    np.testing.assert_allclose(data.actions[:, 0], 0.5 * np.arange(N - 1))
    np.testing.assert_allclose(data.rewards, np.arange(N - 1))
    assert data.sample_time == pytest.approx(0.1)
    assert any("/note" in note for note in data.notes)
    assert any("messages of /joint_states" in note for note in data.notes)


def test_a_late_command_is_that_of_the_step_before(tmp_path: Path) -> None:
    data = Dataset.load(written(tmp_path / "bag.mcap", delay=0.06), **COLUMNS)
    np.testing.assert_allclose(data.observations[:, 0], np.arange(1, N - 1))
    np.testing.assert_allclose(data.actions[:, 0], 0.5 * np.arange(N - 2))


def test_a_grid_of_ones_own(tmp_path: Path) -> None:
    path = written(tmp_path / "bag.mcap")
    data = Dataset.load(path, **COLUMNS, resample=0.2)
    np.testing.assert_allclose(data.observations[:4, 0], [0, 2, 4, 6])
    assert data.sample_time == 0.2


def test_messages_in_json(tmp_path: Path) -> None:
    from mcap.writer import Writer

    with (tmp_path / "log.mcap").open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        schema = writer.register_schema("log", "jsonschema", b"{}")
        channel = writer.register_channel("/log", "json", schema)
        for i in range(5):
            content = json.dumps({"x": i, "u": 0.5, "r": 1.5, "who": "me"}).encode()
            writer.add_message(channel, i * 10**8, content, i * 10**8)
        writer.finish()
    data = Dataset.load(
        tmp_path / "log.mcap",
        observations=["/log.x"],
        actions=["/log.u"],
        reward="/log.r",
    )
    assert data.observations[:, 0].tolist() == [0, 1, 2, 3]


def test_damaged_and_large_files_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "bag.mcap")
    with pytest.raises(DataError, match="must unpack to at most"):
        Dataset.load(path, **COLUMNS, max_bytes=500)
    with pytest.raises(DataError, match=r"did you mean '/command\.data'"):
        Dataset.load(path, **COLUMNS | {"actions": ["/comand.data"]})
    good = path.read_bytes()
    for bad in (good[: len(good) // 2], b"no bag", good[:100] + bytes(50) + good[150:]):
        path.write_bytes(bad)
        with pytest.raises(DataError):
            Dataset.load(path, **COLUMNS)
