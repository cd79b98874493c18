"""`nopg describe` prints words, or JSON, or one sentence and fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nopg.cli.columns import describe
from nopg.errors import DataError
from tests.delayed_system import delayed_data

app = typer.Typer()
app.command("describe")(describe)


@pytest.fixture
def log(tmp_path: Path) -> str:
    rows = "".join(f"{i // 5},{i}.5,{i % 3 - 1}.25,{i}.0\n" for i in range(20))
    path = tmp_path / "log.csv"
    path.write_text("run,x,u,r\n" + rows)
    return str(path)


def test_words(log: str) -> None:
    result = CliRunner().invoke(app, [log])
    assert result.exit_code == 0, result.output
    assert "16 transitions in 4 episodes of 4 to 4 steps" in result.output
    assert "What it means for learning" in result.output


def test_json(log: str) -> None:
    result = CliRunner().invoke(
        app, [log, "--json", "--observations", "x", "--actions", "u", "--reward", "r"]
    )
    found = json.loads(result.output)
    assert found["n_transitions"] == 16  # each of the 4 runs loses its last row
    assert found["columns"][0]["name"] == "x"


def test_an_error_is_one_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(tmp_path / "none.csv")])
    assert isinstance(result.exception, DataError)
    assert "no such file" in str(result.exception)


def test_advice_is_given_in_the_words_of_the_shell(tmp_path: Path) -> None:
    data = delayed_data()
    data.save(tmp_path / "log.npz")
    result = CliRunner().invoke(app, [str(tmp_path / "log.npz")])
    assert "nopg learn --history 2" in " ".join(result.output.split())
    assert "nopg.learn" not in result.output
