"""The search: what is kept is what both models believe in, and it works."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tqdm.auto import tqdm

import nopg
from nopg.algorithms.search import candidates as finding
from nopg.algorithms.search import learn as search
from nopg.algorithms.search import refinement as refining
from nopg.algorithms.search.distillation import distil
from nopg.algorithms.search.learn import learn
from nopg.algorithms.search.refinement import (
    FINAL_WEIGHT,
    ModelEstimate,
    model_estimates,
)
from nopg.dynamics.rollouts import rollout_gradients
from nopg.dynamics.transition_model import fit_ensemble
from nopg.envs.pendulum import Pendulum, pendulum_grid
from nopg.envs.rollouts import rollout
from nopg.fitted.search_result import CLIMBS, PLANS, Candidate, Search, Way
from nopg.randomness import Seed

pytestmark = pytest.mark.filterwarnings("ignore:The second opinion")

BOTTOM = np.array([[-1.0, 0.0, 0.0]])
SHORT: dict[str, Any] = {
    "n_updates": 4,
    "n_refining": 5,
    "gamma": 0.9,
    "progress": False,
}


def pendulum_data(side: int) -> nopg.Dataset:
    rows = pendulum_grid(side, side, 2)
    return nopg.Dataset(*rows[:5], action_space=Pendulum().action_space)


def candidates_of(model: nopg.NOPG) -> list[Candidate]:
    assert model.search is not None
    return model.search.candidates


@pytest.fixture
def few() -> Iterator[pytest.MonkeyPatch]:
    """One plan, both climbs, one of them refined."""
    with pytest.MonkeyPatch.context() as patch:
        try_only(patch, plans=PLANS[:1])
        keep(patch, 1)
        yield patch


def try_only(
    patch: pytest.MonkeyPatch,
    *,
    plans: tuple[Way, ...] | None = None,
    climbs: tuple[Way, ...] | None = None,
) -> None:
    for name, ways in (("PLANS", plans), ("CLIMBS", climbs)):
        for module in (search, finding):
            if ways is not None:
                patch.setattr(module, name, ways)


def keep(patch: pytest.MonkeyPatch, n_kept: int) -> None:
    for module in (search, refining):
        patch.setattr(module, "N_KEPT", n_kept)


def test_the_best_in_the_second_opinion_is_kept(few: pytest.MonkeyPatch) -> None:
    keep(few, 2)
    data = pendulum_data(6)
    settings = SHORT | {"n_updates": 8, "n_refining": 10}
    model = learn(data, BOTTOM, **settings)
    candidates = candidates_of(model)
    assert [c.way for c in candidates] == [*PLANS[:1], *CLIMBS]
    refined = [c for c in candidates if c.refined is not None]
    assert len(refined) == 2
    assert all(c.final.value >= c.first.value for c in refined)
    assert model.search is not None
    chosen = candidates[model.search.chosen]
    assert chosen.final.value == max(c.final.value for c in refined)
    # And the policy that came back is the one this was said of.
    models = fit_ensemble(data, Seed(0).numpy("transition-model"))
    (asked,) = model_estimates(models, [model.policy], BOTTOM, 0.9, FINAL_WEIGHT)
    assert asked.value == pytest.approx(chosen.final.value, rel=1e-6)
    assert np.isfinite(float(model.objective()))
    assert model.predict(BOTTOM[0])[0].shape == (1,)


def test_without_refining_the_best_as_found_is_kept(few: pytest.MonkeyPatch) -> None:
    model = learn(pendulum_data(5), BOTTOM, **(SHORT | {"n_refining": 0}))
    candidates = candidates_of(model)
    assert model.search is not None
    values = [c.first.value for c in candidates]
    assert values[model.search.chosen] == max(values)
    asked = candidates[model.search.chosen]  # on longer paths, once more
    assert asked.final.value == pytest.approx(asked.first.value, abs=0.5)


@pytest.mark.parametrize("kind", ["planned", "climbed"])
def test_the_history_is_that_of_the_climb(kind: str, few: pytest.MonkeyPatch) -> None:
    try_only(few, plans=PLANS[:1] if kind == "planned" else ())
    try_only(few, climbs=() if kind == "planned" else CLIMBS[:1])
    model = learn(pendulum_data(4), BOTTOM, **SHORT)
    if kind == "planned":
        assert model.history is None
    else:
        assert model.history is not None
        assert len(model.history) == 4


def test_the_same_seed_gives_the_same_bits(few: pytest.MonkeyPatch) -> None:
    data = pendulum_data(4)
    first, second = (learn(data, BOTTOM, seed=3, **SHORT) for _ in range(2))
    for ours, theirs in zip(
        first.policy.parameters(), second.policy.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert candidates_of(first) == candidates_of(second)


def test_labels_are_searched_too(few: pytest.MonkeyPatch) -> None:
    rows = pendulum_grid(6, 6, 2)
    labels = (rows.actions[:, 0] > 0).astype(np.int64)
    data = nopg.Dataset(rows[0], labels, *rows[2:5])
    model = learn(data, BOTTOM, policy="discrete", **SHORT)
    assert int(model.predict(BOTTOM[0])[0]) in (0, 1)
    assert len(candidates_of(model)) == 3


def test_stochastic_policies_are_searched_too(few: pytest.MonkeyPatch) -> None:
    model = learn(pendulum_data(5), BOTTOM, policy="stochastic", **SHORT)
    typical = model.predict(BOTTOM[0])[0]
    draws = [model.predict(BOTTOM[0], deterministic=False)[0] for _ in range(5)]
    assert np.isfinite(typical).all()
    assert len({float(draw[0]) for draw in draws}) == 5


def test_starts_are_the_first_states_of_the_episodes(few: pytest.MonkeyPatch) -> None:
    try_only(few, climbs=())
    rows = pendulum_grid(4, 4, 2)
    episodes = np.arange(32) // 8
    data = nopg.Dataset(*rows[:5], episodes=episodes)
    given = learn(data, np.asarray(rows[0])[::8], **SHORT)
    assert candidates_of(learn(data, **SHORT)) == candidates_of(given)


def test_bandwidths_are_not_to_be_given() -> None:
    with pytest.raises(nopg.ConfigError, match="chooses the bandwidths itself"):
        learn(pendulum_data(4), BOTTOM, bandwidths="auto")


def test_near_sighted_candidates_look_a_third_as_far() -> None:
    near = Way("climbed", is_near_sighted=True)
    assert near.gamma(0.99) == pytest.approx(0.97)
    assert near.gamma(0.5) == 0.0
    assert Way("climbed").gamma(0.99) == 0.99


def test_a_candidate_is_judged_by_its_latest_opinion() -> None:
    first, refined = ModelEstimate(-3.0, 0.1), ModelEstimate(-2.0, 0.2)
    assert Candidate(Way("planned"), first).final is first
    assert Candidate(Way("planned"), first, refined).final is refined


def test_a_search_says_what_was_tried() -> None:
    ways = (Way("planned", hold=8, is_near_sighted=True), Way("climbed"))
    tried = Search(
        [
            Candidate(ways[0], ModelEstimate(-30.0, 0.1), ModelEstimate(-20.0, 0.25)),
            Candidate(ways[1], ModelEstimate(-25.5, 0.5)),
        ]
    )
    assert str(tried).splitlines() == [
        "  model J   refined   uncertainty   found",
        "      -30       -20    0.25   planned, held 8, near-sighted <- kept",
        "    -25.5         -    0.50   climbed",
    ]


def test_two_hundred_samples_swing_the_pendulum_up(
    few: pytest.MonkeyPatch,
) -> None:
    try_only(few, climbs=())
    model = learn(pendulum_data(10), BOTTOM, n_refining=20, progress=False)
    env = Pendulum()
    start = env.reset_states(1, np.random.default_rng(0))
    path = rollout(env, lambda s: model.predict(s)[0], start, 500)
    print(f"return {path.returns[0]:.0f}\n{model.search}")
    assert path.returns[0] > -600


@pytest.mark.filterwarnings("default:The second opinion")
def test_a_guess_is_called_one(few: pytest.MonkeyPatch) -> None:
    try_only(few, climbs=())
    rng = np.random.default_rng(0)
    states, pushes = rng.uniform(-1, 1, size=(2, 60, 1))
    after = states + 0.1 * np.sin(5 * states) + 0.1 * pushes
    data = nopg.Dataset(
        states, pushes, np.cos(4 * states[:, 0]), after, np.zeros(60, dtype=bool)
    )
    far = np.array([[40.0]])
    with pytest.warns(nopg.NopgWarning) as said:
        learn(data, far, **(SHORT | {"gamma": 0.2}))
    assert any(
        "its uncertainty along the learned policy's path" in str(w.message)
        for w in said
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"policy": torch.nn.Linear(3, 1)}, "a policy of its own"),
        ({"dtype": "float32"}, "works on the CPU in float64"),
        ({"device": "cuda"}, "works on the CPU in float64"),
        ({"n_refining": -1}, "`n_refining` must be a whole number from 0"),
        ({"n_updates": 0}, "`n_updates` must be a whole number from 1"),
        ({"gamma": 1.0}, "gamma"),
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


def test_an_interrupt_while_planning_keeps_the_plans_so_far(
    few: pytest.MonkeyPatch,
) -> None:
    try_only(few, plans=PLANS[:3])
    few.setattr(finding, "distil", interrupted_at(3, distil))
    candidates = candidates_of(learn(pendulum_data(4), BOTTOM, **SHORT))
    assert [c.way for c in candidates] == list(PLANS[:2])
    assert all(c.refined is None for c in candidates)


def test_an_interrupt_before_there_is_a_policy_is_one(few: pytest.MonkeyPatch) -> None:
    few.setattr(finding, "distil", interrupted_at(1, distil))
    with pytest.raises(KeyboardInterrupt):
        learn(pendulum_data(4), BOTTOM, **SHORT)


@pytest.mark.parametrize(("update", "n_found"), [(2, 2), (7, 3)])
def test_an_interrupt_while_climbing_keeps_the_policies_so_far(
    update: int, n_found: int, few: pytest.MonkeyPatch
) -> None:
    # One plan, then four updates of each ascend.
    class Bar(tqdm):  # type: ignore[misc]
        count = 0

        def update(self, n: float | None = 1) -> bool | None:
            Bar.count += 1
            if Bar.count == update:
                raise KeyboardInterrupt
            return None

    few.setattr(search, "tqdm", Bar)
    candidates = candidates_of(learn(pendulum_data(4), BOTTOM, **SHORT))
    assert [c.way for c in candidates] == [*PLANS[:1], *CLIMBS][:n_found]
    assert all(c.refined is None for c in candidates)


def test_an_interrupt_while_refining_keeps_the_best(few: pytest.MonkeyPatch) -> None:
    pressed = interrupted_at(7, rollout_gradients)
    few.setattr(refining, "rollout_gradients", pressed)
    model = learn(pendulum_data(5), BOTTOM, **(SHORT | {"n_refining": 50}))
    (refined,) = (c for c in candidates_of(model) if c.refined is not None)
    assert refined.final.value > refined.first.value
    assert np.isfinite(model.predict(BOTTOM[0])[0]).all()
