"""LeRobot folders: Parquet files of frames, and `meta/info.json` that names them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nopg.data.files import open_plain, parse_json, reading
from nopg.data.io.options import ReadOptions
from nopg.data.io.parquet_files import unpacked_bytes
from nopg.data.io.tables import TableSource, table_arguments
from nopg.errors import require_extra

INFO = Path("meta") / "info.json"
_PARTS = {"reward": "next.reward", "episode": "episode_index"}
_PARTS |= {"time": "timestamp", "truncation": "next.done"}
_LARGEST_INFO, _WIDEST = 2**24, 1024


def read_lerobot(folder: Path, options: ReadOptions) -> dict[str, Any]:
    """The arguments of `Dataset` from a LeRobot folder."""
    source = LeRobotFolder(folder, options)
    own: dict[str, Any] = {part: name for part, name in _PARTS.items() if name in source.names}
    for part, feature in (("observations", "observation.state"), ("actions", "action")):
        own[part] = source.columns_of.get(feature)
    given = {part: said for part, said in own.items() if getattr(options, part) is None}
    if options.termination == given.get("truncation"):
        given.pop("truncation", None)
    return table_arguments(source, replace(options, **given))


class LeRobotFolder(TableSource):
    """The frames of a LeRobot folder as a table."""

    def __init__(self, folder: Path, options: ReadOptions) -> None:
        self._folder, self._options = folder, options
        self._files = sorted(folder.glob("data/**/*.parquet"))
        with _reading(folder), open_plain(folder / INFO, _LARGEST_INFO) as stream:
            columns_of = {n: _names(n, f) for n, f in parse_json(stream.read())["features"].items()}
        self.columns_of = {n: names for n, names in columns_of.items() if names}
        self.names = tuple(c for names in self.columns_of.values() for c in names)
        self.numeric = frozenset(self.names)
        if left := [n for n, names in columns_of.items() if not names]:
            self.notes = (f"Left out: {', '.join(left)}.",)

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """A file at a time."""
        parquet = require_extra("pyarrow.parquet", "data")
        features = [f for f, own in self.columns_of.items() if set(own) & set(names)]
        n_bytes = 0
        for file in self._files:
            cells: dict[str, Any] = {}
            with _reading(self._folder):
                with open_plain(file) as stream:  # no links in a folder of others
                    n_bytes += unpacked_bytes(stream, features)
                self._options.require_size(n_bytes, self._folder)
                table = parquet.read_table(file, columns=features, partitioning=None)
                for feature in features:
                    values = _flat(table[feature].combine_chunks())
                    own = self.columns_of[feature]
                    cells |= dict(zip(own, values.reshape(len(table), len(own)).T, strict=True))
            yield {name: cells[name] for name in names}


def _flat(cells: Any) -> Any:
    """Numbers of a column, those of lists one after the other."""
    while hasattr(cells, "flatten") and hasattr(cells, "values"):
        cells = cells.flatten()
    return cells.to_numpy(zero_copy_only=False).astype(np.float64)


def _names(feature: str, about: Mapping[str, Any]) -> list[str]:
    """Columns of a feature: none for pictures and texts."""
    shape, kind = about["shape"], about["dtype"]
    if not str(kind).startswith(("float", "int", "bool")) or len(shape) > 1:
        return []
    if not 0 < (width := int(shape[0]) if shape else 1) <= _WIDEST:
        raise ValueError(f"{feature} has {width} columns")
    stored = about.get("names")
    if isinstance(stored, dict):
        stored = [name for group in stored.values() for name in group]
    if width == 1 and not (isinstance(stored, list) and feature == "action"):
        return [feature]
    if not isinstance(stored, list) or len(stored) != width:
        stored = list(range(width))
    return [f"{feature}.{name}" for name in stored]


def _reading(folder: Path) -> AbstractContextManager[None]:
    return reading(folder, f"a LeRobot data set with data/**/*.parquet and {INFO}", "fetch it anew")
