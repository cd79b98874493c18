"""A policy file: one file, the same answers, no trust in what it says."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.data.io.metadata import space_to_json
from nopg.fitted.history import (
    ASCENT,
    PLANNING,
    Candidate,
    CandidateMethod,
    ModelEstimate,
    SearchResult,
)
from nopg.fitted.storage import policy_digest

DATA = grid_dataset(6, 6)
GIVEN = nopg.Bandwidths([0.5, 0.5, 2.0], [2.0])


def fitted(**settings: Any) -> nopg.FittedPolicy:
    quick: dict[str, Any] = {"bandwidths": GIVEN, "search_start": False}
    model = nopg.NOPG(**(quick | settings))
    return model.fit(DATA, BOTTOM, n_updates=3, progress=False)


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
    ours, theirs = (x.kernel.expected_return(0.95) for x in (model, again))
    for name in ("value", "low", "high"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
    assert np.array_equal(again.value(states), model.value(states))
    assert again.estimator == model.estimator
    assert again.settings == {**model.settings, "hidden": [50]}
    assert again.action_space == model.action_space
    assert again.bandwidths == model.bandwidths


def test_a_search_is_kept_with_its_model(tmp_path: Path) -> None:
    model = fitted()
    first, last = ModelEstimate(-3.5, 0.25), ModelEstimate(-2.5, 0.5)
    planned = CandidateMethod(PLANNING, True, 8)
    ascent = Candidate(CandidateMethod(ASCENT), first)
    model.search = SearchResult([ascent, Candidate(planned, first, last)], 1)
    model.save(tmp_path / "run.nopg")
    found = nopg.load(tmp_path / "run.nopg").search
    assert found == model.search
    assert str(found) == str(model.search)
    fitted().save(tmp_path / "plain.nopg")
    assert nopg.load(tmp_path / "plain.nopg").search is None


@pytest.mark.parametrize(
    "search", [[], {"candidates": [], "chosen": 0}, {"candidates": [{}], "chosen": 0}, "x"]
)
def test_a_damaged_search_is_refused(saved: Path, tmp_path: Path, search: Any) -> None:
    path = rewritten(saved, tmp_path, search=search)
    with pytest.raises(nopg.PolicyFileError, match="complete nopg policy"):
        nopg.load(path)


def rewritten(saved: Path, folder: Path, **fields: Any) -> Path:
    """A copy of the policy file whose description says something else."""
    with safe_open(saved, framework="pt") as stream:
        about = json.loads(stream.metadata()["nopg"]) | fields
    tensors = load_file(saved)
    about["digest"] = policy_digest(about, tensors)
    save_file(tensors, folder / "b.nopg", {"nopg": json.dumps(about)})
    return folder / "b.nopg"


def test_a_file_that_names_no_rows_is_refused(saved: Path, tmp_path: Path) -> None:
    """What is missing is not made up."""
    old = {k: v for k, v in asdict(nopg.load(saved).estimator).items() if k != "rows"}
    with pytest.raises(nopg.PolicyFileError, match="lacks rows"):
        nopg.load(rewritten(saved, tmp_path, estimator=old))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bandwidths", {"state": ["0.5"], "action": ["2.0"], "next_state": ["0.5"]}),
        ("action_space", space_to_json(Discrete(3))),
        ("action_space", space_to_json(Box(-2.0, 2.0, (2,), dtype=np.float64))),
        ("action_space", space_to_json(Box(-np.inf, np.inf, (1,), dtype=np.float64))),
    ],
)
def test_parts_that_contradict_each_other_are_refused(
    saved: Path, tmp_path: Path, field: str, value: Any
) -> None:
    with pytest.raises(nopg.PolicyFileError, match="must be a complete nopg policy"):
        nopg.load(rewritten(saved, tmp_path, **{field: value}))


def test_what_was_altered_does_not_load_as_something_else(saved: Path, tmp_path: Path) -> None:
    """Any flipped bit, also of a number, where nothing else would notice."""
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    for place in [len(content) - 3, *rng.integers(8, len(content), 40)]:
        altered = bytearray(content)
        altered[place] ^= 1
        (tmp_path / "altered.nopg").write_bytes(altered)
        with pytest.raises(nopg.PolicyFileError):
            nopg.load(tmp_path / "altered.nopg")


def test_discrete_round_trip(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    data = nopg.Dataset(x, rng.integers(0, 3, 30), x[:, 0], x, np.zeros(30))
    model = nopg.NOPG("discrete").fit(data, x[:2], n_updates=2, progress=False)
    model.save(tmp_path / "run.nopg")
    again = nopg.load(tmp_path / "run.nopg")
    assert np.array_equal(model.predict(x)[0], again.predict(x)[0])
    ours, theirs = (x.kernel.expected_return(0.95) for x in (model, again))
    for name in ("value", "low", "high"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))


def test_spaces_notes_and_labels_nobody_chose_survive(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    data = nopg.Dataset(
        x,
        rng.integers(0, 2, 30),
        x[:, 0],
        x,
        np.zeros(30),
        observation_names=["level", "flow"],
        observation_space=Box(-9.0, 9.0, (2,), dtype=np.float64),
        action_space=Discrete(3),
        notes=("Rows were drawn.",),
    )
    policy = nopg.NOPG("discrete").fit(data, x[:2], n_updates=2, progress=False)
    policy.save(tmp_path / "run.nopg")
    again = nopg.load(tmp_path / "run.nopg")
    assert again.data is not None
    assert again.expected_return() == policy.expected_return()
    assert again.action_space == again.data.action_space == Discrete(3)
    assert again.data.n_actions == 3
    assert again.observation_space == again.data.observation_space
    assert again.data.observation_space == data.observation_space
    assert again.observation_names == ("level", "flow")
    assert again.data.notes == data.notes
    policy.save(tmp_path / "small.nopg", include_data=False)
    small = nopg.load(tmp_path / "small.nopg")
    assert small.observation_space == data.observation_space
    assert small.observation_names == ("level", "flow")
    with pytest.raises(nopg.DataError, match=r"2 numbers \(level, flow\)"):
        small.predict([0.0])


def test_bandwidths_of_a_search_are_chosen_when_needed(tmp_path: Path) -> None:
    policy = nopg.learn(DATA, BOTTOM, n_updates=1, n_refining=0, progress=False)
    policy.save(tmp_path / "open.nopg")
    expected = policy.expected_return()
    assert expected.by == "model"
    policy.save(tmp_path / "chosen.nopg")
    for name in ("open.nopg", "chosen.nopg"):
        again = nopg.load(tmp_path / name)
        assert again.algorithm == "learn"
        assert again.bandwidths == policy.bandwidths
        assert again.expected_return() == expected


def test_parameters_that_are_not_finite_are_refused(saved: Path, tmp_path: Path) -> None:
    with safe_open(saved, framework="pt") as stream:
        about = json.loads(stream.metadata()["nopg"])
    tensors = load_file(saved)
    name = next(name for name in tensors if name.startswith("policy/network"))
    tensors[name][0] = float("nan")
    about["digest"] = policy_digest(about, tensors)
    save_file(tensors, tmp_path / "nan.nopg", {"nopg": json.dumps(about)})
    with pytest.raises(nopg.PolicyFileError, match="finite parameters"):
        nopg.load(tmp_path / "nan.nopg")


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


def test_folders_and_pipes_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(nopg.PolicyFileError, match="no ordinary file"):
            nopg.load(path)


def test_other_safetensors_and_formats_are_refused(saved: Path, tmp_path: Path) -> None:
    tensors = load_file(saved)
    for metadata in (None, {"nopg": "[]"}, {"nopg": "{"}, {"nopg": '{"format": 99}'}):
        save_file(tensors, tmp_path / "x", metadata=metadata)
        with pytest.raises(nopg.PolicyFileError):
            nopg.load(tmp_path / "x")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    key=st.sampled_from(["estimator", "policy", "action_space", "data", "search"]),
    value=st.one_of(st.integers(), st.text(), st.lists(st.integers()), st.just({})),
)
def test_any_damaged_field_is_a_clear_error(
    saved: Path, tmp_path: Path, key: str, value: Any
) -> None:
    with pytest.raises(nopg.NopgError) as caught:
        nopg.load(rewritten(saved, tmp_path, **{key: value}))
    assert "\n" not in str(caught.value)


def test_the_sample_time_is_kept(tmp_path: Path) -> None:
    states = np.random.default_rng(0).normal(size=(20, 1))
    data = nopg.Dataset(states, states, states[:, 0], states, np.zeros(20), sample_time=0.25)
    policy = nopg.NOPG(hidden=(4,), search_start=False).prepare(data, [[0.0]])
    policy.save(tmp_path / "p.nopg")
    again = nopg.load(tmp_path / "p.nopg").data
    assert again is not None
    assert again.sample_time == 0.25


def test_a_file_written_over_does_not_change_what_was_loaded(saved: Path, tmp_path: Path) -> None:
    """Tensors were views of the file: another program's write reached into them."""
    path = tmp_path / "run.nopg"
    path.write_bytes(saved.read_bytes())
    policy = nopg.load(path)
    before = policy.require_data().observations.copy()
    with path.open("r+b") as stream:  # in place, as cp does
        stream.write(bytes(path.stat().st_size))
    np.testing.assert_array_equal(policy.require_data().observations, before)


def test_widths_that_the_file_does_not_hold_reserve_nothing(saved: Path, tmp_path: Path) -> None:
    """5 KB that were 2.4 GB: the network was built before it was compared."""
    found = fitted().spec
    assert found is not None
    spec = asdict(found) | {"hidden": [10**8]}
    path = rewritten(saved, tmp_path, policy=spec)
    with pytest.raises(nopg.PolicyFileError, match="must have 400,000,000 weights"):
        nopg.load(path)


@pytest.mark.parametrize("name", [",", "100000000f8", "f8,f8", "O", "float128x"])
def test_spaces_are_of_plain_numbers(saved: Path, tmp_path: Path, name: str) -> None:
    space = space_to_json(Box(-2.0, 2.0, (1,), dtype=np.float64))
    path = rewritten(saved, tmp_path, action_space={**(space or {}), "dtype": name})
    with pytest.raises(nopg.errors.NopgError, match="no dtype of numbers"):
        nopg.load(path)
