"""Running, stopping, killing and going on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from reproduction.costs import rough_seconds
from reproduction.experiment import Experiment, Plan
from reproduction.registry import MODULES, experiment, experiments
from reproduction.results import MixedResultsError, ResultsFile
from reproduction.runner import reproduce, reproduce_each, stored
from reproduction.selection import Selection, names
from reproduction.trial import Trial
from reproduction.workers import Deadline

from nopg.errors import ConfigError, MissingExtraError
from reproduction import runner

SCRIPT = Path(__file__).with_name("tiny_experiment.py")


def numbers(path: Path) -> dict[str, Any]:
    return {r.trial.key: r.result for r in ResultsFile(path).records()}


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_numbers(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT)]
    clone = dict(os.environ) | {"PYTHONPATH": str(SCRIPT.parents[2])}
    subprocess.run([*command, str(tmp_path / "unbroken")], check=True, env=clone)
    unbroken = numbers(tmp_path / "unbroken" / "tiny" / "quick.jsonl")
    assert len(unbroken) == 8

    file = tmp_path / "killed" / "tiny" / "quick.jsonl"
    process = subprocess.Popen([*command, str(tmp_path / "killed")], env=clone)
    deadline = time.monotonic() + 600
    while not (file.exists() and len(file.read_bytes().splitlines()) >= 3):
        assert time.monotonic() < deadline, "no trial was saved in time"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    saved = numbers(file)
    assert 0 < len(saved) < 8

    subprocess.run([*command, str(tmp_path / "killed")], check=True, env=clone)
    assert numbers(file) == unbroken
    # What was there was not run again: the second run only added the rest.
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    runs = [line["run"] for line in lines if "trial" in line]
    assert runs.count(runs[0]) == len(saved)
    assert len(runs) == 8


def smoke(name: str, out: Path, **options: Any) -> Any:
    """The refusals of Table 1 by default: three trials of no time at all."""
    methods = ["PWIS"] if name == "table1-applicability" else []
    return reproduce(
        experiment(name),
        Plan(preset="smoke", **options),
        out=out,
        progress=False,
        command="test",
        selection=Selection(methods=methods),
    )


def test_finished_trials_are_skipped_and_provenance_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = smoke("table1-applicability", tmp_path)
    assert (len(first.records), first.missing) == (3, 0)
    summary = json.loads(first.stem.with_suffix(".summary.json").read_text())
    (about,) = summary["runs"].values()
    assert about["command"] == "test"
    assert {"nopg", "torch", "numpy", "python"} <= set(about["versions"])
    assert about["machine"]["cores"] >= 1
    monkeypatch.setattr(runner, "run_trial", None)  # would fail if called
    again = smoke("table1-applicability", tmp_path)
    assert again.records == first.records
    drawn = stored(experiment("table1-applicability"), Plan(preset="smoke"), out=tmp_path)
    assert drawn.records == first.records


def test_results_of_other_code_stop_a_run_unless_redone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = smoke("table1-applicability", tmp_path)
    monkeypatch.setattr(Experiment, "code", lambda self, trial: "othercode")
    with pytest.raises(MixedResultsError, match="made by other code"):
        smoke("table1-applicability", tmp_path)
    before = first.stem.with_suffix(".jsonl").read_bytes()
    again = reproduce(
        experiment("table1-applicability"),
        Plan(preset="smoke"),
        out=tmp_path,
        progress=False,
        selection=Selection(methods=["PWIS"]),
        redo=True,
    )
    assert {record.code for record in again.records} == {"othercode"}
    assert first.stem.with_suffix(".old1.jsonl").read_bytes() == before


def test_no_trial_is_started_after_the_time_limit(tmp_path: Path) -> None:
    outcome = reproduce(
        experiment("table1-applicability"),
        Plan(preset="smoke"),
        out=tmp_path,
        progress=False,
        deadline=Deadline(0.0),
    )
    assert (len(outcome.records), outcome.missing) == (0, 9)


def test_several_experiments_share_one_pool(tmp_path: Path) -> None:
    chosen = experiments("table1-applicability", "figure4-mountain-car")
    outcomes = list(
        reproduce_each(
            chosen,
            Plan(preset="smoke"),
            selection=Selection(methods=["PWIS", "demonstration"]),
            out=tmp_path,
            jobs=2,
            progress=False,
        )
    )
    assert {o.experiment.name: len(o.records) for o in outcomes} == {
        "table1-applicability": 3,
        "figure4-mountain-car": 1,
    }
    assert all(outcome.missing == 0 for outcome in outcomes)


def test_the_longest_trials_are_started_first() -> None:
    trials = experiment("comparison-offline").trials(Plan(preset="standard"))
    methods = [t.method for t in sorted(trials, key=lambda t: -rough_seconds(t))]
    baselines = [method for method in methods if method != "learn"]
    assert list(dict.fromkeys(baselines)) == ["CQL", "IQL", "TD3+BC", "BC"]


def test_sizes_and_methods_can_be_left_out(tmp_path: Path) -> None:
    outcome = reproduce(
        experiment("table1-applicability"),
        Plan(preset="smoke"),
        out=tmp_path,
        progress=False,
        selection=Selection(methods=["PWIS"], max_size=1),
    )
    assert [r.trial.task for r in outcome.records] == ["human-demonstration"]


def test_unknown_names_list_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"figure2-pendulum-grid.*got 'figure9'"):
        experiments("figure9")
    assert len(experiments("all")) == len(MODULES)
    with pytest.raises(ConfigError, match=r"--preset.*paper, standard, quick, smoke"):
        Plan(preset="huge")
    with pytest.raises(ConfigError, match=r"--methods.*NOPG-D.*got SARSA"):
        list(
            reproduce_each(
                experiments("figure2-pendulum-grid"), Plan(), selection=Selection(methods=["SARSA"])
            )
        )
    with pytest.raises(ConfigError, match=r"--data.*figure3-phase does not"):
        smoke("figure3-phase", tmp_path, data_file="x.npz")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"nopg\[offline-baselines\]"):
        smoke("comparison-offline", tmp_path)
    with pytest.raises(
        MissingExtraError, match=r"nopg\[baselines\].*--methods 'NOPG-D,NOPG-S,learn"
    ):
        smoke("figure2-pendulum-grid", tmp_path)


def test_methods_can_be_chosen_with_their_setting() -> None:
    plan, found = Plan(preset="smoke"), experiment("figure2-pendulum-grid")

    def labels(**choice: Any) -> set[str]:
        return {t.label for t in Selection(**choice).trials(found, plan)}

    assert names("NOPG-D (paper), PWIS,") == ["NOPG-D (paper)", "PWIS"]
    assert labels(methods=["NOPG-D"]) == {"paper", "paper with floor", "NOPG"}
    assert labels(methods=["NOPG"]) == {"NOPG"}
    assert labels(methods=["NOPG-S (paper)", "DDPG offline"]) == {
        "paper, stochastic policy",
        "DDPG offline",
    }
    assert labels(methods=["learn"]) == {"learn"}
    assert labels(settings=["paper"]) == {"paper", "paper, stochastic policy"}
    with pytest.raises(ConfigError, match=r"--settings.*paper, paper-floor, got best"):
        Selection(settings=["best"]).require_known([found], plan)


def pair() -> tuple[list[Experiment], list[Trial]]:
    """Two experiments that ask for the same trial, and one of them for another."""
    ran: list[Trial] = []

    def run(trial: Trial) -> dict[str, Any]:
        ran.append(trial)
        return {"last": float(trial.size)}

    def made(name: str, sizes: tuple[int, ...]) -> Experiment:
        def trials(plan: Plan) -> list[Trial]:
            of = {"experiment": name, "task": "t", "method": "IQL", "seed": 0}
            return [Trial(size=size, **of) for size in sizes]  # type: ignore[arg-type]

        return Experiment(name=name, title=name, trials=trials, runner_of=lambda trial: run)

    both = ("figure2-cart-pole", "comparison-offline")
    return [made(both[0], (1,)), made(both[1], (1, 2))], ran


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Experiment], list[Trial]]:
    found, ran = pair()
    by_name = {each.name: each for each in found}
    monkeypatch.setattr(runner, "find", by_name.__getitem__)
    monkeypatch.setattr(runner, "_require_extras", lambda trials: None)
    return found, ran


def test_what_two_experiments_share_is_run_once(
    tmp_path: Path, shared: tuple[list[Experiment], list[Trial]]
) -> None:
    found, ran = shared
    outcomes = list(reproduce_each(found, Plan(), out=tmp_path, progress=False))
    assert [trial.size for trial in ran] in ([1, 2], [2, 1])
    results = {
        o.experiment.name: {r.trial.size: r.result["last"] for r in o.records} for o in outcomes
    }
    assert results == {"figure2-cart-pole": {1: 1.0}, "comparison-offline": {1: 1.0, 2: 2.0}}
    assert all(r.trial.experiment == o.experiment.name for o in outcomes for r in o.records)


def test_a_result_of_another_experiment_is_taken_over_with_where_it_comes_from(
    tmp_path: Path, shared: tuple[list[Experiment], list[Trial]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, two), ran = shared
    first = reproduce(one, Plan(), out=tmp_path, progress=False, command="first")
    other = reproduce(two, Plan(), out=tmp_path, progress=False, command="second")
    assert [trial.size for trial in ran] == [1, 2]
    commands = {r.trial.size: other.summary["runs"][r.run]["command"] for r in other.records}
    assert commands == {1: "first", 2: "second"}
    assert other.records[0].code == first.records[0].code
    # Results of other code are not the same work.
    monkeypatch.setattr(Experiment, "code", lambda self, trial: "othercode")
    reproduce(two, Plan(), out=tmp_path, progress=False, redo=True)
    assert [trial.size for trial in ran][2:] in ([1, 2], [2, 1])
