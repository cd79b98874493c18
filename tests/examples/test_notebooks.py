"""The notebooks run from top to bottom, as their reader would run them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.docs.short import shorten

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
LARGEST_OUTPUT = 20_000
"""Characters of kept outputs: a notebook in the repository is text to be read."""


def cells(notebook: Path) -> list[dict[str, Any]]:
    """All cells, in order."""
    read = json.loads(notebook.read_text(encoding="utf-8"))
    assert (read["nbformat"], read["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = read["cells"]
    return found


def test_there_are_two() -> None:
    assert [notebook.stem for notebook in NOTEBOOKS] == ["log_to_policy", "paper_pendulum"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_a_notebook(notebook: Path) -> None:
    assert len({cell["id"] for cell in cells(notebook)}) == len(cells(notebook))
    for cell in cells(notebook):
        if cell["cell_type"] == "code":
            assert {"execution_count", "metadata", "outputs", "source"} <= set(cell)
            assert len(json.dumps(cell["outputs"])) < LARGEST_OUTPUT
        else:
            assert cell["cell_type"] == "markdown"


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_cells_run_in_order(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    shorten(monkeypatch, 50, {"n_updates": 5, "n_refining": 2})
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(notebook):
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), f"{notebook.stem}:{cell['id']}", "exec")
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # a reader sees them, and reads on
                exec(code, names)
    from matplotlib import pyplot

    assert pyplot.get_fignums(), "a notebook draws something"
    pyplot.close("all")
