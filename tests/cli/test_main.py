"""The command itself: its version, its help, and errors in the words of the shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nopg
from nopg.cli.main import app, in_shell_words, run

CSV = "x,u,r\n0.0,1.0,0.5\n0.1,,0.5\n0.2,1.0,0.25\n0.3,-1.0,0.5\n"


def test_the_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert done.output == f"nopg {nopg.__version__}\n"


def test_help_needs_no_torch() -> None:
    """It is looked at often, and torch alone takes seconds."""
    program = (
        "import sys\nfrom typer.testing import CliRunner\n"
        "from nopg.cli.main import app\n"
        "print(CliRunner().invoke(app, ['--help']).exit_code,"
        "sorted({'torch', 'scipy', 'numpy', 'gymnasium'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0 []\n"


def test_help_says_which_command_is_the_paper_and_which_learns_models() -> None:
    runner = CliRunner()
    assert "describe, learn, report" in runner.invoke(app, ["--help"]).output
    assert "models of the system" in runner.invoke(app, ["learn", "--help"]).output
    assert "paper's algorithm" in runner.invoke(app, ["fit", "--help"]).output


@pytest.mark.parametrize(
    ("command", "sentence", "expected"),
    [
        ("describe", "pass missing='drop'.", "pass --missing drop."),
        ("learn", "drop them with repeated='drop'.", "drop them with --repeated drop."),
        ("fit", "or pass time='' to", "or pass --time '' to"),
        ("fit", "`n_updates` must be from 1", "--updates must be from 1"),
        ("learn", "pass `time_limit`.", "pass --time-limit."),
        ("learn", "pass episode='run'.", "pass --episode run."),
        ("describe", "pass time_limit=200.", "pass --time-limit 200."),
        ("fit", "`data/run.json` must exist", "`data/run.json` must exist"),
        ("fit", 'use dtype="float32"', 'use dtype="float32"'),
        ("export", "`format` must be onnx", "--format must be onnx"),
        ("evaluate", "`format` must be onnx", "`format` must be onnx"),
        ("evaluate", "choose another `env_id`.", "choose another --env."),
        ("nothing", "`format` must be onnx", "`format` must be onnx"),
    ],
)
def test_python_arguments_become_flags(command: str, sentence: str, expected: str) -> None:
    assert in_shell_words(sentence, command) == expected


def test_the_sentence_of_a_hole_in_the_data_names_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "holes.csv").write_text(CSV)
    words = ["nopg", "describe", str(tmp_path / "holes.csv"), "--observations", "x"]
    monkeypatch.setattr("sys.argv", [*words, "--actions", "u", "--reward", "r"])
    with pytest.raises(SystemExit) as stopped:
        run()
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert "--missing drop" in said
    assert "missing=" not in said
    assert said.startswith("nopg: ")
    assert said.count("\n") == 1
