"""What other installers are told is what `pyproject.toml` says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nopg

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_conda_recipe_has_the_same_version_and_bounds() -> None:
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{nopg.__version__}"' in recipe
    assert PROJECT["version"] == nopg.__version__
    run = recipe.split("  run:")[1].split("tests:")[0]
    found = dict(re.findall(r"- (\S+) >=(\S+)", run))
    assert found.pop("python") == PROJECT["requires-python"].removeprefix(">=")
    found["torch"] = found.pop("pytorch")
    assert found == dict(each.split(">=") for each in PROJECT["dependencies"])


def test_the_container_runs_the_demo_with_what_is_there() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (.*) \S+$", text, re.M):
        for name in line.split():
            assert (ROOT / name).exists(), name
    assert 'CMD ["demo"' in text
    extras = re.search(r"/build\[(.*?)\]", text)
    assert extras
    assert set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])
