"""`nopg reproduce` as a user types it."""

from pathlib import Path

import pytest

typer_testing = pytest.importorskip("typer.testing")


def test_table1_from_the_command_line(tmp_path: Path) -> None:
    from nopg.cli.main import app

    arguments = ["reproduce", "table1-applicability", "--preset", "smoke", "--out"]
    runner = typer_testing.CliRunner()
    done = runner.invoke(app, [*arguments, str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "as_printed: true" in done.output
    assert (tmp_path / "table1-applicability" / "smoke.png").exists()
    drawn = runner.invoke(app, [*arguments, str(tmp_path), "--draw-only"])
    assert drawn.exit_code == 0
    assert "as_printed: true" in drawn.output


def test_errors_are_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nopg.cli.main import run

    monkeypatch.setattr("sys.argv", ["nopg", "reproduce", "figure7"])
    with pytest.raises(SystemExit) as stopped:
        run()
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("nopg: An experiment must be one of figure1-lqr")
    assert "Traceback" not in said
