"""Every row of the front page's table is true: a test stands for each of its claims.

A claim is a phrase of the row; the test beside it is the one that fails when the claim
stops being true. Where no other test did, there is one below.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nopg
from tests.docs.pages import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
HERE = "tests/docs/test_features.py"
COVERED = {
    "Data in": {
        "arrays": "tests/data/test_dataset.py",
        "npz, CSV, Parquet, HDF5": "tests/data/io/test_round_trips.py",
        "D4RL": "tests/data/io/test_array_files.py",
        "Minari": "tests/data/io/test_minari_files.py",
        "LeRobot": "tests/data/io/test_lerobot_files.py",
        "MCAP (ROS 2 bags)": "tests/data/io/test_mcap_files.py",
        "MATLAB": "tests/data/io/test_matlab_files.py",
        "stable-baselines3 buffers, d3rlpy datasets": "tests/data/io/test_bridges.py",
        "rollouts": "tests/data/io/test_rollouts.py",
        "recorded demonstrations": "tests/record/test_demonstrations.py",
    },
    "Before learning": {
        "missing, shifted, clipped or never tried": ("tests/data/diagnostics/test_describe.py"),
        "columns, angles, rewards": "tests/data/test_transforms.py",
        "episodes": "tests/data/test_sampling.py",
    },
    "Learning": {
        "nopg.learn(data)": "tests/algorithms/search/test_learn.py",
        "nopg.NOPG": "tests/algorithms/nopg/test_fit.py",
    },
    "Policies": {
        "deterministic, Gaussian, discrete, linear": "tests/policies/test_policies.py",
        "torch.nn.Module": f"{HERE}::test_any_module_is_learned",
    },
    "Evaluation": {
        "expected return": f"{HERE}::test_both_evaluators_answer_every_question",
        "values": f"{HERE}::test_both_evaluators_answer_every_question",
        "entering a region": "tests/evaluation/test_safety.py",
        "back an action": "tests/evaluation/test_support.py",
        "nopg.SafePolicy": "tests/evaluation/test_support.py",
    },
    "The paper's estimates": {
        "V(s), visitation, J": "tests/paper/test_fixed_point.py",
        "bound on its numerical error": "tests/bellman/test_certificate.py",
        "full policy gradient": "tests/paper/test_gradient.py",
    },
    "The report": {
        "one HTML page, no network": "tests/report/test_page.py",
        "go, caution or stop": "tests/evaluation/test_verdict.py",
        "what to record next": "tests/evaluation/test_suggest.py",
        "maps": "tests/report/test_maps.py",
        "predicted paths": "tests/report/test_paths.py",
    },
    "Runs": {
        "the same bits": "tests/runs/test_resume.py",
        "TensorBoard": "tests/runs/",
        "nopg evaluate": "tests/runs/test_evaluation.py",
    },
    "Export": {
        "one C99 header or JavaScript": "tests/export/test_programs.py",
        "support guard inside": "tests/export/test_guard.py",
        "ONNX or plain numpy": "tests/export/test_export.py",
        "a contract beside it": "tests/export/test_contract.py",
    },
    "Scale": {
        "error bound": "tests/bellman/test_certificate.py",
        "Triton kernels": "tests/gpu/test_compiles.py",
        "nopg.fit_batch": "tests/algorithms/nopg/test_batch.py",
        "torchrun": "tests/distributed/test_ranks.py",
    },
    "Tasks": {
        "LQR with exact gradients": "tests/reproduction/test_lqr_exact.py",
        "swing-up pendulum": "tests/reproduction/envs/test_pendulum.py",
        "cart-pole": "tests/reproduction/envs/test_cart_pole.py",
        "mountain car": "tests/reproduction/envs/test_mountain_car.py",
    },
    "Examples": {
        "the method in one file": "tests/examples/test_from_scratch.py",
        "notebooks": "tests/examples/test_notebooks.py",
        "tutorials": "tests/docs/test_examples.py",
    },
    "The paper": {
        "every figure by one command": "tests/reproduction/test_smoke.py",
        "PWIS, DPG, DDPG, BC, TD3+BC, IQL and CQL": "tests/reproduction/baselines/",
    },
    "Documentation": {
        "make docs": "tests/docs/test_site.py",
        "every Python block runs in CI": "tests/docs/test_examples.py",
    },
}
"""Which test stands for which claim of which row."""


def rows() -> dict[str, str]:
    """The table under "What is in it", by title."""
    table = README.split("## What is in it")[1].split("\n\n**")[0]
    return dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", table, re.M))


def claims() -> Iterator[tuple[str, str, str]]:
    """Title, phrase and test."""
    for title, covered in COVERED.items():
        for phrase, test in covered.items():
            yield title, phrase, test


def test_every_row_has_a_test() -> None:
    assert len(rows()) > 10
    assert list(rows()) == list(COVERED)


@pytest.mark.parametrize(("title", "phrase", "test"), list(claims()))
def test_the_claim_is_made_and_its_test_is_there(title: str, phrase: str, test: str) -> None:
    assert phrase in rows()[title]
    path, _, name = test.partition("::")
    found = ROOT / path
    files = list(found.glob("test_*.py")) if found.is_dir() else [found]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert f"def {name or 'test_'}" in text


def test_every_name_in_the_table_exists() -> None:
    names = re.findall(r"`nopg\.(\w+)", "\n".join(rows().values()))
    assert len(names) > 3
    assert [name for name in names if not hasattr(nopg, name)] == []


def test_every_command_and_option_on_the_page_exists() -> None:
    from typer.main import get_command

    from nopg.cli.main import app

    known = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in get_command(app).commands.items()  # type: ignore[attr-defined]
    }
    typed = re.findall(r"(?:^|`)nopg ([a-z]+)([^`\n#]*)", README, re.M)
    assert len(typed) > 5
    for name, rest in typed:
        assert name in known
        assert set(re.findall(r"--[a-z-]+", rest)) <= known[name], name


def test_extras_on_the_page_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = set(project["project"]["optional-dependencies"])
    listed = README.split("\nExtras: ")[1].split("A missing one")[0]
    assert set(re.findall(r"`([a-z-]+)`", listed)) == extras


def test_links_of_the_page_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    assert len(targets) > 20
    assert [target for target in targets if not (ROOT / target).exists()] == []


def small_data() -> nopg.Dataset:
    """A point pushed about on a line, in ten episodes."""
    rng = np.random.default_rng(0)
    s = rng.uniform(-1, 1, (10, 12, 1))
    a = rng.uniform(-1, 1, (10, 12, 1))
    s, a = s.reshape(-1, 1), a.reshape(-1, 1)
    return nopg.Dataset(
        s,
        a,
        -(s[:, 0] ** 2),
        np.clip(s + 0.3 * a, -1, 1),
        np.zeros(len(s), dtype=bool),
        episodes=np.repeat(np.arange(10), 12),
    )


@pytest.fixture(scope="module")
def fitted() -> nopg.FittedPolicy:
    return nopg.NOPG(gamma=0.9).fit(small_data(), n_updates=5, progress=False)


@pytest.mark.parametrize("by", ["kernel", "model"])
def test_both_evaluators_answer_every_question(fitted: nopg.FittedPolicy, by: str) -> None:
    states = [[0.2], [0.9]]
    earned = fitted.expected_return(interval=0.95, by=by)
    assert (earned.by, earned.level) == (by, 0.95)
    assert earned.low <= earned.value <= earned.high
    assert fitted.value(states, by=by).shape == (2,)
    between = fitted.value(states, interval=0.9, by=by)
    assert (between.low <= between.value).all()
    assert (between.value <= between.high).all()
    entered = fitted.visit_probability(([0.95], [np.inf]), horizon=5, by=by)
    assert 0.0 <= entered.low <= entered.high <= 1.0
    assert fitted.rollouts(7, by=by).mean.shape == (7, 1)


def test_any_module_is_learned(tmp_path: Path) -> None:
    import torch

    class Push(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.gain * states)

    policy = nopg.NOPG(Push(), gamma=0.9, learning_rate=0.1).fit(
        small_data(), n_updates=20, progress=False
    )
    assert policy.history is not None
    rise = policy.history["objective"][-1] - policy.history["objective"][0]
    assert rise > 0.0
    policy.save(tmp_path / "push.nopg")
    again = nopg.load(tmp_path / "push.nopg", policy=Push())
    assert again.predict([0.5])[0] == policy.predict([0.5])[0]


CELLS = (
    ("pendulum-grid", 200),
    ("pendulum-random", 2000),
    ("cart-pole", 500),
    ("mountain-car", 2),
    ("mountain-car-recorded", 10),
)
"""Tasks and sizes of the front page's table, from top to bottom."""


def test_the_table_of_returns_is_that_of_the_results() -> None:
    path = ROOT / "results" / "robustness" / "standard-recorded.summary.json"
    means = {
        (row["task"], row["size"], row["label"]): row["last"][0]
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]
    }
    newest: dict[tuple[str, int, str], list[float]] = {}
    with (ROOT / "results" / "robustness" / "learn.jsonl").open() as lines:
        for one in filter(lambda row: "trial" in row, map(json.loads, lines)):
            key = (one["trial"]["task"], one["trial"]["size"], "learn")
            newest.setdefault(key, []).append(one["result"]["last"])
    means |= {key: sum(found) / len(found) for key, found in newest.items()}
    table = README.split("## Does it work?")[1].split("## What is in it")[0]
    head, _, *rows = [line for line in table.splitlines() if line.startswith("|")]
    arms = [name.strip(" `") for name in head.split("|")[3:-1]]
    assert arms == ["learn", "IQL", "NOPG", "paper"]
    for (task, size), line in zip(CELLS, rows, strict=True):
        shown = [cell.split(", ")[0] for cell in line.split("|")[3:-1]]
        expected = [f"{means[task, size, arm]:,.0f}" for arm in arms]
        assert [cell.strip(" *") for cell in shown] == expected
