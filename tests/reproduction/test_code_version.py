"""The version of the code: changed by meaning, not by words."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from reproduction.arms import runner_of
from reproduction.code_version import ROOTS, code_version, source_hash, sources
from reproduction.experiment import Plan
from reproduction.registry import MODULES, experiment
from reproduction.trial import Trial

from nopg.errors import ConfigError

SOURCE = 'def f(x):\n    """Double."""\n    return 2 * x\n'


def trial(method: str, setting: str = "") -> Trial:
    return Trial(experiment="e", task="t", method=method, setting=setting, size=1, seed=0)


def version(tmp_path: Path, text: str) -> str:
    file = tmp_path / "f.py"
    file.write_text(text)
    return source_hash([file])


def test_comments_docstrings_and_layout_do_not_count(tmp_path: Path) -> None:
    before = version(tmp_path, SOURCE)
    other = '"""A module."""\n\ndef f(x):  # why\n    return (2\n        * x)\n'
    assert version(tmp_path, other) == before


@pytest.mark.parametrize(
    "pair",
    [
        ("return None", "return"),
        ("x = None", "x = 0"),
        ("f(*a)", "f(a)"),
        ("f(**a)", "f(a=a)"),
        ("def f(a, *, b): pass", "def f(a, *, b=None): pass"),
        ("x = {**a}", "x = {a: a}"),
        ("x = a[:]", "x = a[0:]"),
        ("x = f'{a}'", "x = f'{a!r}'"),
        ("x = ()", "x = []"),
        ("x = 1", "x = 1.0"),
        ("from a import b", "from a import b as c"),
    ],
)
def test_different_code_is_told_apart(tmp_path: Path, pair: tuple[str, str]) -> None:
    first, second = (version(tmp_path, text) for text in pair)
    assert first != second


def test_every_version_of_python_gives_the_same_answer(tmp_path: Path) -> None:
    """The hash was made with 3.9 to 3.13, whose syntax trees differ."""
    text = "class A:\n    pass\n\ndef f(a, *b, c=1, **d):\n    return f'{a:>{c}} {b}'\n"
    assert version(tmp_path, text) == "cef62b15260e"


def test_a_changed_number_counts(tmp_path: Path) -> None:
    assert version(tmp_path, SOURCE) != version(tmp_path, SOURCE.replace("2", "3"))


def named(files: Iterable[Path]) -> set[str]:
    """Files by their package, such as nopg/bellman/solution.py."""
    return {
        f"{package}/{file.relative_to(root).as_posix()}"
        for file in files
        for package, root in ROOTS.items()
        if file.is_relative_to(root)
    }


def used(run: Callable[..., Any]) -> set[str]:
    """Files a function's results depend on."""
    unused = getattr(inspect.getmodule(run), "UNUSED", ())
    return named(sources(Path(inspect.getfile(run)), unused=unused))


def folders(run: Callable[..., Any]) -> set[str]:
    """Folders a function's results depend on."""
    return {"/".join(name.split("/")[:2]) for name in used(run)}


def small_package(root: Path) -> Path:
    """`start` uses `used`, which uses `deep` within a function; nobody uses `spare`."""
    (root / "part").mkdir(parents=True)
    files = {
        "start.py": "from small.part.used import f\n",
        "part/__init__.py": "from small.part.spare import g\n",
        "part/used.py": "def f():\n    from small.part import deep\n",
        "part/deep.py": "X = 1\n",
        "part/spare.py": "X = 1\n",
        "errors.py": "X = 1\n",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    return root / "start.py"


def test_imports_are_followed_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "small"
    start = small_package(root)
    found = {file.relative_to(root).as_posix() for file in sources(start, {"small": root})}
    # Names from the folder itself bring what it gathers; `from small.part import deep`
    # is such a one.
    assert found == {
        "start.py", "part/used.py", "part/deep.py", "part/__init__.py", "part/spare.py"
    }  # fmt: skip
    (root / "part" / "used.py").write_text("import small.part.deep\nimport errors\n")
    found = {file.relative_to(root).as_posix() for file in sources(start, {"small": root})}
    assert found == {"start.py", "part/used.py", "part/deep.py"}


@pytest.mark.parametrize("method", ["PWIS", "DDPG offline", "DDPG online", "IQL"])
def test_baselines_do_not_depend_on_the_engine(method: str) -> None:
    found = folders(runner_of(trial(method)))
    engine = ("bellman", "algorithms", "fitted", "kernels", "linalg", "gpu")
    assert not found & {f"nopg/{name}" for name in engine}
    assert {"nopg/envs", "nopg/data", "nopg/randomness.py"} <= found
    assert {"reproduction/baselines", "reproduction/trials"} <= found


@pytest.mark.parametrize(
    ("method", "setting", "file"),
    [
        ("IQL", "", "reproduction/baselines/d3.py"),
        ("DDPG online", "", "reproduction/envs/simulation.py"),
        ("DDPG offline", "", "reproduction/baselines/sb3.py"),
        ("PWIS", "", "nopg/policies/build.py"),
        ("NOPG-D", "paper", "nopg/bellman/solution.py"),
        ("NOPG-S", "paper", "nopg/algorithms/nopg/training.py"),
        ("NOPG-D", "defaults", "nopg/kernels/bandwidths.py"),
        ("NOPG-D", "paper", "nopg/linalg/krylov.py"),
        ("learn-S", "", "nopg/algorithms/search/learn.py"),
        ("learn", "", "nopg/dynamics/gaussian_process.py"),
        ("learn", "", "nopg/linalg/krylov.py"),
    ],
)
def test_what_decides_the_numbers_is_found(method: str, setting: str, file: str) -> None:
    found = used(runner_of(trial(method, setting)))
    assert file in found
    assert "reproduction/tasks/continuous.py" in found
    assert "nopg/envs/pendulum.py" in found


def test_versions_differ_where_the_code_does() -> None:
    grid = experiment("figure2-pendulum-grid")
    paper, other = (trial(method, "paper") for method in ("NOPG-D", "NOPG-S"))
    learn, baseline = trial("learn"), trial("DDPG offline")
    assert grid.code(paper) == grid.code(other)
    assert len({grid.code(each) for each in (paper, learn, baseline)}) == 3
    # The same baseline in two figures runs through the same code.
    assert grid.code(baseline) == experiment("figure2-cart-pole").code(baseline)


def test_the_search_decides_no_number_of_nopg() -> None:
    found = used(runner_of(trial("NOPG-D", "paper")))
    assert "nopg/bellman/solution.py" in found
    assert not [name for name in found if name.startswith("nopg/dynamics/")]
    assert not [name for name in found if name.startswith("nopg/algorithms/search/")]


@pytest.mark.parametrize(
    ("method", "setting", "unused"),
    [
        ("NOPG-D", "paper", ("nopg/evaluation/intervals.py", "nopg/gpu/rows.py")),
        ("learn", "", ("nopg/gpu/rows.py",)),
    ],
)
def test_what_a_trial_does_not_use_decides_nothing(
    method: str, setting: str, unused: tuple[str, ...]
) -> None:
    run = runner_of(trial(method, setting))
    everything = named(sources(Path(inspect.getfile(run))))
    for name in unused:
        assert name in everything - used(run)
    left_out = inspect.getmodule(run).UNUSED  # type: ignore[union-attr]
    files = sources(Path(inspect.getfile(run)), unused=left_out)
    assert code_version(run) == source_hash(files)


def test_intervals_decide_their_coverage() -> None:
    coverage = experiment("coverage")
    run = coverage.runner_of(coverage.trials(Plan(preset="smoke"))[0])
    assert "nopg/evaluation" in folders(run)
    assert not hasattr(inspect.getmodule(run), "UNUSED")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"NOPG-D \(paper\).*got 'NOPG-D \(old\)'"):
        runner_of(trial("NOPG-D", "old"))


def test_imports_for_type_checkers_decide_nothing(tmp_path: Path) -> None:
    root = tmp_path / "small"
    start = small_package(root)
    guarded = "if TYPE_CHECKING:\n    from small.part.used import f\n"
    start.write_text(guarded)
    assert sources(start, {"small": root}) == [start]
    start.write_text(guarded + "else:\n    import small.part.spare\n")
    assert [file.name for file in sources(start, {"small": root})] == ["spare.py", "start.py"]


@pytest.mark.parametrize("name", MODULES)
def test_every_method_of_every_experiment_has_a_version(name: str) -> None:
    found = experiment(name)
    arms = {each.arm: each for each in found.trials(Plan(preset="smoke"))}
    assert all(len(found.code(each)) == 12 for each in arms.values())
