"""Which code made a result: a hash of the source its method runs through.

The files are found by following imports from the function that runs the trial, so a
result of a baseline stays valid while the engine of NOPG changes, and the other way
round. Comments, docstrings and layout do not change a number, so they do not change the
hash either: it is taken of the syntax tree.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nopg

ROOTS: Mapping[str, Path] = MappingProxyType(
    {"nopg": Path(nopg.__file__).parent, "reproduction": Path(__file__).parent}
)
"""The packages whose imports are followed, and where each lies."""
WITHOUT_NUMBERS = (
    "nopg/errors.py",
    "nopg/data/diagnostics",  # sentences about data
    "nopg/data/io",  # a file read is known by its own hash, in the trial's settings
    # Which trials there are and where their results lie; settings are in the results.
    "reproduction/arms.py",
    "reproduction/experiment.py",
    "reproduction/results.py",
    "reproduction/trial.py",
    # What is made of the results.
    "reproduction/figures/coverage_tables.py",
    "reproduction/figures/safety_tables.py",
    "reproduction/figures/sign_off_tables.py",
)
"""Sources that no number depends on, or that results tell apart by other means."""


@cache
def code_version(run: Callable[..., Any]) -> str:
    """Twelve hexadecimal digits that change when the numbers of a function might.

    Args:
        run: The function that runs a trial.
    """
    start = Path(inspect.getfile(run))
    unused = getattr(inspect.getmodule(run), "UNUSED", ())
    return source_hash(sources(start, unused=unused))


def sources(
    start: Path, roots: Mapping[str, Path] = ROOTS, unused: Iterable[str] = ()
) -> list[Path]:
    """The files of some packages that a file imports, directly or not, and itself.

    Imports inside functions count, those for type checkers alone do not. What an
    `__init__.py` gathers counts only where names are imported from it.

    Args:
        start: Where to begin.
        roots: The packages by name, with the folder of each.
        unused: Files and folders that are imported on the way but not run, such as
            `nopg/gpu`; a module of trials names its own as `UNUSED`.
    """
    leave = (*WITHOUT_NUMBERS, *unused)
    found: dict[Path, None] = {start: None}
    pending = [start]
    while pending:
        tree = ast.parse(pending.pop().read_text(encoding="utf-8"))
        for file in _imported(tree, roots):
            if file not in found and not _is_among(leave, _name(file, roots)):
                found[file] = None
                pending.append(file)
    return sorted(found)


def _imported(tree: ast.Module, roots: Mapping[str, Path]) -> Iterator[Path]:
    """Files of the packages that a module's import statements name."""
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # The name imported may be a module itself.
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        else:
            continue
        for name in names:
            package, *parts = name.split(".")
            if package not in roots or not parts:
                continue
            place = roots[package].joinpath(*parts)
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.exists():
                    yield file


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Every part of a tree but what stands under `if TYPE_CHECKING`."""
    yield node
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        children: Iterable[ast.AST] = node.orelse
    else:
        children = ast.iter_child_nodes(node)
    for child in children:
        yield from _executed(child)


def _is_among(names: Iterable[str], file: str) -> bool:
    return any(file == each or file.startswith(f"{each}/") for each in names)


def _name(file: Path, roots: Mapping[str, Path] = ROOTS) -> str:
    """A file by its package, wherever that lies; others by their own name."""
    for package, root in roots.items():
        if file.is_relative_to(root):
            return f"{package}/{file.relative_to(root).as_posix()}"
    return file.name


def source_hash(files: Iterable[Path]) -> str:
    """Hash of the meaning of Python files, whatever their comments and layout."""
    total = hashlib.sha256()
    for name, file in sorted((_name(file), file) for file in files):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            _drop_docstrings(node)
        total.update(name.encode())
        total.update(_meaning(tree).encode())
    return total.hexdigest()[:12]


def _meaning(part: object) -> str:
    """A syntax tree as text, the same under every version of Python.

    `ast.dump` is not: new versions add fields, empty in code that does not use them,
    and leave out others. So empty ones are left out here, and so are the empty pieces
    that some versions find in formatted text.
    """
    if isinstance(part, list):
        return f"[{','.join(map(_meaning, part))}]"
    if isinstance(part, ast.JoinedStr):
        pieces = [x for x in part.values if getattr(x, "value", None) != ""]
        return f"JoinedStr{_meaning(pieces)}"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = [(name, getattr(part, name, None)) for name in part._fields]
    there = (f"{name}={_meaning(x)}" for name, x in fields if x is not None and x != [])
    return f"{type(part).__name__}({','.join(there)})"


def _drop_docstrings(node: ast.AST) -> None:
    body = getattr(node, "body", None)
    if isinstance(body, list):
        node.body = [s for s in body if not _is_text(s)]  # type: ignore[attr-defined]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
