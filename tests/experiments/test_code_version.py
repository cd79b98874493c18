"""The version of the code: changed by meaning, not by words."""

from pathlib import Path

from nopg.experiments.code_version import code_version, source_hash
from nopg.experiments.registry import MODULES

SOURCE = 'def f(x):\n    """Double."""\n    return 2 * x\n'


def version(tmp_path: Path, text: str) -> str:
    file = tmp_path / "f.py"
    file.write_text(text)
    return source_hash([file], tmp_path)


def test_comments_docstrings_and_layout_do_not_count(tmp_path: Path) -> None:
    before = version(tmp_path, SOURCE)
    other = '"""A module."""\n\ndef f(x):  # why\n    return (2\n        * x)\n'
    assert version(tmp_path, other) == before


def test_a_changed_number_counts(tmp_path: Path) -> None:
    assert version(tmp_path, SOURCE) != version(tmp_path, SOURCE.replace("2", "3"))


def test_every_experiment_has_a_version_of_its_own() -> None:
    versions = {code_version(module) for module in MODULES.values()}
    assert len(versions) == len(MODULES)
