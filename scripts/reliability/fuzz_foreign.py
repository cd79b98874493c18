"""Files of other programs: MATLAB, LeRobot, MCAP, Minari, pickles."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet
from scipy.io import savemat
from scripts.reliability.fuzz_child import Target

import nopg


def read_data(path: Path) -> object:
    """A data file, of which little may be unpacked."""
    return nopg.Dataset.load(path, max_bytes=2**24)


def foreign_files(folder: Path, data: nopg.Dataset) -> list[Target]:
    """All of them; MCAP and Minari only where their packages are."""
    found = [*_matlab(folder, data), *_lerobot(folder, data), *_pickles(folder, data)]
    with contextlib.suppress(ImportError):
        found += _mcap(folder)
    with contextlib.suppress(ImportError):
        found += _minari(folder, data)
    return found


def _matlab(folder: Path, data: nopg.Dataset) -> list[Target]:
    log = {"x": data.observations[:, 0], "u": data.actions, "r": data.rewards}
    found = []
    for name, is_packed in (("matlab", True), ("matlab, not packed", False)):
        path = folder / f"packed{is_packed}.mat"
        savemat(path, log, do_compression=is_packed)
        found.append(Target(name, path.read_bytes(), path, read_data))
    return found


def _lerobot(folder: Path, data: nopg.Dataset) -> list[Target]:
    arm = folder / "arm"
    shapes = {"observation.state": [3], "action": [1], "next.reward": [1]}
    features = {n: {"dtype": "float64", "shape": shape} for n, shape in shapes.items()}
    (arm / "meta").mkdir(parents=True)
    (arm / "data").mkdir()
    info, frames = arm / "meta" / "info.json", arm / "data" / "e.parquet"
    info.write_text(json.dumps({"features": features}))
    parts = (data.observations.tolist(), data.actions.tolist(), data.rewards)
    columns = dict(zip(shapes, parts, strict=True))
    parquet.write_table(pyarrow.table(columns), frames)
    return [
        Target("lerobot info", info.read_bytes(), info, lambda p: read_data(arm)),
        Target("lerobot", frames.read_bytes(), frames, lambda p: read_data(arm)),
    ]


def _mcap(folder: Path) -> list[Target]:
    from mcap.writer import CompressionType, Writer

    found = [_ros_bag(folder / "ros.mcap")]
    for name, kind in (("mcap", CompressionType.ZSTD), ("mcap, not packed", CompressionType.NONE)):
        path = folder / f"{kind.name}.mcap"
        is_checked = kind is CompressionType.ZSTD
        with path.open("wb") as stream:
            writer = Writer(stream, compression=kind, enable_crcs=is_checked)
            writer.start()
            schema = writer.register_schema("log", "jsonschema", b"{}")
            channel = writer.register_channel("/log", "json", schema)
            for i in range(9):
                content = json.dumps({"x": i, "u": 0.5, "r": 1.5}).encode()
                writer.add_message(channel, i * 10**8, content, i * 10**8)
            writer.finish()
        found.append(Target(name, path.read_bytes(), path, _read_bag))
    return found


def _ros_bag(path: Path) -> Target:
    from mcap_ros2.writer import Writer

    with path.open("wb") as stream:
        writer = Writer(stream)
        text = "float64 x\nfloat64[] u\nfloat64[2] r\nstring name"
        kind = writer.register_msgdef("lab/Log", text)
        for i in range(9):
            message = {"x": float(i), "u": [0.5], "r": [1.5, 2.0], "name": "a"}
            writer.write_message("/log", kind, message, i * 10**8, i * 10**8)
        writer.finish()

    def read(path: Path) -> object:
        return nopg.Dataset.load(
            path, observations=["/log.x"], actions=["/log.u.0"], reward="/log.r.0", max_bytes=2**24
        )

    return Target("mcap, ros", path.read_bytes(), path, read)


def _read_bag(path: Path) -> object:
    return nopg.Dataset.load(
        path, observations=["/log.x"], actions=["/log.u"], reward="/log.r", max_bytes=2**24
    )


def _minari(folder: Path, data: nopg.Dataset) -> list[Target]:
    import minari
    from gymnasium.spaces import Box
    from minari.data_collector.episode_buffer import EpisodeBuffer

    n = 9
    ends = np.arange(n) == n - 1
    episode = EpisodeBuffer(
        observations=data.observations[: n + 1],
        actions=np.asarray(data.actions)[:n],
        rewards=data.rewards[:n],
        terminations=ends,
        truncations=~ends & False,
        infos={},
    )
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            "lab/arm-v0",
            [episode, episode],
            observation_space=Box(-np.inf, np.inf, (3,), np.float64),
            action_space=Box(-10, 10, (1,), np.float64),
        )
    inside = folder / "minari" / "lab" / "arm-v0" / "data"
    return [
        Target(f"minari {path.suffix[1:]}", path.read_bytes(), path,
               lambda _: read_data(inside))
        for path in (inside / "metadata.json", inside / "main_data.hdf5")
    ]  # fmt: skip


def _pickles(folder: Path, data: nopg.Dataset) -> list[Target]:
    """Pickles under names that we read: all are to be refused, the good one too."""
    arrays = {"observations": data.observations, "rewards": data.rewards}
    good = pickle.dumps(arrays)
    return [
        Target(f"pickle as {name}", good, folder / f"pickle.{name}", _refused)
        for name in ("npz", "h5", "parquet", "mat", "csv", "nopg")
    ]


def _refused(path: Path) -> object:
    """Good means here that the file was refused."""
    with contextlib.suppress(nopg.errors.NopgError):
        nopg.load(path) if path.suffix == ".nopg" else read_data(path)
        raise RuntimeError("a pickle was read")
    return None
