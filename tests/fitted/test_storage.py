"""A model file: one file, the same answers, no trust in what it says."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import nopg
from nopg.algorithms.search.refinement import ModelEstimate
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.fitted.search_result import PLANS, Candidate, Search, Way

DATA = grid_dataset(6, 6)
GIVEN = nopg.Bandwidths([0.5, 0.5, 2.0], [2.0])


def fitted(**settings: Any) -> nopg.NOPG:
    model = nopg.NOPG(**({"bandwidths": GIVEN} | settings))
    model.fit(DATA, BOTTOM, n_updates=3, progress=False)
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "run.nopg"
    fitted().save(path)
    return path


@pytest.mark.parametrize("policy", ["deterministic", "stochastic"])
def test_round_trip_gives_the_same_answers(policy: str, tmp_path: Path) -> None:
    model = fitted(policy=policy, next_state_samples=2, policy_samples=3)
    model.save(tmp_path / "run.nopg")
    again = nopg.load(tmp_path / "run.nopg")
    states = DATA.observations[:9]
    assert np.array_equal(model.predict(states)[0], again.predict(states)[0])
    assert float(again.objective()) == float(model.objective())
    assert np.array_equal(again.value(states), model.value(states))
    assert again.config == model.config
    assert again.action_space == model.action_space
    assert again.bandwidths == model.bandwidths


def test_a_search_is_kept_with_its_model(tmp_path: Path) -> None:
    model = fitted()
    first, last = ModelEstimate(-3.5, 0.25), ModelEstimate(-2.5, 0.5)
    tried = [Candidate(Way("climbed"), first), Candidate(PLANS[-1], first, last)]
    model.search = Search(tried, 1)
    model.save(tmp_path / "run.nopg")
    found = nopg.load(tmp_path / "run.nopg").search
    assert found == model.search
    assert str(found) == str(model.search)
    fitted().save(tmp_path / "plain.nopg")
    assert nopg.load(tmp_path / "plain.nopg").search is None


@pytest.mark.parametrize(
    "search",
    [[], {"candidates": [], "chosen": 0}, {"candidates": [{}], "chosen": 0}, "x"],
)
def test_a_damaged_search_is_refused(saved: Path, tmp_path: Path, search: Any) -> None:
    path = rewritten(saved, tmp_path, search=search)
    with pytest.raises(nopg.PolicyFileError, match="complete nopg model"):
        nopg.load(path)


def rewritten(saved: Path, folder: Path, **fields: Any) -> Path:
    """A copy of the model file whose description says something else."""
    with safe_open(saved, framework="pt") as stream:
        about = json.loads(stream.metadata()["nopg"]) | fields
    save_file(load_file(saved), folder / "b.nopg", {"nopg": json.dumps(about)})
    return folder / "b.nopg"


def test_discrete_round_trip(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    data = nopg.Dataset(x, rng.integers(0, 3, 30), x[:, 0], x, np.zeros(30))
    model = nopg.NOPG("discrete")
    model.fit(data, x[:2], n_updates=2, progress=False)
    model.save(tmp_path / "run.nopg")
    again = nopg.load(tmp_path / "run.nopg")
    assert np.array_equal(model.predict(x)[0], again.predict(x)[0])
    assert float(again.objective()) == float(model.objective())


def test_without_data_only_predict_works(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "small.nopg", include_data=False)
    again = nopg.load(tmp_path / "small.nopg")
    assert np.array_equal(model.predict(BOTTOM)[0], again.predict(BOTTOM)[0])
    with pytest.raises(nopg.NotFittedError, match="include_data"):
        again.value([BOTTOM])


def test_a_module_of_ones_own_must_be_passed_again(tmp_path: Path) -> None:
    model = fitted(policy=torch.nn.Linear(3, 1))
    model.save(tmp_path / "own.nopg")
    with pytest.raises(nopg.PolicyFileError, match="policy=YourModule"):
        nopg.load(tmp_path / "own.nopg")
    again = nopg.load(tmp_path / "own.nopg", policy=torch.nn.Linear(3, 1))
    assert np.array_equal(model.predict(BOTTOM)[0], again.predict(BOTTOM)[0])
    with pytest.raises(nopg.PolicyFileError):
        nopg.load(tmp_path / "own.nopg", policy=torch.nn.Linear(4, 1))


def test_saving_replaces_whole_files_and_leaves_nothing_behind(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "run.nopg")
    model.save(tmp_path / "run.nopg")
    assert [file.name for file in tmp_path.iterdir()] == ["run.nopg"]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(nopg.NopgError, match="writable"):
        model.save(tmp_path / "file" / "run.nopg")


def test_foreign_and_damaged_files_are_refused(saved: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (open, (str(tmp_path / "executed"), "w"))

    foreign = tmp_path / "foreign"
    for content in (b"", b"hello", pickle.dumps(Trap()), saved.read_bytes()[:-50]):
        foreign.write_bytes(content)
        with pytest.raises(nopg.PolicyFileError) as caught:
            nopg.load(foreign)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "executed").exists()
    with pytest.raises(nopg.PolicyFileError, match="exist"):
        nopg.load(tmp_path / "missing.nopg")


def test_other_safetensors_and_formats_are_refused(saved: Path, tmp_path: Path) -> None:
    tensors = load_file(saved)
    for metadata in (None, {"nopg": "[]"}, {"nopg": "{"}, {"nopg": '{"format": 99}'}):
        save_file(tensors, tmp_path / "x", metadata=metadata)
        with pytest.raises(nopg.PolicyFileError):
            nopg.load(tmp_path / "x")


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    key=st.sampled_from(["config", "policy", "bandwidths", "action_space", "names"]),
    value=st.one_of(
        st.none(), st.integers(), st.text(), st.lists(st.integers()), st.just({})
    ),
)
def test_any_damaged_field_is_a_clear_error(
    saved: Path, tmp_path: Path, key: str, value: Any
) -> None:
    from safetensors import safe_open

    with safe_open(saved, framework="pt") as stream:
        about = json.loads(stream.metadata()["nopg"])
    about[key] = value
    save_file(load_file(saved), tmp_path / "x", metadata={"nopg": json.dumps(about)})
    with pytest.raises(nopg.NopgError) as caught:
        nopg.load(tmp_path / "x")
    assert "\n" not in str(caught.value)
