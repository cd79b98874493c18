"""The search: what is kept is what both models believe in, and it works."""

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reproduction.envs.pendulum import Pendulum, pendulum_grid
from reproduction.envs.rollouts import rollout
from threadpoolctl import threadpool_info, threadpool_limits
from tqdm.auto import tqdm

import nopg
from nopg import threads
from nopg.algorithms.search import candidates as candidates_module
from nopg.algorithms.search import learn as search_module
from nopg.algorithms.search import refinement
from nopg.algorithms.search.candidates import ASCENTS, N_ROUNDS, PLANS, REPLANS
from nopg.algorithms.search.distillation import distil
from nopg.algorithms.search.learn import learn
from nopg.algorithms.search.refinement import FINAL_WEIGHT, model_estimates
from nopg.dynamics.ensemble import fit_ensemble
from nopg.fitted.history import (
    ASCENT,
    PLANNING,
    Candidate,
    CandidateMethod,
    ModelEstimate,
    SearchResult,
)
from nopg.randomness import Seed
from nopg.threads import side_by_side

pytestmark = pytest.mark.filterwarnings("ignore:Predictions along the learned")

BOTTOM = np.array([[-1.0, 0.0, 0.0]])
SHORT: dict[str, Any] = {"n_updates": 4, "n_refining": 5, "gamma": 0.9, "progress": False}


def pendulum_data(side: int) -> nopg.Dataset:
    rows = pendulum_grid(side, side, 2)
    return nopg.Dataset(*rows[:5], action_space=Pendulum().action_space)


def candidates_of(policy: nopg.FittedPolicy) -> list[Candidate]:
    assert policy.search is not None
    return policy.search.candidates


@pytest.fixture
def few() -> Iterator[pytest.MonkeyPatch]:
    """One plan, both ascents, one of them refined."""
    with pytest.MonkeyPatch.context() as patch:
        try_only(patch, plans=PLANS[:1])
        keep(patch, 1)
        yield patch


def try_only(
    patch: pytest.MonkeyPatch,
    *,
    plans: tuple[CandidateMethod, ...] | None = None,
    ascents: tuple[CandidateMethod, ...] | None = None,
) -> None:
    for name, methods in (("PLANS", plans), ("ASCENTS", ascents)):
        if methods is not None:
            patch.setattr(candidates_module, name, methods)


def keep(patch: pytest.MonkeyPatch, n_kept: int) -> None:
    patch.setattr(refinement, "N_KEPT", n_kept)


def test_the_best_in_both_models_is_kept(few: pytest.MonkeyPatch) -> None:
    keep(few, 2)
    data = pendulum_data(6)
    settings = SHORT | {"n_updates": 8, "n_refining": 10}
    model = learn(data, BOTTOM, **settings)
    candidates = candidates_of(model)
    assert [c.method for c in candidates[:3]] == [*PLANS[:1], *ASCENTS]
    assert len(candidates[3:]) == N_ROUNDS
    assert all(c.method in REPLANS for c in candidates[3:])
    refined = [c for c in candidates if c.refined is not None]
    assert 2 <= len(refined) <= 3
    assert max(candidates, key=lambda c: c.first.value) in refined  # if it was not refined well
    # The first estimate ends where gamma^T is half a percent.
    assert all(c.final.value >= c.first.value - 0.005 * abs(c.first.value) for c in refined)
    assert model.search is not None
    chosen = candidates[model.search.chosen]
    assert chosen.final.value == max(c.final.value for c in refined)
    # And the policy that came back is the one this was said of.
    models = fit_ensemble(data, Seed(0).numpy("transition-model"))
    (like_first,) = model_estimates(models, [model.policy], BOTTOM, 0.9)
    assert like_first.value >= chosen.first.value  # as far ahead as it looked then
    (asked,) = model_estimates(models, [model.policy], BOTTOM, 0.9, FINAL_WEIGHT)
    assert asked.value == pytest.approx(chosen.final.value, rel=1e-6)
    assert np.isfinite(model.expected_return(None, by="kernel").value)
    assert model.expected_return(None).value == pytest.approx(asked.value, rel=0.1)
    assert model.predict(BOTTOM[0])[0].shape == (1,)


def test_without_refining_the_best_as_found_is_kept(few: pytest.MonkeyPatch) -> None:
    model = learn(pendulum_data(5), BOTTOM, **(SHORT | {"n_refining": 0}))
    candidates = candidates_of(model)
    assert model.search is not None
    values = [c.first.value for c in candidates]
    assert values[model.search.chosen] == max(values)
    asked = candidates[model.search.chosen]  # on longer paths, once more
    assert asked.final.value == pytest.approx(asked.first.value, abs=0.5)


def test_the_same_seed_gives_the_same_bits(few: pytest.MonkeyPatch) -> None:
    data = pendulum_data(4)
    first, second = (learn(data, BOTTOM, seed=3, **SHORT) for _ in range(2))
    for ours, theirs in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert candidates_of(first) == candidates_of(second)


def test_labels_are_searched_too(few: pytest.MonkeyPatch) -> None:
    rows = pendulum_grid(6, 6, 2)
    labels = (rows.actions[:, 0] > 0).astype(np.int64)
    data = nopg.Dataset(rows[0], labels, *rows[2:5])
    model = learn(data, BOTTOM, **SHORT)  # by the actions
    assert int(model.predict(BOTTOM[0])[0]) in (0, 1)
    assert len(candidates_of(model)) == 3 + N_ROUNDS


def test_stochastic_policies_are_searched_too(few: pytest.MonkeyPatch) -> None:
    model = learn(pendulum_data(5), BOTTOM, policy="stochastic", **SHORT)
    states = model.data.observations if model.data is not None else BOTTOM
    assert np.isfinite(model.predict(states)[0]).all()
    first, second = (model.predict(states, deterministic=False)[0] for _ in range(2))
    # Draws beyond the limit of the torque are clipped to it, and then alike.
    assert (np.abs(first - second) > 1e-6).any()


def test_starts_are_the_first_states_of_the_episodes(few: pytest.MonkeyPatch) -> None:
    try_only(few, ascents=())
    rows = pendulum_grid(4, 4, 2)
    episodes = np.arange(32) // 8
    data = nopg.Dataset(*rows[:5], episodes=episodes)
    given = learn(data, np.asarray(rows[0])[::8], **SHORT)
    assert candidates_of(learn(data, **SHORT)) == candidates_of(given)


def test_a_known_reward_takes_the_place_of_the_logged_one(
    few: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    try_only(few, ascents=())

    def still(s: torch.Tensor, a: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        return -after[:, 2].square()

    data = pendulum_data(5)
    with pytest.warns(nopg.NopgWarning, match="should agree with the logged rewards"):
        policy = learn(data, BOTTOM, reward=still, **SHORT)
    assert policy.data is not None
    expected = -np.square(data.next_observations[:, 2])
    np.testing.assert_allclose(policy.data.rewards, expected)
    assert all(model.known_reward is not None for model in policy.model.models)
    # The function is no part of the file: its rewards are, to be learned from.
    policy.save(tmp_path / "policy.nopg")
    loaded = nopg.load(tmp_path / "policy.nopg")
    assert all(model.known_reward is None for model in loaded.model.models)
    assert policy.expected_return(None).value <= 0.0  # as no square is negative
    assert np.isfinite(loaded.expected_return(None).value)


def test_bandwidths_are_not_to_be_given() -> None:
    with pytest.raises(nopg.ConfigError, match="chooses the bandwidths itself"):
        learn(pendulum_data(4), BOTTOM, bandwidths="auto")


def test_a_short_horizon_is_a_third_of_the_tasks() -> None:
    short = CandidateMethod(PLANNING, short_horizon=True)
    assert short.gamma(0.99) == pytest.approx(0.97)
    assert short.gamma(0.5) == 0.0
    assert CandidateMethod(PLANNING).gamma(0.99) == 0.99


def test_the_latest_estimate_of_a_candidate_counts() -> None:
    first, refined = ModelEstimate(-3.0, 0.1), ModelEstimate(-2.0, 0.2)
    method = CandidateMethod(PLANNING)
    assert Candidate(method, first).final is first
    assert Candidate(method, first, refined).final is refined


def test_a_search_says_what_was_tried() -> None:
    planned = CandidateMethod(PLANNING, action_repeat=8, short_horizon=True)
    tried = SearchResult(
        [
            Candidate(planned, ModelEstimate(-30.0, 0.1), ModelEstimate(-20.0, 0.25)),
            Candidate(CandidateMethod(ASCENT), ModelEstimate(-25.5, 0.5)),
        ]
    )
    assert [line.rstrip() for line in str(tried).splitlines()] == [
        "   return   refined   uncertainty   found by",
        "      -30       -20          0.25   fitted value iteration, action repeat 8, "
        "short horizon <- kept",
        "    -25.5         -          0.50   gradient ascent",
    ]


def test_two_hundred_samples_swing_the_pendulum_up(few: pytest.MonkeyPatch) -> None:
    try_only(few, ascents=())
    model = learn(pendulum_data(10), BOTTOM, n_refining=20, progress=False)
    env = Pendulum()
    start = env.reset_states(1, np.random.default_rng(0))
    path = rollout(env, lambda s: model.predict(s)[0], start, 500)
    print(f"return {path.returns[0]:.0f}\n{model.search}")
    assert path.returns[0] > -600


@pytest.mark.filterwarnings("default:Predictions along the learned")
def test_a_guess_is_called_one(few: pytest.MonkeyPatch) -> None:
    try_only(few, ascents=())
    rng = np.random.default_rng(0)
    states, pushes = rng.uniform(-1, 1, size=(2, 60, 1))
    after = states + 0.1 * np.sin(5 * states) + 0.1 * pushes
    data = nopg.Dataset(states, pushes, np.cos(4 * states[:, 0]), after, np.zeros(60, dtype=bool))
    far = np.array([[40.0]])
    with pytest.warns(nopg.NopgWarning) as said:
        learn(data, far, **(SHORT | {"gamma": 0.2}))
    assert any("uncertainty there is" in str(w.message) for w in said)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"policy": torch.nn.Linear(3, 1)}, "a policy of its own"),
        ({"dtype": "float32"}, "works on the CPU in float64"),
        ({"device": "cuda"}, "works on the CPU in float64"),
        ({"n_refining": -1}, "`n_refining` must be a whole number from 0"),
        ({"n_updates": 0}, "`n_updates` must be a whole number from 1"),
        ({"gamma": 1.0}, "gamma"),
        ({"risk": "low"}, '`risk` must be "mean" or a share'),
        ({"risk": 0.0}, "0.1 cares for the worst tenth"),
        ({"risk": True}, "got True"),
        ({"colour": 1}, "There is no setting colour"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    wrong: Any, sentence: str, few: pytest.MonkeyPatch
) -> None:
    with pytest.raises(nopg.ConfigError, match=sentence):
        learn(pendulum_data(4), BOTTOM, **({"progress": False} | wrong))


def test_data_of_another_kind_are_refused() -> None:
    with pytest.raises(nopg.ConfigError, match=r"must be a nopg\.Dataset"):
        learn([1, 2, 3], BOTTOM, progress=False)  # type: ignore[arg-type]


def interrupted_at(call: int, then: Callable[..., Any]) -> Callable[..., Any]:
    """`then`, but Ctrl-C is pressed during one of its calls."""
    calls = 0

    def run(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KeyboardInterrupt
        return then(*arguments)

    return run


def test_an_interrupt_while_planning_keeps_the_plans_so_far(few: pytest.MonkeyPatch) -> None:
    try_only(few, plans=PLANS[:3])
    few.setattr(candidates_module, "distil", interrupted_at(3, distil))
    candidates = candidates_of(learn(pendulum_data(4), BOTTOM, **SHORT))
    assert [c.method for c in candidates] == list(PLANS[:2])
    assert all(c.refined is None for c in candidates)


def test_an_interrupt_before_there_is_a_policy_leaves_a_clone(few: pytest.MonkeyPatch) -> None:
    few.setattr(candidates_module, "distil", interrupted_at(1, distil))
    candidates = candidates_of(learn(pendulum_data(4), BOTTOM, **SHORT))
    assert [c.method.kind for c in candidates] == ["behaviour cloning"]


def test_an_interrupt_before_there_are_models_leaves_a_clone(
    few: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    few.setattr(sys.modules[learn.__module__], "fit_ensemble", interrupted_at(1, len))
    data = pendulum_data(4)
    policy = learn(data, BOTTOM, **SHORT)
    assert "the log is cloned" in caplog.text
    assert policy.search is None
    acted, _ = policy.predict(data.observations)
    missed = np.square(acted - data.actions).mean()
    assert missed <= 1.05 * data.actions.var()  # chance has nothing to be cloned


@pytest.mark.parametrize(("update", "n_found"), [(2, 2), (7, 3)])
def test_an_interrupt_while_ascending_keeps_the_policies_so_far(
    update: int, n_found: int, few: pytest.MonkeyPatch
) -> None:
    # One plan, then four updates of each ascent, one after the other.
    few.setattr(threads, "n_workers", lambda: 1)

    class Bar(tqdm):  # type: ignore[misc]
        count = 0

        def update(self, n: float | None = 1) -> bool | None:
            Bar.count += 1
            if Bar.count == update:
                raise KeyboardInterrupt
            return None

    few.setattr(search_module, "tqdm", Bar)
    candidates = candidates_of(learn(pendulum_data(4), BOTTOM, **SHORT))
    assert [c.method for c in candidates] == [*PLANS[:1], *ASCENTS][:n_found]
    assert all(c.refined is None for c in candidates)


def test_an_interrupt_while_refining_keeps_the_best(few: pytest.MonkeyPatch) -> None:
    few.setattr(refinement, "_update", interrupted_at(30, refinement._update))
    model = learn(pendulum_data(5), BOTTOM, **(SHORT | {"n_refining": 50}))
    (refined,) = (c for c in candidates_of(model) if c.refined is not None)
    assert refined.final.value > refined.first.value
    assert np.isfinite(model.predict(BOTTOM[0])[0]).all()


def test_starts_beyond_the_log_are_named(few: pytest.MonkeyPatch) -> None:
    try_only(few, ascents=())
    far = np.array([[-1.0, 0.0, 0.0], [-1.0, 0.0, 90.0]])
    with pytest.warns(nopg.SupportWarning, match=r"1 of 2 lie beyond the range"):
        learn(pendulum_data(4), far, **SHORT)


def test_actions_that_never_differ_are_refused() -> None:
    rows = pendulum_grid(4, 4, 2)
    data = nopg.Dataset(rows[0], np.ones((32, 1)), *rows[2:5])
    with pytest.raises(nopg.DataError, match="nothing to choose"):
        learn(data, BOTTOM, **SHORT)


def blas_threads() -> set[int]:
    """Those of numpy and scipy; torch may bring a BLAS that shares its own pool."""
    return {
        pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas" and "torch" not in Path(pool["filepath"]).parts
    }


def test_the_policy_is_the_same_on_any_number_of_threads(few: pytest.MonkeyPatch) -> None:
    before, found = torch.get_num_threads(), []
    try:
        for count in (1, 3, 8):  # with 8 pieces have parts
            torch.set_num_threads(count)
            policy = learn(pendulum_data(5), BOTTOM, **SHORT)
            found.append(policy)
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)
    one, *others = (policy.policy.state_dict() for policy in found)
    assert all(torch.equal(one[name], other[name]) for other in others for name in one)
    assert found[0].search == found[1].search == found[2].search


def test_linear_algebra_is_on_one_thread_while_it_lasts() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2, user_api="blas"):
            with side_by_side():
                assert blas_threads() == {1}
                assert torch.get_num_threads() == 1
            assert blas_threads() == {2}
        with pytest.raises(KeyboardInterrupt), side_by_side():
            raise KeyboardInterrupt
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_short_lists_are_not_warned_of(few: pytest.MonkeyPatch) -> None:
    """They are short on purpose; any warning would be an error here."""
    few.setitem(candidates_module.SHORT_LISTS, "max_neighbours", 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        policy = learn(pendulum_data(5), BOTTOM, **SHORT)
    assert [str(one.message) for one in caught] == []
    assert policy.search is not None


def test_the_bar_says_what_is_going_on(
    few: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the first moment on, and without a guess at what is left."""
    shown: list[str] = []

    class Bar(tqdm):  # type: ignore[misc]
        def display(self, *args: Any, **kwargs: Any) -> None:
            shown.append(str(self))

    def fitted(*args: Any) -> Any:
        assert "looking at the log" in shown[0]
        assert "models of the system" in shown[-1]
        return fit_ensemble(*args)

    few.setattr(search_module, "tqdm", Bar)
    few.setattr(search_module, "fit_ensemble", fitted)
    learn(pendulum_data(5), BOTTOM, **SHORT | {"progress": True})
    told = "\n".join(shown)
    assert "100%" in shown[-1]
    assert "<" not in told
    assert "?" not in told
    assert "refinement, J=" in shown[-1]


def test_rewards_may_be_of_any_scale(few: pytest.MonkeyPatch) -> None:
    """By powers of two nothing is rounded: billionths of a reward, the same bits."""
    keep(few, 3)
    data, found = pendulum_data(5), []
    for scale in (2.0**-5, 2.0**-35, 2.0**25):
        arrays: Any = data.arrays() | {"rewards": scale * data.rewards}
        other = nopg.Dataset(**arrays, action_space=data.action_space)
        policy = learn(other, BOTTOM, **SHORT)
        values = [one.final.value / scale for one in candidates_of(policy)]
        found.append((values, policy.predict(data.observations)[0]))
    (ours, actions), (tiny, same), (huge, _) = found
    assert tiny == ours
    np.testing.assert_array_equal(same, actions)
    # From one on Adam's constant is the paper's, and weighs less the more rewards do.
    assert huge == pytest.approx(ours, rel=1e-5)


def test_ascents_begin_from_some_of_many_starts() -> None:
    data = pendulum_data(5)
    starts = np.repeat(np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), 500, axis=0)
    settings = {"gamma": 0.9, "policy": "deterministic"}
    first, second = candidates_module.prepared_ascents(data, starts, settings, 0)
    used = first.fitted.initial_states
    assert used is not None
    assert len(used) == candidates_module.N_ASCENT_STARTS
    assert (used[:, 0] > 0.0).mean() == 0.5
    assert second.fitted.bandwidths == first.fitted.bandwidths
    assert second.fitted.policy is not first.fitted.policy
