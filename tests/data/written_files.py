"""Data sets in files of every format, as other programs write them, and read again."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

from nopg.data import Dataset


def as_columns(data: Dataset) -> dict[str, Any]:
    """Every column of a table by its name."""
    actions = data.actions.reshape(len(data), -1)
    following = [f"next_{name}" for name in data.observation_names]
    columns: list[tuple[str, Any]] = [
        *zip(data.observation_names, data.observations.T, strict=True),
        *zip(data.action_names, actions.T, strict=True),
        ("reward", data.rewards),
        *zip(following, data.next_observations.T, strict=True),
        ("termination", data.terminations),
        ("truncation", data.truncations),
    ]
    columns += [] if data.episodes is None else [("episode", data.episodes)]
    return dict(columns)


def save(data: Dataset, path: Path) -> None:
    """Write `data` in the format of the name."""
    if path.suffix == ".npz":
        data.save(path)
    elif path.suffix == ".h5":
        import h5py

        with h5py.File(path, "w") as file:
            for name, array in data.arrays().items():
                file.create_dataset(name, data=array, compression="gzip")
    elif path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(as_columns(data)), path)
    else:
        delimiter = "\t" if ".tsv" in path.name else ","
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "wt", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
            writer.writerow(as_columns(data))
            cells = (column.tolist() for column in as_columns(data).values())
            writer.writerows(zip(*cells, strict=True))


def load_again(path: Path, data: Dataset) -> Dataset:
    """What `save` wrote, with what only an npz file says told by the caller."""
    if path.suffix == ".npz":
        return Dataset.load(path)
    spaces: dict[str, Any] = {
        name: getattr(data, name) for name in ("observation_space", "action_space")
    }
    if path.suffix == ".h5":
        return Dataset.load(path, **spaces)
    return Dataset.load(
        path,
        observations=data.observation_names,
        actions=data.action_names,
        next_observations=[f"next_{name}" for name in data.observation_names],
        reward="reward",
        termination="termination",
        truncation="truncation",
        episode=None if data.episodes is None else "episode",
        time="",
        is_discrete=data.is_discrete,
        **spaces,
    )
