"""The clone of the best episodes: which they are, and when it is kept."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch

import nopg
from nopg.algorithms.build import action_space_of, build_policy
from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.search import candidates as candidates_module
from nopg.algorithms.search import refinement, selection
from nopg.algorithms.search.candidates import FoundPolicy
from nopg.algorithms.search.distillation import distil
from nopg.algorithms.search.planning import DistillationTargets
from nopg.algorithms.search.selection import HIDDEN, Floor, Selection, explained_share, ranked
from nopg.dynamics.ensemble import fit_ensemble
from nopg.evaluation.model import ModelEvaluator, Returns, mean_and_spread
from nopg.fitted.history import CLONING, PLANNING, CandidateMethod
from nopg.policies.arrays import actor_of
from nopg.policies.families import Policy
from nopg.randomness import Seed

GAMMA = 0.9
pytestmark = pytest.mark.filterwarnings("ignore:Predictions along the learned")


def log(gains: list[float], n_steps: int = 30) -> nopg.Dataset:
    """A point at s' = s + 0.2 a, to be brought to 0, an episode for each gain."""
    rng, rows = np.random.default_rng(0), []
    for episode, gain in enumerate(gains):
        s = rng.uniform(0.5, 1.0)
        for _ in range(n_steps):
            a = np.clip(-gain * s + 0.1 * rng.standard_normal(), -1.0, 1.0)
            rows.append((s, a, -(s**2), s + 0.2 * a, episode))
            s = s + 0.2 * a
    s, a, r, after, episodes = np.array(rows).T
    ends = np.zeros(len(s), dtype=bool)
    columns = (s[:, None], a[:, None], r, after[:, None], ends)
    return nopg.Dataset(*columns, episodes=episodes.astype(np.int64))


def fresh(data: nopg.Dataset) -> Policy:
    config = NOPG(policy="deterministic", gamma=GAMMA).config
    return build_policy(config, data, action_space_of(data, None))[0]


def taught(data: nopg.Dataset, gain: float) -> Policy:
    policy, states = fresh(data), np.linspace(-1.2, 1.2, 100)[:, None]
    wanted = np.clip(-gain * states, -1.0, 1.0)
    distil(policy, DistillationTargets(states, wanted, np.ones(100), 1))
    return policy


def floor_of(data: nopg.Dataset) -> Floor | None:
    config = NOPG(policy="deterministic", gamma=GAMMA, hidden=HIDDEN).config
    wide = build_policy(config, data, action_space_of(data, None))
    return Floor.of(data, *wide, GAMMA)


def test_the_clone_does_what_the_best_episodes_did() -> None:
    data = log([2.0, 2.0, -0.1, 2.0])
    floor = floor_of(data)
    assert floor is not None
    assert floor.best.episodes is not None
    assert set(floor.best.episodes) == {0, 1, 3}
    states = np.linspace(-0.1, 0.4, 20)[:, None]
    assert actor_of(floor.clone).act(states) == pytest.approx(-2.0 * states, abs=0.12)


def test_a_recording_that_stopped_early_is_not_ranked() -> None:
    """A reward of 1 a step: two steps to an end, six recorded, two recorded."""
    ends = np.zeros(10, dtype=bool)
    ends[1] = True
    s = np.arange(10.0)[:, None]
    data = nopg.Dataset(s, s, np.ones(10), s + 1, ends)
    runs = [np.arange(2), np.arange(2, 8), np.arange(8, 10)]
    found = ranked(data, runs, 0.5, 3)
    assert [earned for earned, _ in found] == [1.5, 1.75]
    assert [len(run) for _, run in found] == [2, 6]


def test_only_deliberate_actions_are_explained_by_other_episodes() -> None:
    data, rng = log([1.0, 1.2, 0.8, 1.0]), np.random.default_rng(0)
    assert data.episodes is not None
    runs = [np.nonzero(data.episodes == i)[0] for i in range(4)]
    assert explained_share(data, runs) > 0.5
    held = np.repeat(rng.uniform(-1.0, 1.0, (24, 1)), 5, axis=0)
    random = replace(data, actions=held)
    assert explained_share(random, runs) < 0.2
    assert floor_of(random) is None


@pytest.mark.parametrize(("gain", "is_kept"), [(0.3, False), (4.0, True)])
def test_beside_an_expert_only_the_better_is_kept(gain: float, is_kept: bool) -> None:
    data = log([1.0, 1.0, 0.9, 1.1])
    floor = floor_of(data)
    assert floor is not None
    models = fit_ensemble(data, np.random.default_rng(0))
    evaluator = ModelEvaluator(data, GAMMA, Seed(0), models)
    starts = data.first_states()
    beaten, worse = floor.is_beaten(evaluator, taught(data, gain), starts)
    assert beaten == is_kept
    assert (worse < 0.05) == is_kept


class LostClone(NamedTuple):
    """A clone that leaves the data, and a policy to be held against it."""

    floor: Floor
    ours: Policy
    evaluator: ModelEvaluator
    starts: Any
    expected: Returns  # of that policy


@pytest.fixture(scope="module")
def lost() -> LostClone:
    data = log([1.0, 1.0, 0.9, 1.1])
    floor, ours, away = floor_of(data), taught(data, 0.0), taught(data, -1.0)
    assert floor is not None
    models = fit_ensemble(data, np.random.default_rng(0))
    evaluator = ModelEvaluator(data, floor.gamma, Seed(0), models)
    starts = data.first_states()
    lengths = np.full(len(starts), float(floor.n_steps))
    assert evaluator.mean_return(actor_of(away), starts, lengths).unknown > 0.3
    expected = evaluator.mean_return(actor_of(ours), starts, lengths)
    return LostClone(replace(floor, clone=away), ours, evaluator, starts, expected)


@pytest.mark.parametrize(("more", "is_kept"), [(-1.0, True), (1.0, False)])
def test_where_models_cannot_follow_the_clone_its_episodes_are_the_floor(
    lost: LostClone, more: float, is_kept: bool
) -> None:
    """The clone leaves the data; what the episodes earned is known all the same."""
    floor = replace(lost.floor, earned=float(lost.expected.runs.mean()) + more)
    assert floor.is_beaten(lost.evaluator, lost.ours, lost.starts)[0] == is_kept


def test_a_clone_that_loses_its_way_needs_no_certainty_to_be_beaten(lost: LostClone) -> None:
    """Probably better than the episodes is enough only where the clone leaves the data."""
    drawn = lost.expected.deviations
    about = lost.expected._replace(deviations=drawn - drawn.mean(axis=0))
    mean, spread = mean_and_spread(about, lost.evaluator.scale)
    mean = mean + drawn.mean(axis=0)
    (likely,), _ = replace(spread, left_out=None).ends(mean, 0.7)  # 15% below
    floor = replace(lost.floor, earned=float(likely))
    beaten, worse = floor.is_beaten(lost.evaluator, lost.ours, lost.starts)
    assert beaten
    assert worse == pytest.approx(0.15, abs=0.02)
    known = replace(floor, clone=lost.ours)
    assert not known.is_beaten(lost.evaluator, lost.ours, lost.starts)[0]


@pytest.fixture
def bad_search() -> Iterator[pytest.MonkeyPatch]:
    """A search that finds nothing but a policy that pushes away from 0."""

    def away(*arguments: Any) -> Iterator[tuple[FoundPolicy, Any]]:
        _, data, policy, _, _, estimated, _ = arguments
        assert isinstance(data, nopg.Dataset)
        assert isinstance(policy, torch.nn.Module)
        found = FoundPolicy(CandidateMethod(PLANNING), taught(data, -1.0))
        yield found, estimated(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates_module, "planned_candidates", away)
        patch.setattr(candidates_module, "ascent_candidates", lambda *_: iter(()))
        yield patch


def test_a_search_that_finds_nothing_leaves_the_clone(
    bad_search: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"gamma": GAMMA, "n_refining": 0, "progress": False}
    data = log([1.0, 1.0, 0.9, 1.1])
    policy = nopg.learn(data, history=0, **options)
    assert policy.search is not None
    kept = policy.search.candidates[policy.search.chosen]
    assert kept.method == CandidateMethod(CLONING)
    assert float(policy.predict([0.5])[0][0]) == pytest.approx(-0.5, abs=0.1)
    # Among candidates that the models cannot tell from the clone it stays.
    rows = replace(data, episodes=None)
    found = nopg.learn(rows, data.first_states(), history=0, **options)
    assert found.search is not None
    assert [one.method.kind for one in found.search.candidates] == [PLANNING]


@pytest.mark.parametrize("case", ["at once", "one", "still"])
def test_few_episodes_and_still_columns_do_no_harm(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = log([1.0, 1.0])
    if case == "at once":
        data = replace(data, episodes=np.arange(len(data)))
    elif case == "one":
        data = data.subset(data.episodes == 0)
    else:
        zeros = np.zeros((len(data), 1))
        data = nopg.Dataset(
            np.hstack([data.observations, zeros]),
            np.hstack([data.actions, zeros + 0.3]),
            data.rewards,
            np.hstack([data.next_observations, zeros]),
            data.terminations,
            episodes=data.episodes,
        )
    with caplog.at_level(logging.INFO):
        floor = floor_of(data)
    if case == "still":
        assert floor is not None
        states = np.array([[0.5, 0.0]])
        assert np.isfinite(actor_of(floor.clone).act(states)).all()
    else:
        assert floor is None
        assert "takes two episodes of several rows" in caplog.text


@pytest.mark.parametrize(("start", "is_near"), [(0.1, True), (1.0, False)])
def test_plans_that_earn_nearly_all_are_refined_at_once(start: float, is_near: bool) -> None:
    """Of 1 - s^2 a step: from 0.1 hardly anything is lost, from 1 much."""
    data = log([3.0, 0.5, 1.0])
    data = replace(data, rewards=1.0 + data.rewards)
    models = fit_ensemble(data, np.random.default_rng(0))
    selection = Selection(models, np.array([[start]]), GAMMA)
    for gain in (0.5, 0.4):
        selection.add(FoundPolicy(CandidateMethod(PLANNING), taught(data, gain)))
    before = [copy.deepcopy(one.policy.state_dict()) for one in selection.found]
    told: list[str] = []
    assert not selection.refined_is_optimal(1, 20, told.append)  # a way to go costs something
    changed = [
        any(not torch.equal(old[k], v) for k, v in one.policy.state_dict().items())
        for old, one in zip(before, selection.found, strict=True)
    ]
    assert changed == [is_near, False]  # the first one alone
    assert bool(told) == is_near


def test_refined_plans_that_earn_all_there_is_end_the_search() -> None:
    data = log([3.0, 0.5, 1.0])
    data = replace(data, rewards=np.where(np.abs(data.observations[:, 0]) < 2.0, 1.0, 0.0))
    models = fit_ensemble(data, np.random.default_rng(0))
    selection = Selection(models, np.array([[0.3]]), GAMMA)
    selection.add(FoundPolicy(CandidateMethod(PLANNING), taught(data, 1.0)))
    assert selection.refined_is_optimal(1, 5, lambda text: None)
    assert not selection.refined_is_optimal(1, 0, lambda text: None)  # nothing is refined


def test_what_was_best_as_it_was_found_is_estimated_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refined from a few starts, others may be better from these alone."""
    data = log([1.0, 2.0, 3.0, 0.5])
    models, starts = fit_ensemble(data, Seed(0).numpy("models")), np.linspace(0.2, 1.0, 8)[:, None]
    selection = Selection(models, starts, GAMMA)
    for gain in (0.1, 0.2, 0.3, 0.4, 2.0):
        selection.add(FoundPolicy(CandidateMethod(PLANNING), taught(data, gain)))
    first = [one.first.value for one in selection.candidates]
    assert max(first) == first[-1]

    def refine(models: Any, policies: Any, *rest: Any) -> list[float]:
        return [0.0, 0.0, 0.0, -5.0, -5.0]  # so they say

    monkeypatch.setattr(refinement, "refine", refine)
    selection.refine_all(10, lambda text: None)
    assert [one.refined is not None for one in selection.candidates] == [True] * 3 + [False, True]
    assert selection.choose().chosen == 4


@pytest.mark.parametrize(("drawn", "is_better"), [((20.0, 60.0), True), ((-45.0, -5.0), False)])
def test_drawn_models_that_agree_are_believed(drawn: tuple[float, float], is_better: bool) -> None:
    """What two models say is meant to be amid what drawn ones say, and these may be beyond it."""
    evaluator = cast(ModelEvaluator, SimpleNamespace(scale=1.0))
    deviations, none = np.linspace(*drawn, 16)[:, None], np.zeros((0, 1))
    found = Returns(np.full((4, 1), 30.0), deviations, none, none, np.zeros((3, 1)), 0.0)
    about = found._replace(deviations=deviations - deviations.mean())
    worse, usual = (selection._probability_below(one, evaluator, 0.0) for one in (found, about))
    assert (worse < 0.01) if is_better else (worse > 0.2)
    assert (worse < usual) == is_better
