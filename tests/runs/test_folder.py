"""What a run folder holds is checked before it is believed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nopg
from nopg.data.io.metadata import fingerprint
from nopg.errors import NopgError, RunError
from nopg.runs.folder import CHECKPOINT, RunFolder
from tests.runs.tiny import SMALL, PowerCut, begin, carry_on


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that died at update 8 of 12; its checkpoint is of update 6."""
    path = tmp_path_factory.mktemp("runs") / "cut"
    with pytest.raises(PowerCut):
        begin(path, cut=8)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "whole"
    begin(path)
    return path


def test_it_says_what_was_learned_and_how(whole: Path) -> None:
    run = RunFolder.open(whole)
    assert {file.name for file in whole.iterdir()} == {
        "run.json", "initial.nopg", CHECKPOINT, "status.json", "policy.nopg"
    }  # fmt: skip
    assert run.config.settings["hidden"] == [6]
    assert run.config.versions["nopg"] == version("nopg")
    data = run.policy().data
    assert data is not None
    assert np.array_equal(data.observations, SMALL.observations)
    assert run.status()["stopped"] == "finished"
    assert [u.step for u in run.history()] == list(range(1, 13))


def test_the_policy_of_a_dead_run_is_that_of_its_checkpoint(cut: Path) -> None:
    run = RunFolder.open(cut)
    state = run.state()
    assert state is not None
    assert state.step == 6
    for name, value in run.policy().policy.state_dict().items():
        assert (value == state.policy[name]).all()
    assert run.history().stopped == "interrupted"


def test_a_fingerprint_sees_one_bit(tmp_path: Path) -> None:
    rewards = SMALL.rewards.copy()
    rewards[7] = np.nextafter(rewards[7], 1.0)
    changed = nopg.Dataset(
        SMALL.observations, SMALL.actions, rewards, SMALL.next_observations,
        SMALL.terminations,
    )  # fmt: skip
    assert fingerprint(changed) != fingerprint(SMALL)
    SMALL.save(tmp_path / "same.npz")
    assert fingerprint(nopg.Dataset.load(tmp_path / "same.npz")) == fingerprint(SMALL)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_flipped_bit_of_a_checkpoint_is_believed(cut: Path, data: Any) -> None:
    run, file = RunFolder.open(cut), cut / CHECKPOINT
    good = file.read_bytes()
    content = bytearray(good)
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(
        st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128])
    )
    file.write_bytes(content)
    try:
        with pytest.raises(RunError, match="checkpoint"):
            run.state()
    finally:
        file.write_bytes(good)


@pytest.mark.parametrize("content", [b"", b"words"])
def test_a_run_without_a_good_checkpoint_is_refused(
    cut: Path, tmp_path: Path, content: bytes
) -> None:
    path = copytree(cut, tmp_path / "a")
    (path / CHECKPOINT).write_bytes(content)
    with pytest.raises(RunError, match="checkpoint"):
        carry_on(path)


def test_changed_data_are_refused(cut: Path, tmp_path: Path) -> None:
    path = copytree(cut, tmp_path / "a")
    replace(RunFolder.open(cut).policy(), data=SMALL.subset(slice(0, 71))).save(
        path / "initial.nopg"
    )
    with pytest.raises(RunError, match="SHA-256"):
        carry_on(path)


def test_links_are_not_followed(cut: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    for name in (CHECKPOINT, "initial.nopg", "run.json"):
        path = copytree(cut, tmp_path / f"with-{name}")
        precious.write_text("words\n")
        (path / name).unlink()
        (path / name).symlink_to(precious)
        with pytest.raises(NopgError):
            carry_on(path)
        assert precious.read_text() == "words\n"


def test_litter_of_a_killed_process_is_removed(cut: Path, tmp_path: Path) -> None:
    path = copytree(cut, tmp_path / "a")
    (path / ".policy.nopg.77.tmp").write_bytes(b"half")
    (path / f".{CHECKPOINT}.77.tmp").write_bytes(b"half")
    (path / ".mine.tmp").write_bytes(b"somebody's")
    carry_on(path)
    assert [file.name for file in path.rglob("*.tmp")] == [".mine.tmp"]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no run"):
        RunFolder.open(tmp_path)
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(RunError, match="JSON object"):
        RunFolder.open(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 1}')
    with pytest.raises(RunError, match="format 3, it is of format 1"):
        RunFolder.open(tmp_path)
    with (tmp_path / "run.json").open("wb") as stream:
        stream.truncate(2**27)
    with pytest.raises(RunError, match="at most"):
        RunFolder.open(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_field_of_a_config_is_checked(cut: Path, tmp_path: Path, data: Any) -> None:
    found = json.loads((cut / "run.json").read_text())
    key = data.draw(st.sampled_from(sorted(found)))
    found[key] = data.draw(JSON)
    (tmp_path / "run.json").write_text(json.dumps(found))
    refused, kept = "", ""
    try:
        kept = json.dumps(asdict(RunFolder.open(tmp_path).config)[key])
    except RunError as error:  # and nothing else
        refused = str(error)
    # What is not refused is of the kind that belongs there, and taken as it is.
    assert str(tmp_path / "run.json") in refused or kept == json.dumps(found[key])


@pytest.mark.parametrize("threads", [0, -1, 10**6, 2**63])
def test_threads_of_a_run_are_limited(cut: Path, tmp_path: Path, threads: int) -> None:
    """Torch would be told to start so many."""
    found = json.loads((cut / "run.json").read_text()) | {"threads": threads}
    (tmp_path / "run.json").write_text(json.dumps(found))
    with pytest.raises(RunError, match="threads is"):
        RunFolder.open(tmp_path)


def test_a_damaged_status_is_refused(cut: Path, tmp_path: Path) -> None:
    path = copytree(cut, tmp_path / "a")
    for text in ("{}", '{"stopped": 1, "updates": 2}', '{"stopped": "finished"}'):
        (path / "status.json").write_text(text)
        with pytest.raises(RunError, match="how training ended"):
            RunFolder.open(path).policy()
