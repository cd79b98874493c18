"""`read_run`: the one reader of runs, for reports, exports and people."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from shutil import copytree

import pytest

from nopg.data.io.metadata import fingerprint
from nopg.errors import NopgError, PolicyFileError, RunError
from nopg.runs import read_run
from nopg.runs.folder import CHECKPOINT
from tests.runs.tiny import SMALL, PowerCut, begin


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "whole"
    begin(path)
    return path


def test_a_folder_and_its_policy_file_are_the_same_run(whole: Path) -> None:
    for path in (whole, whole / "policy.nopg"):
        run = read_run(path)
        assert run.name == "whole"
        assert run.policy.history is not None
        assert run.policy.history.stopped == "finished"
        assert len(run.policy.history) == 12
        assert run.config is not None
        assert run.config.data_sha256 == fingerprint(SMALL)
        assert run.status["updates"] == 12
        assert run.origin["command"] == shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        assert run.origin["stopped"] == "finished"


def test_a_policy_file_elsewhere_is_a_run_without_a_folder(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.nopg").write_bytes((whole / "policy.nopg").read_bytes())
    (tmp_path / CHECKPOINT).write_text("not of this policy\n")
    run = read_run(tmp_path / "mine.nopg")
    assert (run.name, run.config) == ("mine", None)
    assert run.origin == {}
    with pytest.raises(PolicyFileError):
        read_run(tmp_path / "none.nopg")
    with pytest.raises(RunError, match=r"no run\.json"):
        read_run(tmp_path)


def test_a_run_that_was_cut_has_the_policy_of_its_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(PowerCut):
        begin(tmp_path / "cut", cut=8)
    run = read_run(tmp_path / "cut")
    assert run.policy.history is not None
    assert run.policy.history.stopped == "interrupted"
    assert run.status == {}


@pytest.mark.parametrize("name", ["run.json", "status.json", CHECKPOINT, "policy.nopg"])
@pytest.mark.parametrize("kind", ["link", "pipe", "device", "folder", "deep"])
def test_what_is_no_ordinary_file_is_refused(
    whole: Path, tmp_path: Path, name: str, kind: str
) -> None:
    """Somebody else's folder must not show, or hang on, any file of this user."""
    folder = copytree(whole, tmp_path / "run")
    path = folder / name
    if path.exists():
        path.unlink()
    if kind == "link":
        secret = tmp_path / "secret.json"
        original = whole / name
        secret.write_bytes(original.read_bytes() if original.exists() else b"{}")
        path.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("[" * 100_000 + "\n")
    with pytest.raises(NopgError) as caught:
        read_run(folder)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
