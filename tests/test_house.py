"""The house stays small: lines, names, and the files that one call passes through."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg

SOURCE = Path(nopg.__file__).parent


def test_lines() -> None:
    lines = sum(len(f.read_bytes().splitlines()) for f in SOURCE.rglob("*.py"))
    print(f"{lines:,} lines of Python in src")
    assert lines <= 25_999


def test_no_class_name_stands_for_two_things() -> None:
    names: dict[str, list[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                names.setdefault(node.name, []).append(file.name)
    assert {name: files for name, files in names.items() if len(files) > 1} == {}


def test_no_import_closes_a_circle() -> None:
    """Imports inside functions count, those for type checkers alone do not."""
    files = {_name(file): file for file in SOURCE.rglob("*.py")}
    modules = {name: _imported(file, set(files)) for name, file in files.items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in modules[name]:
                visit(other, (*path, name))
            done.add(name)

    for name in modules:
        visit(name, ())


def _name(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imported(file: Path, known: set[str]) -> set[str]:
    """Modules of the library that a file names, less the public face itself."""
    found: set[str] = set()

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:  # the name may be a module of a package
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        for child in ast.iter_child_nodes(node):
            look(child)

    look(ast.parse(file.read_text(encoding="utf-8")))
    return (found & known) - {"nopg", _name(file)}


def swinging(n: int = 300) -> nopg.Dataset:
    """A made-up system that no first guess solves: everything has work to do."""
    rng = np.random.default_rng(0)
    states, pushes = rng.normal(size=(n, 2)), rng.uniform(-1.0, 1.0, size=(n, 1))
    turn = np.sin(3.0 * states[:, 0]) + pushes[:, 0]
    after = states + 0.1 * np.column_stack([states[:, 1], turn])
    rewards = -np.tanh((states**2).sum(axis=1))
    return nopg.Dataset(states, pushes, rewards, after, np.zeros(n, dtype=bool))


def passed_through(call: Callable[[], object]) -> set[str]:
    """Files of the library whose functions a call runs."""
    seen: set[str] = set()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    call()  # what is imported on the way is imported now
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    inside = (Path(name) for name in seen if name.startswith(str(SOURCE)))
    return {file.relative_to(SOURCE).as_posix() for file in inside}


@pytest.mark.parametrize(("algorithm", "most"), [("fit", 37), ("learn", 58)])
def test_files_that_one_call_passes_through(algorithm: str, most: int) -> None:
    data = swinging()
    starts = data.observations[:3]

    def call() -> object:
        if algorithm == "fit":
            return nopg.NOPG().fit(data, starts, 5, progress=False)
        return nopg.learn(data, starts, n_updates=5, n_refining=5, progress=False)

    with warnings.catch_warnings(action="ignore", category=nopg.NopgWarning):
        files = passed_through(call)
    print(f"{algorithm}: {len(files)} files", *sorted(files), sep="\n")
    assert len(files) <= most
