"""A CSV becomes transitions in one call, and says how."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nopg.data import Dataset
from nopg.data.io.metadata import described
from nopg.errors import DataError

FLIGHT = """run,t,x,v,u,r,done
a,0,0.0,1.0,0.5,-1.0,0
a,1,0.1,1.1,0.6,-2.0,0
a,2,0.2,1.2,0.7,-3.0,1
b,0,5.0,6.0,0.8,-4.0,0
b,1,5.1,6.1,0.9,-5.0,0
"""


def write(folder: Path, text: str, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_one_call_reads_named_columns(tmp_path: Path) -> None:
    data = Dataset.load(
        write(tmp_path, FLIGHT),
        observations=["x", "v"],
        actions=["u"],
        reward="r",
        episode="run",
        termination="done",
    )
    assert data.observations.tolist() == [[0.0, 1.0], [0.1, 1.1], [0.2, 1.2], [5.0, 6.0]]
    # Rows 0, 1 and 3 take s' from the row below; row 2 is terminated and keeps its
    # own state; row 4 has nothing below and is gone.
    assert data.next_observations.tolist() == [*([0.1, 1.1], [0.2, 1.2], [0.2, 1.2], [5.1, 6.1])]
    assert data.actions.tolist() == [[0.5], [0.6], [0.7], [0.8]]
    assert data.rewards.tolist() == [-1.0, -2.0, -3.0, -4.0]
    assert data.terminations.tolist() == [False, False, True, False]
    assert data.truncations.tolist() == [False, False, False, True]
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 0, 1]
    assert data.observation_names == ("x", "v")
    assert any("Dropped: 1 last row of an episode" in note for note in data.notes)
    assert any("Without a recorded s': 1 terminated row." in note for note in data.notes)


def test_names_are_guessed_and_the_guess_is_stated(tmp_path: Path) -> None:
    data = Dataset.load(write(tmp_path, FLIGHT))
    assert data.observation_names == ("x", "v")
    assert data.action_names == ("u",)
    assert data.terminations.sum() == 1
    assert "actions = u; episode = run; observations = x, v; " in data.notes[0]
    assert "time = t" in data.notes[0]


def test_given_successors_are_used_and_no_row_is_dropped(tmp_path: Path) -> None:
    text = "x,next_x,u,reward\n1.5,2.5,0.1,1\n7.5,8.5,0.2,2\n"
    data = Dataset.load(write(tmp_path, text))
    assert data.next_observations.tolist() == [[2.5], [8.5]]
    assert data.episodes is None


def test_a_row_without_an_action_closes_its_episode(tmp_path: Path) -> None:
    first = "ep,x,u,r,done\n0,1.0,0.5,1,0\n0,2.0,0.5,1,1\n0,3.0,,,0\n"
    text = first + "1,7.0,0.1,1,0\n1,8.0,,,0\n"
    data = Dataset.load(write(tmp_path, text))
    assert data.observations.tolist() == [[1.0], [2.0], [7.0]]
    assert data.next_observations.tolist() == [[2.0], [3.0], [8.0]]
    assert data.terminations.tolist() == [False, True, False]
    assert data.truncations.tolist() == [False, False, True]


def test_interleaved_episodes_keep_their_own_successors(tmp_path: Path) -> None:
    text = "ep,x,u,r\n0,1.0,0.5,0\n1,10.0,0.5,0\n0,2.0,0.5,0\n1,20.0,0.5,0\n"
    data = Dataset.load(write(tmp_path, text), termination=None)
    assert data.observations.tolist() == [[1.0], [10.0]]
    assert data.next_observations.tolist() == [[2.0], [20.0]]


def test_a_flag_cuts_a_recording_without_episodes(tmp_path: Path) -> None:
    text = "x,u,r,timeout\n1,0.5,0,0\n2,0.5,0,1\n9,0.5,0,0\n8,0.5,0,0\n7,0.5,0,0\n"
    data = Dataset.load(write(tmp_path, text))
    assert data.observations[:, 0].tolist() == [1.0, 9.0, 8.0]
    assert data.next_observations[:, 0].tolist() == [2.0, 8.0, 7.0]
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 1, 1]
    assert data.truncations.tolist() == [True, False, True]


def test_time_limits_are_truncations_when_told(tmp_path: Path) -> None:
    rows = "".join(f"{e},{e}{t}.0,0.5,0,{int(t == 2)}\n" for e in range(3) for t in range(3))
    data = Dataset.load(write(tmp_path, "ep,x,u,r,done\n" + rows), time_limit=3)
    assert not data.terminations.any()
    assert data.truncations.tolist() == [False, True] * 3
    found = [
        f.name for f in Dataset.load(write(tmp_path, "ep,x,u,r,done\n" + rows)).describe().findings
    ]
    assert "hidden_time_limit" in found


def test_whole_numbers_are_labels_unless_told(tmp_path: Path) -> None:
    path = write(tmp_path, "x,a,r\n0.5,0,1\n0.6,2,1\n0.7,1,1\n")
    data = Dataset.load(path)
    assert data.is_discrete
    assert data.actions.tolist() == [0, 2]
    assert any("discrete label" in note for note in data.notes)
    assert not Dataset.load(path, is_discrete=False).is_discrete
    signed = write(tmp_path, "x,a,r\n0.5,-1,1\n0.6,1,1\n0.7,0,1\n")
    assert not Dataset.load(signed).is_discrete


def test_a_reward_function_replaces_the_column(tmp_path: Path) -> None:
    path = write(tmp_path, "x,u\n1.0,0.5\n2.0,0.25\n4.0,0.125\n")
    data = Dataset.load(path, reward=lambda s, a, s2: s2[:, 0] - s[:, 0] + a[:, 0])
    assert data.rewards.tolist() == [1.5, 2.25]


def test_missing_cells_are_refused_or_dropped(tmp_path: Path) -> None:
    path = write(tmp_path, "x,u,r\n1.0,0.5,0\n,0.5,0\n3.0,0.5,0\n4.0,0.5,0\n5.0,0.5,0\n")
    with pytest.raises(DataError, match="2 rows had empty or NaN cells"):
        Dataset.load(path)
    data = Dataset.load(path, missing="drop")
    assert data.observations[:, 0].tolist() == [3.0, 4.0]
    assert data.next_observations[:, 0].tolist() == [4.0, 5.0]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_and_a_byte_order_mark(tmp_path: Path, delimiter: str) -> None:
    text = "\ufeff" + FLIGHT.replace(",", delimiter)
    assert len(Dataset.load(write(tmp_path, text))) == 4


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(FLIGHT.encode()))
    assert len(Dataset.load(path)) == 4


BAD = {
    "text in a number column": ("x,u,r\n1,0.5,0\nfast,0.5,0\n", "row 2 has 'fast'"),
    "a formula": ("x,u,r\n1,0.5,0\n=cmd|' /C calc'!A0,0.5,0\n", 'row 2 has "=cmd'),
    "ragged rows": ("x,u,r\n1,0.5,0\n1,0.5\n", "row 2 has 2"),
    "nothing": ("", "it is empty"),
    "only a header": ("x,u,r\n", "at least two"),
    "no header": ("1,2,3\n4,5,6\n", "must name the columns"),
    "no action": ("x,v,r\n1,2,3\n", "`actions`"),
    "no reward": ("x,u\n1,2\n", "`reward`"),
    "names twice": ("x,x,u,r\n1,2,3,4\n", "its own name"),
    "infinity": ("x,u,r\ninf,0.5,0\n1,0.5,0\n2,0.5,0\n", "must be finite"),
    "underscores": ("x,u,r\n1_0,0.5,0\n1,0.5,0\n", "'1_0'"),
    "a bad flag": ("x,u,r,done\n1,0.5,0,maybe\n1,0.5,0,0\n", "true or false"),
    "a zero byte": ("x,u,r\n1,0.5,0\n1,\0,0\n", "row 2"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_tables_give_one_sentence(tmp_path: Path, what: str) -> None:
    text, said = BAD[what]
    with pytest.raises(DataError) as error:
        Dataset.load(write(tmp_path, text))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text_and_endless_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"x,u,r\n\xff\xfe,1,2\n")
    with pytest.raises(DataError, match="UTF-8"):
        Dataset.load(path)
    bomb = tmp_path / "bomb.csv.gz"
    bomb.write_bytes(gzip.compress(b"x,u,r\n" + b"1," * 2**22))
    with pytest.raises(DataError, match="must have under"):
        Dataset.load(bomb)


def test_a_missing_file_and_an_absent_column(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        Dataset.load(tmp_path / "none.csv")
    with pytest.raises(DataError, match="'y' are not"):
        Dataset.load(write(tmp_path, FLIGHT), observations=["y"])


@pytest.mark.parametrize(
    "change",
    [
        {"observation_names": 3},
        {"action_names": [1]},
        {"notes": "text"},
        {"action_space": []},
        {"action_space": {"kind": "discrete", "n": {}, "start": 0}},
        {"observation_space": {"kind": "box", "dtype": "O"}},
        {"history": {}, "notes": None},
    ],
)
def test_damaged_metadata_are_refused_in_one_sentence(
    tmp_path: Path, change: dict[str, object]
) -> None:
    data = Dataset.load(write(tmp_path, FLIGHT))
    about = json.dumps(described(data) | change)
    for text in (about, '{"observation_names": ' + "[" * 100_000):
        arrays: dict[str, Any] = {**data.arrays(), "metadata": np.array(text)}
        np.savez(tmp_path / "own.npz", **arrays)
        with pytest.raises(DataError, match="write the file again"):
            Dataset.load(tmp_path / "own.npz")


def test_only_npz_files_are_written(tmp_path: Path) -> None:
    data = Dataset.load(write(tmp_path, FLIGHT))
    with pytest.raises(DataError, match=r"end in \.npz"):
        data.save(tmp_path / "own.csv")
    assert not (tmp_path / "own.csv").exists()


def test_a_file_that_unpacks_to_too_much(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"x,u,r\n" + b"1.25,0.5,2.5\n" * 100_000))
    with pytest.raises(DataError, match="must unpack to at most"):
        Dataset.load(path, max_bytes=100_000)


@pytest.mark.parametrize("options", [{}, {"decimal": ","}])
def test_decimal_commas_are_read(tmp_path: Path, options: dict[str, Any]) -> None:
    text = "t;x;u;reward\n0;1;0,5;-1,25e1\n0,1;0,409;-,5;2\n0,2;3;0,5;2\n"
    data = Dataset.load(write(tmp_path, text), **options)
    np.testing.assert_array_equal(data.observations[:, 0], [1.0, 0.409])
    np.testing.assert_array_equal(data.actions[:, 0], [0.5, -0.5])
    np.testing.assert_array_equal(data.rewards, [-12.5, 2.0])
    assert data.sample_time == pytest.approx(0.1)
    assert "Decimal commas were read." in data.notes
    with pytest.raises(DataError, match="'0,409'"):
        Dataset.load(write(tmp_path, text), observations="x", actions="u", decimal=".")


def test_commas_of_thousands_are_not_taken_for_decimals(tmp_path: Path) -> None:
    text = 'x,u,reward\n"1,234",0.5,1\n2,0.5,1\n3,0.5,1\n'
    with pytest.raises(DataError, match="'1,234'"):
        Dataset.load(write(tmp_path, text), observations=["x"])


def test_the_sample_time_is_kept_in_files(tmp_path: Path) -> None:
    data = Dataset.load(write(tmp_path, "t,x,u,reward\n0,1,2.5,3\n2,1,2.5,3\n4,5,6.5,7\n"))
    data.save(tmp_path / "log.npz")
    assert Dataset.load(tmp_path / "log.npz").sample_time == 2.0
