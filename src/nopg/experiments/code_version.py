"""Which code made a result: a hash of the source that decides the numbers.

Comments, docstrings and layout do not change a number, so they do not change the
hash either: it is taken of the syntax tree.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ENGINE = (
    "data",
    "kernels",
    "linalg",
    "policies",
    "envs",
    "bellman",
    "trust",
    "learning",
)
"""The packages every trial runs through."""
PROTOCOL = (
    "tasks",
    "nopg_trials",
    "baseline_trials",
    "action_box",
    "lqr_gradients",
    "gradient_quality",
    "judged_policies",
)
"""The modules of this package that turn settings into numbers."""


@cache
def code_version(experiment_module: str) -> str:
    """Twelve hexadecimal digits that change when the numbers might.

    Args:
        experiment_module: The file of the experiment, such as "figure1_lqr".
    """
    root = Path(__file__).parents[1]
    here = Path(__file__).parent
    files = [root / "randomness.py", here / f"{experiment_module}.py"]
    files += [here / f"{name}.py" for name in PROTOCOL]
    for package in (*ENGINE, "baselines"):
        files += sorted((root / package).glob("*.py"))
    return source_hash(files, root)


def source_hash(files: Iterable[Path], root: Path) -> str:
    """Hash of the meaning of Python files, whatever their comments and layout."""
    total = hashlib.sha256()
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            _drop_docstrings(node)
        total.update(file.relative_to(root).as_posix().encode())
        total.update(ast.dump(tree).encode())
    return total.hexdigest()[:12]


def _drop_docstrings(node: ast.AST) -> None:
    body = getattr(node, "body", None)
    if isinstance(body, list):
        node.body = [s for s in body if not _is_text(s)]  # type: ignore[attr-defined]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
