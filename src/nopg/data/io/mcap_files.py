"""MCAP files, as ROS 2 bags are: messages of many topics, each at its own rate.

Rows are those of one topic; at each the others have their last message before.
"""

import io
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.files import open_plain, parse_json, reading
from nopg.data.io.clock import LATE
from nopg.data.io.options import ReadOptions
from nopg.data.io.tables import TableSource
from nopg.errors import DataError, require_extra

TIME = "time"


class McapFile(TableSource):
    """The numbers of an MCAP file as a table."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._path, self._options = path, options
        self._topic_of: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        seen: set[str] = set()
        for topic, _, cells in self._messages(None):
            self._counts[topic] += 1
            if topic not in seen and cells:  # its first message names its columns
                seen.add(topic)
                self._topic_of |= dict.fromkeys(cells, topic)
        if not self._topic_of:
            raise DataError(f"`{path}` must hold messages with numbers, it has none; add topics.")
        self.names = (TIME, *self._topic_of)
        self.numeric = frozenset(self.names)
        if left := sorted(set(self._counts) - seen):
            self.notes = (f"Left out: {', '.join(left)}, without numbers.",)

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """The columns at the times of one topic, all rows at once."""
        own: dict[str, list[str]] = defaultdict(list)
        for name in (n for n in names if n != TIME):
            own[self._topic_of[name]].append(name)
        rows: dict[str, Any] = {topic: [] for topic in own}
        for topic, time, cells in self._messages(set(own)):
            rows[topic].append([time, *(cells.get(name, np.nan) for name in own[topic])])
        states = [n for n in self._options.observations or () if n in self._topic_of]
        leader = self._topic_of[states[0]] if states else max(own, key=self._counts.__getitem__)
        for topic in own:  # recorders write in order, and may be late by a little
            table = np.array(rows[topic])
            rows[topic] = table[np.argsort(table[:, 0], kind="stable")]
        clock = rows[leader][:, 0]
        late = LATE * float(np.median(np.diff(clock))) if len(clock) > 1 else 0.0
        done = {self._topic_of.get(name) for name in self._options.actions or ()}
        columns: dict[str, NDArray[np.float64]] = {TIME: clock}
        first = 0
        for topic, columns_of in own.items():
            slack = late if topic in done and topic != leader else 0.0
            at = np.searchsorted(rows[topic][:, 0], clock + slack, side="right") - 1
            first = max(first, int((at < 0).sum()))  # these come first
            columns |= dict(zip(columns_of, rows[topic][at, 1:].T, strict=True))
        if first:
            self.notes += (f"Left out: {first} rows before every topic had a message.",)
        self.notes += (f"Rows are the messages of {leader}; others were held.",)
        yield {name: columns[name][first:] for name in names}

    def _messages(self, topics: set[str] | None) -> Iterator[tuple[str, float, dict[str, float]]]:
        """Topic, time in seconds and numbers of each message, as they were written."""
        ros2 = require_extra("mcap_ros2.decoder", "mcap").DecoderFactory()
        known: dict[str, dict[int, Any]] = {"Schema": {}, "Channel": {}}
        decoders: dict[int, Callable[[bytes], Any]] = {}
        n_numbers = 0
        with reading(self._path, "an MCAP file", "try: mcap recover"):
            for record in self._records():
                kind = type(record).__name__
                if kind in known:
                    known[kind][record.id] = record
                elif kind == "Message":
                    number, channel = record.channel_id, known["Channel"][record.channel_id]
                    coding = channel.message_encoding
                    is_wanted = topics is None or channel.topic in topics
                    if coding not in ("cdr", "json") or not is_wanted:
                        continue
                    if number not in decoders:
                        schema = known["Schema"].get(channel.schema_id)
                        found = ros2.decoder_for("cdr", schema) if coding == "cdr" else parse_json
                        if found is None:
                            raise ValueError(f"nothing says what {channel.topic} is")
                        decoders[number] = found
                    cells = dict(_numbers(decoders[number](record.data), channel.topic))
                    n_numbers += len(cells)
                    self._options.require_size(8 * n_numbers, self._path)
                    yield channel.topic, record.log_time / 1e9, cells

    def _records(self) -> Iterator[Any]:
        """Everything in the file, with chunks unpacked to no more than they say."""
        reader = require_extra("mcap.stream_reader", "mcap")
        with _Measured(open_plain(self._path, follow=True).detach()) as stream:
            for record in reader.StreamReader(stream, emit_chunks=True).records:
                if type(record).__name__ != "Chunk":
                    yield record
                    continue
                self._options.require_size(record.uncompressed_size, self._path)
                plain = replace(record, compression="", data=_unpacked(record))
                yield from reader.breakup_chunk(plain)


class _Measured(io.BufferedReader):
    """A file of which no more is read than it has: the lengths in it may lie."""

    def read(self, size: int | None = -1, /) -> bytes:
        left = os.fstat(self.fileno()).st_size - self.tell()
        return super().read(min(size, left) if size is not None and size >= 0 else left)


def _unpacked(chunk: Any) -> bytes:
    """What is in a chunk; a byte of a packed one can become thirty thousand."""
    packed = io.BytesIO(chunk.data)
    if not chunk.compression:
        return bytes(chunk.data)
    if chunk.compression == "zstd":
        stream = require_extra("zstandard", "mcap").ZstdDecompressor().stream_reader(packed)
    elif chunk.compression == "lz4":
        stream = require_extra("lz4.frame", "mcap").LZ4FrameFile(packed)
    else:
        raise ValueError(f"its chunks are packed by {chunk.compression[:20]!r}")
    content = bytearray()
    while piece := stream.read(2**20):
        content += piece
        if len(content) > chunk.uncompressed_size:
            raise ValueError("a chunk unpacks to more than it says")
    return bytes(content)


def _numbers(content: Any, name: str) -> Iterator[tuple[str, float]]:
    """Every number in a message by its path; lists by the `name`s beside them."""
    if isinstance(content, (bool, int, float)):
        yield name, float(content)
    elif isinstance(content, (list, tuple)) or hasattr(content, "tolist"):
        if 0 < len(content) <= 64:  # longer ones are pictures or scans
            for i, value in enumerate(content):
                yield from _numbers(value, f"{name}.{i}")
    elif not isinstance(content, (str, bytes)):
        slots = getattr(content, "__slots__", ())  # of a message of ROS
        fields = content if isinstance(content, dict) else {s: getattr(content, s) for s in slots}
        called = fields.get("name", ())
        for field, value in fields.items():
            is_list = isinstance(called, list) and isinstance(value, (list, tuple))
            if is_list and len(value) == len(called) and field != "name":
                value = dict(zip(map(str, called), value, strict=True))
            yield from _numbers(value, f"{name}.{field}")
