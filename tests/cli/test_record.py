from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from gymnasium.spaces import Box
from typer.testing import CliRunner

import nopg.record
from nopg.cli.record import record
from nopg.errors import NopgError
from nopg.record import RecordConfig
from nopg.record.session import Demonstrations

app = typer.Typer()
app.command()(record)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[RecordConfig]:
    """The settings the command asked for, without a server."""
    configs: list[RecordConfig] = []

    def stand_in(config: RecordConfig, **_: object) -> Demonstrations:
        configs.append(config)
        space = Box(-1.0, 1.0, (1,))
        layout = {
            "observation_space": space,
            "action_space": space,
            "observation_names": ("x",),
            "action_names": ("u",),
        }
        return Demonstrations(config.out, layout)

    monkeypatch.setattr(nopg.record, "record", stand_in)
    monkeypatch.chdir(tmp_path)
    return configs


def test_the_file_is_named_after_environment_and_time(asked: list[RecordConfig]) -> None:
    result = CliRunner().invoke(app, ["my.module:lab/Arm-v2"])
    assert result.exit_code == 0
    assert re.fullmatch(r"lab-Arm-v2_\d{8}-\d{6}\.npz", str(asked[0].out))


def test_every_option_arrives(asked: list[RecordConfig]) -> None:
    text = "Pendulum-v1 --out a.npz --episodes 3 --fps 20 --seed 4 --max-steps 50 --port 8123"
    CliRunner().invoke(app, text.split(), catch_exceptions=False)
    assert asked == [
        RecordConfig(
            environment="Pendulum-v1",
            out=Path("a.npz"),
            episodes=3,
            fps=20.0,
            seed=4,
            max_steps=50,
            port=8123,
        )
    ]


def test_a_seed_that_was_drawn_is_shown(asked: list[RecordConfig]) -> None:
    result = CliRunner().invoke(app, ["Pendulum-v1"])
    assert f"(seed {asked[0].seed})" in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["Nothing-v0"], "must be a Gymnasium environment"),
        (["Pendulum-v1", "--out", "a.csv"], "must be a file ending in .npz"),
        (["Pendulum-v1", "--fps", "0"], "`fps` must lie"),
    ],
)
def test_a_mistake_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*arguments, "--no-browser"])
    assert isinstance(result.exception, NopgError)
    assert sentence in str(result.exception)
    assert [file for file in tmp_path.iterdir() if file.suffix != ".lock"] == []
