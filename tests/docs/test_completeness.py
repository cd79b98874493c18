"""The documentation is complete: every name, setting, error and option is on a page."""

from __future__ import annotations

import dataclasses
import re
import tomllib

import nopg
import nopg.data
import nopg.envs
import nopg.errors
from nopg.algorithms.nopg.config import NOPGConfig, TrainingConfig
from nopg.bellman.problem import EstimatorConfig
from tests.docs.pages import PAGES, ROOT, blocks

DOCS = ROOT / "docs"


def public_names() -> list[str]:
    """Every name the reference must have."""
    errors = [
        name
        for name, found in vars(nopg.errors).items()
        if isinstance(found, type) and found.__module__ == "nopg.errors"
    ]
    return [
        *(f"nopg.{name}" for name in nopg.__all__ if name not in errors),
        *(f"nopg.data.{name}" for name in nopg.data.__all__ if name != "Dataset"),
        *(f"nopg.envs.{name}" for name in nopg.envs.__all__),
        *(f"nopg.errors.{name}" for name in errors),
    ]


def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(p.read_text("utf-8") for p in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: (\S+)$", text, re.M)
    assert sorted(set(public_names()) - set(shown)) == []
    assert len(shown) == len(set(shown)), "a name is shown twice"


def test_every_public_name_has_an_example_that_runs() -> None:
    pages = [*(DOCS / "reference").glob("*.md")]
    code = "\n".join(b.code for page in pages for b in blocks(page) if not b.why_not)
    # Base classes are caught, not called: one word on the page is enough for them.
    missing = [
        name for name in public_names() if not re.search(rf"\b{name.rsplit('.', 1)[1]}\b", code)
    ]
    assert missing == []


def test_every_setting_is_explained() -> None:
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\|? ?`(\w+)`", text, re.M))
    named |= set(re.findall(r"^#+ `(\w+)`", text, re.M))
    settings = {
        field.name
        for part in (NOPGConfig, EstimatorConfig, TrainingConfig)
        for field in dataclasses.fields(part)
    } - {"estimator", "training"}
    assert sorted(settings - named) == []


def test_every_error_class_is_in_troubleshooting() -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    names = [name.rsplit(".", 1)[1] for name in public_names() if ".errors." in name]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_command_and_option_is_on_its_page() -> None:
    from typer.main import get_command

    from nopg.cli.main import app

    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert len(commands) >= 5
    for name, command in commands.items():
        assert f"## `nopg {name}" in text
        for option in (o for p in command.params for o in p.opts if o[:2] == "--"):
            assert re.search(rf"`{option}\b", text), f"nopg {name} {option}"


def test_the_architecture_names_files_and_folders_that_exist() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files = re.findall(r"`([a-z_0-9]+/[a-z_0-9/]+\.py)`", text + contributing)
    assert len(files) > 20
    package = ROOT / "src" / "nopg"
    assert [name for name in files if not (package / name).is_file()] == []
    drawn = set(re.findall(r"^  ([a-z]+)/(?: |$)", text, re.M))
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert drawn == folders


def test_toml_blocks_are_toml() -> None:
    found = [block for page in PAGES for block in blocks(page, "toml")]
    assert found
    for block in found:
        assert tomllib.loads(block.code)


def test_pictures_are_small() -> None:
    heavy = {
        file.name: file.stat().st_size
        for file in (DOCS / "images").iterdir()
        if file.stat().st_size > 150_000
    }
    assert heavy == {}
