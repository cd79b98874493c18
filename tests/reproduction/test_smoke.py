"""Every experiment from end to end on tiny sizes, its picture included."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reproduction.experiment import EXTRAS, Plan
from reproduction.pictures.draw import draw
from reproduction.registry import MODULES, experiment
from reproduction.report import report
from reproduction.runner import reproduce
from reproduction.selection import Selection

WITHOUT = """
import sys
for name in ("typer", "joblib", "matplotlib", "d3rlpy"):
    sys.modules[name] = None
from reproduction.__main__ import main
raise SystemExit(main(sys.argv[1:]))
"""


def installed(methods: set[str]) -> list[str]:
    return sorted(
        method
        for method in methods
        if method not in EXTRAS or importlib.util.find_spec(EXTRAS[method][0])
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore")  # other libraries' remarks on tiny data
def test_experiment_runs_and_is_drawn(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plan, found = Plan(preset="smoke"), experiment(name)
    methods = installed({trial.method for trial in found.trials(plan)})
    outcome = reproduce(
        found, plan, out=tmp_path, selection=Selection(methods=methods), progress=False
    )
    assert outcome.missing == 0
    assert {record.trial.method for record in outcome.records} == set(methods)
    assert found.title in report(outcome)
    picture = draw(outcome, tmp_path / "picture.png")
    assert picture.stat().st_size > 5_000


@pytest.mark.parametrize("name", MODULES)
def test_paper_preset_has_the_papers_sizes_and_seeds(name: str) -> None:
    trials = experiment(name).trials(Plan(preset="paper"))
    assert len({trial.digest for trial in trials}) == len(trials)
    assert len({trial.key for trial in trials}) == len(trials)
    fewer_seeds = {"figure1-lqr": 5, "table1-applicability": 1, "machines": 5}
    wanted = fewer_seeds.get(name, 10)
    assert {t.seed for t in trials} == set(range(wanted))
    fewer = experiment(name).trials(Plan(preset="paper", seeds=1))
    assert len(fewer) <= len(trials)


@pytest.mark.slow
def test_nopg_and_pwis_run_without_extras(tmp_path: Path) -> None:
    command = [
        sys.executable, "-c", WITHOUT, "figure2-pendulum-random", "--preset", "smoke",
        "--jobs", "1", "--methods", "NOPG-D,learn,PWIS", "--out", str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "5 trials in" in done.stdout  # three of them are settings of NOPG-D
    late = subprocess.run(
        [*command, "--seeds", "2", "--time-limit", "0"], capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert late.returncode == 3, late.stderr
    assert "5 trials are left" in late.stdout
