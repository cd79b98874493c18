from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nopg.errors import NopgError
from nopg.record.lock import exclusive

HOLD = """
import sys, pathlib
from nopg.record.lock import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_owner_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    path = tmp_path / "demo.npz"
    with (
        exclusive(path),
        pytest.raises(NopgError, match="one recorder at a time"),
        exclusive(path),
    ):
        pass
    with exclusive(path):
        pass
    assert list(tmp_path.iterdir()) == []  # no litter


def test_a_killed_owner_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "demo.npz"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        with pytest.raises(NopgError, match="another one has it open"), exclusive(path):
            pass
        owner.kill()
        owner.wait()
    with exclusive(path):
        pass


def test_a_folder_that_is_a_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NopgError, match="must be writable"):  # noqa: SIM117
        with exclusive(tmp_path / "file" / "demo.npz"):
            pass
