from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nopg.data.files import exclusive
from nopg.errors import NopgError

HOLD = """
import sys, pathlib
from nopg.data.files import exclusive
with exclusive(pathlib.Path(sys.argv[1]), "run", "recorder"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_owner_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with (
        exclusive(path, "demo", "recorder"),
        pytest.raises(NopgError, match="must have one recorder"),
        exclusive(path, "demo", "recorder"),
    ):
        pass
    with exclusive(path, "demo", "recorder"):
        pass
    assert list(tmp_path.iterdir()) == []  # no litter


def test_a_killed_owner_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        with (
            pytest.raises(NopgError, match="must have one recorder"),
            exclusive(path, "demo", "recorder"),
        ):
            pass
        owner.kill()
        owner.wait()
    with exclusive(path, "demo", "recorder"):
        pass


def test_a_folder_that_is_a_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NopgError, match="must be writable"):  # noqa: SIM117
        with exclusive(tmp_path / "file" / "lock", "demo", "recorder"):
            pass


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    mine = tmp_path / "precious"
    mine.write_text("words")
    (tmp_path / ".lock").symlink_to(mine)
    with (
        pytest.raises(NopgError, match="must be writable"),
        exclusive(tmp_path / ".lock", "demo", "recorder"),
    ):
        pass
    assert mine.read_text() == "words"
