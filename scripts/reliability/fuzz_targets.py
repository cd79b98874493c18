"""What is fuzzed: every reader of a file that may come from somebody else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow
from pyarrow import parquet
from scipy.io import savemat

import nopg
from nopg.cli.settings import read_settings
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.runs import Monitoring, start
from nopg.runs.checkpoint import checkpoints, read_checkpoint, read_history
from nopg.runs.folder import RunFolder

TOML = b"""
[model]
gamma = 0.95
policy = "stochastic"
hidden = [8, 8]
learning_rate = 1e-2
neighbours = 64
max_std = [0.5]
[bandwidths]
rule = "cross-validated"
state_factor = 1.0
action_factor = 20.0
[fit]
n_updates = 4
initial_states = [[-1.0, 0.0, 0.0]]
"""


@dataclass(frozen=True)
class Target:
    """A reader, a good file to begin with, and the name it must have."""

    name: str
    good: bytes
    file: Path
    read: Callable[[Path], object]
    is_sealed: bool = False
    """Whether a checksum should tell every changed file from the good one."""


def targets(folder: Path) -> list[Target]:
    """All readers, each with a good file written by the library."""
    data = grid_dataset(4, 4)
    model = nopg.NOPG(bandwidths=nopg.Bandwidths([0.5, 0.5, 2.0], [2.0]), hidden=(4,))
    monitoring = Monitoring(checkpoint_every=2, progress=False)
    run = folder / "run"
    start(run, model, data, [BOTTOM], n_updates=4, monitoring=monitoring)
    RunFolder.open(run).keep_evaluation({"env": "x", "mean": 1.0})
    newest = checkpoints(run / "checkpoints")[0]
    history = read_history(run / "history.jsonl")
    saved = _of_run("checkpoint", newest, lambda path: read_checkpoint(path, history))
    found = [
        Target("config", TOML, folder / "c.toml", _read_config),
        _of_run("policy", run / "policy.nopg", _read_policy),
        _of_run("run.json", run / "run.json", lambda path: RunFolder.open(path.parent)),
        _of_run("history", run / "history.jsonl", read_history),
        replace(saved, is_sealed=True),
        _of_run("status", run / "status.json", lambda p: RunFolder.open(run).policy()),
        _of_run(
            "evaluation",
            run / "evaluation.json",
            lambda path: RunFolder.open(path.parent).evaluations(),
        ),
    ]
    for suffix in ("npz", "csv", "csv.gz", "h5", "parquet"):
        path = folder / f"data.{suffix}"
        data.save(path)
        found.append(_of_run(f"data.{suffix}", path, _read_data))
    return [*found, *_robots(folder, data)]


def _robots(folder: Path, data: nopg.Dataset) -> list[Target]:
    """Files of other programs; an MCAP file only where its packages are."""
    log = {"x": data.observations[:, 0], "u": data.actions, "r": data.rewards}
    savemat(folder / "log.mat", log, do_compression=True)
    arm = folder / "arm"
    shapes = {"observation.state": [3], "action": [1], "next.reward": [1]}
    features = {n: {"dtype": "float64", "shape": shape} for n, shape in shapes.items()}
    (arm / "meta").mkdir(parents=True)
    (arm / "data").mkdir()
    (arm / "meta" / "info.json").write_text(json.dumps({"features": features}))
    parts = (data.observations.tolist(), data.actions.tolist(), data.rewards)
    columns = dict(zip(shapes, parts, strict=True))
    parquet.write_table(pyarrow.table(columns), arm / "data" / "e.parquet")
    found = [
        _of_run("matlab", folder / "log.mat", _read_data),
        _of_run("lerobot info", arm / "meta" / "info.json", lambda p: _read_data(arm)),
        _of_run("lerobot", arm / "data" / "e.parquet", lambda p: _read_data(arm)),
    ]
    with contextlib.suppress(ImportError):
        from mcap.writer import Writer

        with (folder / "log.mcap").open("wb") as stream:
            writer = Writer(stream)
            writer.start()
            schema = writer.register_schema("log", "jsonschema", b"{}")
            channel = writer.register_channel("/log", "json", schema)
            for i in range(9):
                content = json.dumps({"x": i, "u": 0.5, "r": 1.5}).encode()
                writer.add_message(channel, i * 10**8, content, i * 10**8)
            writer.finish()
        found.append(_of_run("mcap", folder / "log.mcap", _read_bag))
    return found


def _read_bag(path: Path) -> object:
    return nopg.Dataset.load(
        path,
        observations=["/log.x"],
        actions=["/log.u"],
        reward="/log.r",
        max_bytes=2**24,
    )


def _of_run(name: str, path: Path, read: Callable[[Path], object]) -> Target:
    return Target(name, path.read_bytes(), path, read)


def _read_config(path: Path) -> object:
    settings = read_settings(path)
    return nopg.NOPG(bandwidths=settings.bandwidths, **settings.model)


def _read_policy(path: Path) -> object:
    policy = nopg.load(path)
    return policy.predict([[0.0] * len(policy.bandwidths.state)])


def _read_data(path: Path) -> object:
    return nopg.Dataset.load(path, max_bytes=2**24)
