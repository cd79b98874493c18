"""ROS 2 bags in MCAP: topics at their own rates become one table."""

from __future__ import annotations

import json
import tracemalloc
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
        tmp_path / "log.mcap", observations=["/log.x"], actions=["/log.u"], reward="/log.r"
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


def json_bag(path: Path, times: list[int], **options: Any) -> Path:
    from mcap.writer import Writer

    with path.open("wb") as stream:
        writer = Writer(stream, **options)
        writer.start()
        schema = writer.register_schema("log", "jsonschema", b"{}")
        channel = writer.register_channel("/log", "json", schema)
        for t in times:
            content = json.dumps({"x": t, "u": 0.5, "r": 1.5}).encode()
            writer.add_message(channel, t * 10**8, content, t * 10**8)
        writer.finish()
    return path


LOG: dict[str, Any] = {"observations": ["/log.x"], "actions": ["/log.u"], "reward": "/log.r"}


@pytest.mark.parametrize("packed", ["NONE", "LZ4", "ZSTD"])
def test_messages_out_of_order_are_sorted(tmp_path: Path, packed: str) -> None:
    from mcap.writer import CompressionType

    kind = CompressionType[packed]
    path = json_bag(tmp_path / "log.mcap", [0, 2, 1, 4, 3, 5], compression=kind)
    data = Dataset.load(path, **LOG)
    assert data.observations[:, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("packed", ["lz4", "zstd"])
@pytest.mark.parametrize("says", [100, 2**23])
def test_chunks_unpack_to_no_more_than_they_say(tmp_path: Path, packed: str, says: int) -> None:
    """A byte of zstd can become thirty thousand: 3 KB that were 64 MB."""
    from mcap.data_stream import RecordBuilder
    from mcap.records import Chunk, Footer, Header

    module = "lz4.frame" if packed == "lz4" else "zstandard"
    pack = pytest.importorskip(module).compress
    builder = RecordBuilder()
    Header(profile="", library="").write(builder)
    Chunk(packed, pack(bytes(2**26)), 0, 0, 0, says).write(builder)
    Footer(0, 0, 0).write(builder)
    magic = b"\x89MCAP0\r\n"
    path = tmp_path / "bomb.mcap"
    path.write_bytes(magic + builder.end() + magic)
    with pytest.raises(DataError, match="unpacks to more than it says"):
        Dataset.load(path, **LOG, max_bytes=2**24)


def test_lengths_of_records_are_not_believed(tmp_path: Path) -> None:
    """Python reserves what a read asks for, before it looks at the file."""
    good = json_bag(tmp_path / "log.mcap", list(range(6))).read_bytes()
    path = tmp_path / "bad.mcap"
    # The first record, and a text inside it: four bytes of length can ask for 4 GB.
    for at, length in ((9, b"\0" * 3 + b"\x80" + b"\0" * 4), (17, b"\xff" * 4)):
        path.write_bytes(good[:at] + length + good[at + len(length) :])
        tracemalloc.start()
        with pytest.raises(DataError, match="must be an MCAP file"):
            Dataset.load(path, **LOG)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 2**24
