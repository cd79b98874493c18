"""Every optional feature, with what it needs hidden: one sentence names the extra."""

from __future__ import annotations

import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from scripts.first_uses import FIRST_USES, TOOLS, FirstUse

from nopg.errors import MissingExtraError

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
HIDDEN = [
    pytest.param(use, package, id=f"{use.extra}: {use.feature} without {package}")
    for use in FIRST_USES
    for package in use.packages
]


def hide(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `import package` fail, as if it had never been installed."""
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    if package == "triton":  # its kernels are defined when their module is imported
        for name in [name for name in sys.modules if name.startswith("nopg.gpu.")]:
            monkeypatch.delitem(sys.modules, name)


def test_every_extra_has_a_first_use() -> None:
    assert set(EXTRAS) == {use.extra for use in FIRST_USES} | set(TOOLS)


@pytest.mark.parametrize(("use", "package"), HIDDEN)
def test_a_missing_package_is_named_in_one_sentence(
    use: FirstUse, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    hide(package, monkeypatch)
    with pytest.raises(MissingExtraError) as caught:
        exec(compile(use.program, use.feature, "exec"), {"__name__": "first_use"})
    sentence = str(caught.value)
    assert f'pip install "nopg[{use.extra}]"' in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_no_dependency_has_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = [
        *project["project"]["dependencies"],
        *(package for packages in EXTRAS.values() for package in packages),
    ]
    assert len(listed) > 20
    assert not [entry for entry in listed if "<" in entry or "==" in entry.split(";")[0]]


def test_the_package_ships_its_types_and_its_page() -> None:
    package = resources.files("nopg")
    assert package.joinpath("py.typed").is_file()
    assert package.joinpath("record", "assets", "index.html").is_file()
