"""What is fuzzed: every reader of a file that may come from somebody else."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.torch import save as save_tensors
from scripts.reliability.fuzz_child import Target
from scripts.reliability.fuzz_entrances import entrances
from scripts.reliability.fuzz_foreign import foreign_files, read_data
from tests.data.written_files import save

import nopg
from nopg.cli.settings import read_settings
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.data.files import parse_json
from nopg.errors import RunError
from nopg.fitted.storage import policy_digest, read_policy_file
from nopg.record.protocol import MalformedMessage, read_message
from nopg.runs import Monitoring, start
from nopg.runs.folder import CHECKPOINT, RunFolder, read_checkpoint

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
MESSAGE = b'{"type": "controls", "levels": [0.5, -1], "label": null}'


def targets(folder: Path) -> list[Target]:
    """All readers, each with a good file written by the library."""
    data = grid_dataset(4, 4)
    model = nopg.NOPG(bandwidths=nopg.Bandwidths([0.5, 0.5, 2.0], [2.0]), hidden=(4,))
    run = folder / "run"
    monitoring = Monitoring(checkpoint_every=2, progress=False)
    start(run, model, data, [BOTTOM], n_updates=4, monitoring=monitoring)
    return [
        Target("config", TOML, folder / "c.toml", _read_config),
        Target(
            "recorder message", MESSAGE, folder / "m", _read_message,
            refusals=(MalformedMessage,),
        ),
        *_policies(run),
        *_runs(run),
        *_tables(folder, data),
        *foreign_files(folder, data),
        *entrances(folder, nopg.load(run / "policy.nopg")),
    ]  # fmt: skip


def of_file(name: str, path: Path, read: Callable[[Path], object]) -> Target:
    """A target that begins with the file that is there."""
    return Target(name, path.read_bytes(), path, read)


def _policies(run: Path) -> list[Target]:
    """The policy file as it is, and with text that is broken and sealed again."""
    path = run / "policy.nopg"
    metadata, tensors = read_policy_file(path)
    text = json.dumps(metadata).encode()

    def seal(content: bytes) -> bytes:
        told = content.decode(errors="replace")
        try:
            about = parse_json(told)
            told = json.dumps(about | {"digest": policy_digest(about, tensors)})
        except ValueError:
            pass
        return bytes(save_tensors(tensors, metadata={"nopg": told}))

    return [
        of_file("policy", path, _read_policy),
        Target("policy, sealed", text, path, _read_policy, seal=seal),
    ]


def _runs(run: Path) -> list[Target]:
    """What a run folder holds."""
    newest = run / CHECKPOINT
    content = newest.read_bytes()

    def read(path: Path) -> object:
        return read_checkpoint(path.parent)

    def seal(changed: bytes) -> bytes:
        return hashlib.sha256(changed).digest() + changed

    return [
        Target("checkpoint", content, newest, read, is_sealed=True),
        Target("checkpoint, sealed", content[32:], newest, read, seal=seal),
        of_file("run.json", run / "run.json", lambda p: RunFolder.open(p.parent)),
        of_file("status", run / "status.json", lambda p: RunFolder.open(run).policy()),
    ]


def _tables(folder: Path, data: nopg.Dataset) -> list[Target]:
    """Data files of every format of our own."""
    found = []
    for suffix in ("npz", "csv", "csv.gz", "h5", "parquet"):
        path = folder / f"data.{suffix}"
        save(data, path)
        found.append(of_file(f"data.{suffix}", path, read_data))
    text, path = (folder / "data.csv").read_bytes(), folder / "data.npz"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def packed(name: str) -> Callable[[bytes], bytes]:
        def seal(content: bytes) -> bytes:
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as archive:
                for member, own in (members | {name: content}).items():
                    archive.writestr(member, own)
            return stream.getvalue()

        return seal

    part = "observations.npy"
    kept = "metadata.npy"
    stored = json.dumps(json.loads(str(np.load(io.BytesIO(members[kept])))))

    def with_text(content: bytes) -> bytes:
        stream = io.BytesIO()
        np.save(stream, np.array(content.decode(errors="replace")))
        return packed(kept)(stream.getvalue())

    return [
        *found,
        Target(
            "data.csv.gz, sealed", text, folder / "data.csv.gz", read_data,
            seal=lambda content: gzip.compress(content, 1),
        ),
        Target("data.npz, array", members[part], path, read_data, seal=packed(part)),
        Target("data.npz, names", stored.encode(), path, read_data, seal=with_text),
    ]  # fmt: skip


def _read_config(path: Path) -> object:
    return nopg.NOPG(**read_settings(path)[0])


def _read_message(path: Path) -> object:
    try:
        return read_message(path.read_bytes().decode())
    except UnicodeDecodeError:  # the connection is of text, and closed before
        raise MalformedMessage from None


def _read_policy(path: Path) -> object:
    policy = nopg.load(path)
    if not np.isfinite(policy.predict([[0.0] * 3])[0]).all():
        raise RunError("an action\nis not finite")  # counted as a failure
    return policy
