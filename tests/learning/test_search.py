"""The search: what is kept is what both models believe in, and it works."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tqdm.auto import tqdm

import nopg
from nopg.envs.pendulum import Pendulum, pendulum_grid
from nopg.envs.rollouts import rollout
from nopg.learning import search
from nopg.learning.candidates import CANDIDATES, Candidate, Kernels
from nopg.learning.refining import Opinion
from nopg.learning.search import learn

pytestmark = pytest.mark.filterwarnings("ignore:The second opinion")

BOTTOM = np.array([[-1.0, 0.0, 0.0]])


def pendulum_data(side: int) -> nopg.Dataset:
    rows = pendulum_grid(side, side, 2)
    return nopg.Dataset(*rows[:5], action_space=Pendulum().action_space)


@pytest.fixture
def few() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "CANDIDATES", CANDIDATES[1:3])
        patch.setattr(search, "N_REFINED", 1)
        yield patch


def test_the_best_in_the_second_opinion_is_kept(few: pytest.MonkeyPatch) -> None:
    data = pendulum_data(6)
    model = learn(data, BOTTOM, n_updates=8, n_refining=10, progress=False)
    found = model.search
    assert found is not None
    finals = [candidate.final.value for candidate in found.candidates]
    assert finals[found.chosen] == max(finals)
    refined = [c for c in found.candidates if c.refined is not None]
    assert len(refined) == 1
    assert refined[0].refined is not None
    assert refined[0].refined.value >= refined[0].first.value
    assert "<- kept" in str(found)
    assert model.history is not None
    assert len(model.history) == 8
    assert np.isfinite(float(model.objective()))
    assert model.predict(BOTTOM[0])[0].shape == (1,)


def test_the_same_seed_gives_the_same_bits(few: pytest.MonkeyPatch) -> None:
    data = pendulum_data(5)
    settings = {"n_updates": 4, "n_refining": 5, "progress": False, "seed": 3}
    first, second = (learn(data, BOTTOM, **settings) for _ in range(2))  # type: ignore[arg-type]
    for ours, theirs in zip(
        first.policy.parameters(), second.policy.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_labels_are_searched_too(few: pytest.MonkeyPatch) -> None:
    rows = pendulum_grid(6, 6, 2)
    labels = (rows.actions[:, 0] > 0).astype(np.int64)
    data = nopg.Dataset(rows[0], labels, *rows[2:5])
    model = learn(
        data, BOTTOM, policy="discrete", n_updates=4, n_refining=5, progress=False
    )
    assert int(model.predict(BOTTOM[0])[0]) in (0, 1)


def test_bandwidths_are_not_to_be_given() -> None:
    with pytest.raises(nopg.ConfigError, match="chooses the bandwidths itself"):
        learn(pendulum_data(4), BOTTOM, bandwidths="auto")


def test_near_sighted_candidates_look_a_third_as_far() -> None:
    near = Kernels(nopg.LeaveOneOut(), is_near_sighted=True)
    assert near.gamma(0.99) == pytest.approx(0.97)
    assert near.gamma(0.5) == 0.0
    assert Kernels(nopg.LeaveOneOut()).gamma(0.99) == 0.99


def test_a_candidate_is_judged_by_its_latest_opinion() -> None:
    first, refined = Opinion(-3.0, 0.1), Opinion(-2.0, 0.2)
    kernels = Kernels(nopg.LeaveOneOut())
    assert Candidate(kernels, -1.0, first).final is first
    assert Candidate(kernels, -1.0, first, refined).final is refined


def test_two_hundred_samples_swing_the_pendulum_up(
    few: pytest.MonkeyPatch,
) -> None:
    few.setattr(search, "CANDIDATES", (Kernels(nopg.LeaveOneOut(state_factor=1.5)),))
    model = learn(pendulum_data(10), BOTTOM, n_refining=60, progress=False)
    env = Pendulum()
    start = env.reset_states(1, np.random.default_rng(0))
    path = rollout(env, lambda s: model.predict(s)[0], start, 500)
    print(f"return {path.returns[0]:.0f}\n{model.search}")
    assert path.returns[0] > -600


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"policy": torch.nn.Linear(3, 1)}, "a policy of its own"),
        ({"dtype": "float32"}, "works on the CPU in float64"),
        ({"n_refining": -1}, "`n_refining` must be a whole number from 0"),
        ({"n_updates": 0}, "`n_updates` must be a whole number from 1"),
        ({"gamma": 1.0}, "gamma"),
        ({"colour": 1}, "There is no setting colour"),
    ],
)
def test_what_cannot_be_searched_is_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises(nopg.ConfigError, match=sentence):
        learn(pendulum_data(4), BOTTOM, **({"progress": False} | wrong))


def test_data_of_another_kind_are_refused() -> None:
    with pytest.raises(nopg.ConfigError, match=r"must be a nopg\.Dataset"):
        learn([1, 2, 3], BOTTOM, progress=False)  # type: ignore[arg-type]


def test_an_interrupt_keeps_the_candidates_so_far(
    few: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates = 0

    class Bar(tqdm):  # type: ignore[misc]
        def update(self, n: float | None = 1) -> bool | None:
            nonlocal updates
            updates += 1
            if updates == 6:  # in the second candidate
                raise KeyboardInterrupt
            return None

    monkeypatch.setattr(search, "tqdm", Bar)
    model = learn(pendulum_data(5), BOTTOM, n_updates=4, progress=False)
    assert model.search is not None
    assert len(model.search.candidates) == 2
    assert all(c.refined is None for c in model.search.candidates)


def test_an_interrupt_while_refining_keeps_the_best(
    few: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("nopg.learning.refining.imagined_gradient", interrupted)
    model = learn(pendulum_data(5), BOTTOM, n_updates=4, progress=False)
    assert np.isfinite(model.predict(BOTTOM[0])[0]).all()
