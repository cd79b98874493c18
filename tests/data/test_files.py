"""Files are written whole or not at all, by as many as like to."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from nopg.data.files import open_plain, require_writable, write_atomically
from nopg.errors import NopgError


def test_threads_may_write_one_path(tmp_path: Path) -> None:
    path = tmp_path / "log.bin"
    inside = threading.Barrier(4, timeout=60)
    failed: list[BaseException] = []

    def write(letter: bytes) -> None:
        def content(stream: BinaryIO) -> None:
            inside.wait()  # all four are in the middle of it at once
            stream.write(letter * 1000)

        try:
            write_atomically(path, content)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(bytes([i]),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(set(path.read_bytes())) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["log.bin"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "log.bin"
    path.write_bytes(b"old")

    def content(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        write_atomically(path, content)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["log.bin"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NopgError, match="must be writable"):
        require_writable(tmp_path / "file" / "folder")
    require_writable(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_what_is_no_file_is_closed_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "big").write_bytes(bytes(10))
    before = len(os.listdir("/dev/fd"))
    for name, said in ((".", "no ordinary"), ("pipe", "no ordinary"), ("big", "10 by")):
        with pytest.raises(OSError, match=said):
            open_plain(tmp_path / name, 5)
    assert len(os.listdir("/dev/fd")) == before
