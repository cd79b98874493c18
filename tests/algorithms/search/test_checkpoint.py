"""A search that is killed goes on to the same bits; earlier policies are a start."""

import copy
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reproduction.envs.pendulum import Pendulum, pendulum_grid

import nopg
from nopg.algorithms.search import checkpoint as checkpoint_module
from nopg.algorithms.search.checkpoint import SearchCheckpoint
from nopg.algorithms.search.learn import learn
from nopg.data.files import write_atomically
from nopg.errors import RunError

pytestmark = pytest.mark.filterwarnings("ignore:Predictions along the learned")

BOTTOM = np.array([[-1.0, 0.0, 0.0]])
SHORT: dict[str, Any] = {"n_updates": 3, "n_refining": 12, "gamma": 0.9, "progress": False}


def pendulum_data(side: int) -> nopg.Dataset:
    rows = pendulum_grid(side, side, 2)
    return nopg.Dataset(*rows[:5], action_space=Pendulum().action_space)


class Killed(BaseException):
    """As sudden as kill -9 can be within a process."""


def bits(policy: nopg.FittedPolicy) -> list[np.ndarray]:
    return [p.detach().numpy().copy() for p in policy.policy.parameters()]


def test_killed_after_any_write_it_goes_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, path = pendulum_data(4), tmp_path / "search.checkpoint"
    whole = learn(data, BOTTOM, **SHORT)
    write, writes = write_atomically, 0

    def counted(*given: Any) -> None:
        nonlocal writes
        write(*given)
        writes += 1
        raise Killed

    monkeypatch.setattr(checkpoint_module, "write_atomically", counted)
    for _ in range(30):
        try:
            resumed = learn(data, BOTTOM, **SHORT, checkpoint=path)
            break
        except Killed:
            assert path.exists()
    assert writes == 5 + 1 + 2  # plans, both ascents at once, refinement at 5 and 10
    assert not path.exists()
    assert all(map(np.array_equal, bits(whole), bits(resumed)))
    assert whole.search == resumed.search


@pytest.mark.parametrize("what", ["data", "initial states", "settings"])
def test_the_checkpoint_of_another_search_is_refused(what: str, tmp_path: Path) -> None:
    path, data = tmp_path / "search.checkpoint", pendulum_data(4)
    SearchCheckpoint(path, data, BOTTOM, {"gamma": 0.9}).add()
    others: dict[str, Any] = {"data": data, "starts": BOTTOM, "settings": {"gamma": 0.9}}
    every: dict[str, dict[str, Any]] = {
        "data": {"data": pendulum_data(5)},
        "initial states": {"starts": 2.0 * BOTTOM},
        "settings": {"settings": {"gamma": 0.8}},
    }
    with pytest.raises(RunError, match=f"it has other {what};"):
        SearchCheckpoint(path, **(others | every[what]))


def test_a_damaged_checkpoint_is_said_in_one_sentence(tmp_path: Path) -> None:
    path, data = tmp_path / "search.checkpoint", pendulum_data(4)
    SearchCheckpoint(path, data, BOTTOM, {}).add()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"its checksum is wrong.*begin anew\.$"):
        SearchCheckpoint(path, data, BOTTOM, {})
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RunError, match="no ordinary file"):
        SearchCheckpoint(path, data, BOTTOM, {})


def test_more_data_start_from_the_policy_and_lose_nothing() -> None:
    first = learn(pendulum_data(4), BOTTOM, **SHORT)
    more = first.learn_more(pendulum_data(5), n_refining=5, progress=False)
    assert more.search is not None
    assert more.search.candidates[0].method.kind == "earlier policy"
    assert len(more.require_data()) == 32 + 50
    assert more.gamma == 0.9
    assert more.initial_states is not None
    assert more.initial_states.tolist() == BOTTOM.tolist()
    kept = more.search.candidates[more.search.chosen].final.value
    assert kept >= more.search.candidates[0].first.value - 1e-9
    # The models that it starts from are not those it ends with.
    assert first.models is not None
    assert more.models is not None
    assert not torch.equal(first.models[0].process.centre, more.models[0].process.centre)


def test_more_data_keep_the_past_and_the_reward() -> None:
    rng, rows = np.random.default_rng(0), []
    for episode in range(6):
        level, before = 1.0, 0.0
        for t in range(20):
            push = float(rng.uniform(-1.0, 1.0))
            after = 0.9 * level + 0.5 * before
            rows.append(([level], [push], -level * level, [after], t == 19, episode))
            level, before = after, push
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    never = np.zeros(len(rows), dtype=bool)
    names = ("observations", "actions", "rewards", "next_observations")
    given: dict[str, Any] = dict(zip(names, columns, strict=False))
    given |= {"terminations": never, "truncations": columns[4], "episodes": columns[5]}
    data = nopg.Dataset(**given)

    def reward(s: torch.Tensor, a: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        return -s[:, 0].square()

    first = learn(data, **SHORT, history=1, reward=reward)
    more = first.learn_more(data, progress=False)
    assert first.memory == more.memory
    assert more.models is not None
    assert more.models[0].known_reward is not None
    assert len(more.require_data()) == 240


def test_what_learn_did_not_find_is_refused() -> None:
    fitted = nopg.NOPG(gamma=0.9).fit(pendulum_data(4), BOTTOM, n_updates=1, progress=False)
    with pytest.raises(nopg.ConfigError, match=r"a policy of nopg\.learn"):
        fitted.learn_more(pendulum_data(4))


def test_a_learned_policy_is_copied_and_pickled_also_after_it_was_asked() -> None:
    fitted = learn(pendulum_data(4), BOTTOM, **SHORT)
    fitted.expected_return(interval=0.95)
    fitted.expected_return(by="kernel")
    for copied in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert copied.predict(BOTTOM)[0] == fitted.predict(BOTTOM)[0]
        for by in ("model", "kernel"):
            there, here = (p.expected_return(by=by).value for p in (copied, fitted))
            assert there == here


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"start": "x"}, r"must be a policy that nopg.learn found, got a str"),
        ({"checkpoint": 3}, r"must be the path of a file, got a int"),
    ],
)
def test_odd_arguments_are_said_in_one_sentence(given: Any, sentence: str) -> None:
    with pytest.raises(nopg.ConfigError, match=sentence):
        learn(pendulum_data(4), BOTTOM, **SHORT, **given)


def test_a_start_or_more_data_of_other_columns_are_refused() -> None:
    fitted = learn(pendulum_data(4), BOTTOM, **SHORT, hidden=(7,))
    other = replace(pendulum_data(4), observation_names=("x", "y", "z"))
    with pytest.raises(nopg.DataError, match=r"must act on the columns x, y, z"):
        learn(other, BOTTOM, **SHORT, start=fitted)
    with pytest.raises(nopg.DataError, match=r"New data must be a nopg.Dataset"):
        fitted.learn_more([1, 2])  # type: ignore[arg-type]
    assert fitted.learn_more(pendulum_data(4), progress=False).settings["hidden"] == (7,)


def test_killed_after_its_trajectories_it_goes_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    s, a = rng.normal(size=(60, 5)), rng.uniform(-1.0, 1.0, (60, 1))
    after = np.tanh(0.9 * s + 0.2 * a * np.cos(s))
    rewards = -np.square(after - np.linspace(-0.6, 0.6, 5)).sum(axis=1) - a[:, 0] ** 2
    data = nopg.Dataset(s, a, rewards, after, np.zeros(60, dtype=bool))
    start, path = [[0.5] * 5], tmp_path / "search.checkpoint"
    whole = learn(data, start, **SHORT)
    assert whole.search is not None
    assert whole.search.candidates[-1].method.kind == "trajectory optimisation"

    def killed(self: SearchCheckpoint, *found: Any) -> None:
        add(self, *found)
        if found[-1].method.kind == "trajectory optimisation":
            raise Killed

    add = SearchCheckpoint.add
    monkeypatch.setattr(SearchCheckpoint, "add", killed)
    with pytest.raises(Killed):
        learn(data, start, checkpoint=path, **SHORT)
    monkeypatch.setattr(SearchCheckpoint, "add", add)
    resumed = learn(data, start, checkpoint=path, **SHORT)
    for found, expected in zip(bits(resumed), bits(whole), strict=True):
        np.testing.assert_array_equal(found, expected)
