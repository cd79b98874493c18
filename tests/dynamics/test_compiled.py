"""Compiled rollouts against the same in NumPy, and their digits on several threads."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from reproduction.tasks.random_agents import pendulum_random
from reproduction.tasks.scripted_operator import mountain_car_demonstrations

from nopg.data.dataset import Dataset
from nopg.dynamics import compiled, gaussian_process, rollouts, transition_model
from nopg.dynamics.compiled import process_fields
from nopg.dynamics.compiled_ascent import CompiledAscent
from nopg.dynamics.curvature import derivatives
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.rewards import Potential
from nopg.dynamics.rollouts import (
    GONE,
    erring_steps,
    model_rollout,
    rollout_gradients,
    rollout_steps,
    running_probability,
)
from nopg.dynamics.terminations import Limit, TerminationModel
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.policies.adam import Adam
from nopg.policies.arrays import ArrayPolicies
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy
from nopg.threads import side_by_side

pytestmark = pytest.mark.skipif(
    compiled.compiled_library() is None, reason="there is no C compiler"
)


def noisy_log(history: int, discrete: bool, rng: np.random.Generator) -> Dataset:
    """A level that two valves or three labels move, in noise that grows with it."""
    rows: list[Any] = []
    for episode in range(8):
        level = rng.uniform(-1.0, 1.0, 2)
        for t in range(25):
            label, push = int(rng.integers(3)), rng.uniform(-1.0, 1.0, 2)
            moved = (label - 1.0) * np.array([0.3, -0.1]) if discrete else 0.3 * push
            gust = 0.05 * np.exp(0.5 * level) * rng.standard_normal(2)
            after = 0.9 * level + moved + 0.2 * np.sin(level[::-1]) + gust
            action = label if discrete else push
            rows.append((level, action, -float(level @ level), after, t == 24, episode))
            level = after
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    never = np.zeros(len(rows), dtype=bool)
    names = ("observations", "actions", "rewards", "next_observations")
    given: dict[str, Any] = dict(zip(names, columns, strict=False))
    given |= {"terminations": never, "truncations": columns[4], "episodes": columns[5]}
    data = Dataset(**given)
    return data.with_history(history) if history else data


def getting_nearer(columns: list[np.ndarray], rng: np.random.Generator) -> Potential | None:
    """The potential of getting nearer to the middle of the first two columns."""
    nearer = [np.abs(columns[i][:, :2]).sum(axis=1) for i in (0, 3)]
    given = [columns[0], columns[1], nearer[0] - nearer[1], columns[3]]
    found = Potential.fit(given, rng, 2)
    assert found is not None
    return found


def progress_log(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Steps in a plane that pay for getting nearer to its middle; far from it they end."""
    states, pushes = rng.uniform(-1.0, 1.0, (n, 2)), rng.uniform(-1.0, 1.0, (n, 2))
    after = states + 0.1 * pushes - 0.02 * states**3
    nearer = np.hypot(*states.T) - np.hypot(*after.T)
    ended = (np.hypot(*after.T) > 1.2).astype(float)
    rewards = nearer - 0.01 * np.square(pushes).sum(axis=1) - ended
    return [states, pushes, rewards, after, ended]


def fitted(columns: Any, **options: Any) -> TransitionModel:
    given = [torch.tensor(np.asarray(c, dtype=np.float64)) for c in columns]
    return TransitionModel.fit(*given, generator=np.random.default_rng(0), **options)


Case = tuple[TransitionModel, Any, list[Policy], np.ndarray]


@pytest.fixture(
    scope="module",
    params=[
        "angles",
        "outlier",
        "ends",
        "progress",
        "noise",
        "past",
        "nearer",
        "labels",
        "gaussian",
    ],
)
def case(request: pytest.FixtureRequest) -> Case:
    """A model, its columns, two policies and some states."""
    rng, kind, bound = np.random.default_rng(1), "deterministic", 1.0
    if request.param in ("angles", "outlier"):
        rows, bound = pendulum_random(400, rng), 2.0
        columns = [np.asarray(c, dtype=np.float64) for c in rows[:5]]
        model = fitted(columns)
        assert model.bounds.angles
        if request.param == "outlier":  # a kernel of no weight among others
            weights = model.process.weights.clone()
            weights[:, 3] = 0.0
            model = replace(model, process=replace(model.process, weights=weights))
    elif request.param == "ends":
        columns = [c[-500:].astype(float) for c in mountain_car_demonstrations()[:5]]
        model = fitted(columns)
        assert model.termination is not None
        assert model.bounds.saturation.exists
    elif request.param == "progress":  # impacts beyond a distance, not beyond a limit of a column
        columns = progress_log(1_500, rng)
        model = fitted(columns)
        assert model.potential is not None
        after, paid, ended = (torch.tensor(columns[i]) for i in (3, 2, 4))
        ends = TerminationModel.fit(after, paid, ended, rng, typical_step=torch.full((2,), 0.1))
        assert ends is not None
        wall = Limit(1, 3.0, 1.0, -2.0)  # and one that is beyond a limit
        ends = replace(ends, limits=(*ends.limits, wall))
        assert ends.log_counts is not None
        model = replace(model, termination=ends)
    else:
        history = 2 if request.param in ("past", "nearer") else 0
        data = noisy_log(history, request.param == "labels", rng)
        columns = [column.numpy() for column in model_columns(data)]
        model = fitted(columns, history=data.history)
        assert model.noise is not None
        if request.param == "nearer":  # progress of present columns, beside past ones
            model = replace(model, potential=getting_nearer(columns, rng))
        kind = {"labels": "discrete", "gaussian": "stochastic"}.get(request.param, "deterministic")
    d_s, d_a = columns[0].shape[1], columns[1].shape[1]
    limit = torch.full((d_a,), bound, dtype=torch.float64)
    spec = PolicySpec(kind=kind, n_states=d_s, n_outputs=d_a, hidden=(7, 5))
    policies = [
        spec.build(torch.Generator().manual_seed(seed), -limit, limit)
        if kind != "discrete"
        else spec.build(torch.Generator().manual_seed(seed))
        for seed in (1, 2)
    ]
    states = columns[0][rng.integers(len(columns[0]), size=6)]
    states = states + 0.3 * columns[0].std(axis=0) * rng.standard_normal(states.shape)
    return model, columns, policies, np.tile(states, (2, 1))


def steps_of(model: ArrayTransitionModel, case: Case, n_steps: int) -> list[Any]:
    _, _, policies, states = case
    draws = None
    if model.noise is not None:
        shape = (n_steps, len(states), states.shape[1])
        draws = noise_draws(*shape, np.random.default_rng(5))
    actor = ArrayPolicies(policies, is_decided=True)
    return list(rollout_steps(model, actor, states, n_steps, draws=draws))


def flat(steps: list[Any]) -> list[np.ndarray]:
    """Each field of the steps that are made at all."""
    fields = [
        np.stack([one.states for one in steps]),
        np.stack([one.actions for one in steps]),
        *(np.stack(x) for x in zip(*(one.outcome for one in steps), strict=True)),
    ]
    is_made = np.stack([one.running for one in steps]) > GONE
    return [field[is_made] for field in fields]


@pytest.mark.parametrize("is_drawn", [False, True])
def test_steps_are_those_of_numpy(
    case: Case, is_drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, columns = case[:2]
    given = [torch.tensor(column) for column in columns]

    def steps() -> ArrayTransitionModel:
        if not is_drawn:
            return ArrayTransitionModel(model)
        return drawn_models(model, given, 3, np.random.default_rng(2))

    ours = steps()
    assert ours.compiled is not None
    found = flat(steps_of(ours, case, 3))
    monkeypatch.setattr(transition_model, "compiled_library", lambda: None)
    plain = steps()
    assert plain.compiled is None
    for mine, other in zip(found, flat(steps_of(plain, case, 3)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("has_feedback", [False, True])
def test_recorded_actions_lead_to_the_same_states(
    case: Case, has_feedback: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, columns, _, states = case
    rng = np.random.default_rng(3)
    rows = rng.integers(len(columns[1]), size=(4, len(states)))
    acted: Any = np.asarray(columns[1], dtype=np.float64)[rows]
    if has_feedback:
        around = states + 0.1 * rng.standard_normal((4, *states.shape))
        gains = rng.standard_normal((*acted.shape, states.shape[1]))
        limits = np.stack([acted.min(axis=(0, 1)), acted.max(axis=(0, 1))])
        acted = compiled.PathFeedback(acted, around, gains, limits)
    draws = None
    if model.noise is not None:
        draws = noise_draws(4, len(states), states.shape[1], rng)
    ours = ArrayTransitionModel(model).follow(states, acted, draws)
    monkeypatch.setattr(transition_model, "compiled_library", lambda: None)
    theirs = ArrayTransitionModel(model).follow(states, acted, draws)
    is_made = running_probability(theirs)[:-1] > (GONE if has_feedback else -1.0)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine[is_made], other[is_made], rtol=1e-6, atol=1e-7)


def test_paths_that_have_ended_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (400, 1))
    actions = rng.uniform(-0.2, 0.2, (400, 1))
    after = states + actions
    columns = [states, actions, -np.square(states[:, 0]), after, (after[:, 0] > 0.9).astype(float)]
    model = fitted(columns)
    limit = torch.tensor([0.2], dtype=torch.float64)
    spec = PolicySpec(kind="deterministic", n_states=1, n_outputs=1, hidden=(3,))
    policy = spec.build(torch.Generator().manual_seed(0), -limit, limit)
    with torch.no_grad():
        [*policy.parameters()][-1].fill_(3.0)  # to the right, from everywhere
    starts = np.linspace(-1.0, 0.8, 20)[:, None]  # in two groups
    given = (model, ArrayPolicies([policy]), starts, 0.95, 60)
    ours, ascent = model_rollout(*given), rollout_gradients(model, [policy], *given[2:])
    is_gone = running_probability(ours.outcomes)[:-1] < GONE
    assert 0.5 < is_gone.mean() < 0.9
    moved = (ours.outcomes.next_states != ours.states).any(axis=2)
    assert not moved[is_gone].any()
    assert moved[~is_gone].all()
    assert (ours.outcomes.rewards[is_gone] == 0.0).all()
    monkeypatch.setattr(transition_model, "compiled_library", lambda: None)
    model = replace(model)
    theirs, slow = model_rollout(model, *given[1:]), rollout_gradients(model, [policy], *given[2:])
    np.testing.assert_allclose(ours.returns, theirs.returns, rtol=1e-9)
    for one, two in zip(ascent[0], slow[0], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-9)


def test_gradients_are_those_of_the_jacobians(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _, policies, states = case
    draws = None
    if model.noise is not None:
        draws = noise_draws(12, 6, states.shape[1], np.random.default_rng(5))
    given = (model, policies, states[:6], 0.95, 12, draws, 1.0, [1.0, 0.9])
    ours = rollout_gradients(*given)
    monkeypatch.setattr(transition_model, "compiled_library", lambda: None)
    theirs = rollout_gradients(*given)
    for mine, other in zip(ours, theirs, strict=True):
        for one, two in zip(mine, other, strict=True):
            scale = float(two.abs().max()) + 1e-12
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6 * scale)


def test_a_compiled_ascent_is_that_by_gradients(case: Case) -> None:
    model, _, policies, states = case
    starts, rates = states[:6], (0.01, 0.005, 0.02)
    ours, theirs = copy.deepcopy(policies), copy.deepcopy(policies)
    adams = [Adam(list(one.parameters())) for one in ours]
    found = CompiledAscent.of(model, ours, adams, starts, 0.95, 40)
    assert (found is None) == (model.noise is not None)
    if found is None:
        return
    others = [Adam(list(one.parameters())) for one in theirs]
    for rate in rates:
        lengths = found.run(rate)
        gradients = rollout_gradients(model, theirs, starts, 0.95, 40)
        for adam, own, length in zip(others, gradients, lengths, strict=True):
            squares = sum(float(g.square().sum()) for g in own)
            assert length == pytest.approx(squares**0.5, rel=1e-4, abs=1e-12)
            if length > 0.0:
                adam.step(own, rate)
    is_flat = not lengths.any()  # rewards beyond those seen have no slope
    for one, two, before in zip(ours, theirs, policies, strict=True):
        for a, b, c in zip(one.parameters(), two.parameters(), before.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
            assert torch.equal(a, c) == is_flat
    n_steps = [0 if is_flat else len(rates)] * len(ours)
    assert [adam.n_steps for adam in adams] == [adam.n_steps for adam in others] == n_steps
    again = copy.deepcopy(policies)
    adams = [Adam(list(one.parameters())) for one in again]
    n_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with side_by_side():
            on_three = CompiledAscent.of(model, again, adams, starts, 0.95, 40)
            assert on_three is not None
            for rate in rates:
                on_three.run(rate)
    finally:
        torch.set_num_threads(n_threads)
    for one, two in zip(ours, again, strict=True):
        for a, b in zip(one.parameters(), two.parameters(), strict=True):
            assert torch.equal(a, b)


def test_an_ascent_without_a_gradient_leaves_its_policy(case: Case) -> None:
    model, _, policies, states = case
    team = copy.deepcopy(policies)
    with torch.no_grad():
        next(team[0].parameters()).fill_(float("nan"))
    adams = [Adam(list(one.parameters())) for one in team]
    found = CompiledAscent.of(model, team, adams, states[:6], 0.95, 10)
    if found is None:  # it is noisy
        return
    lengths = found.run(0.1)
    assert not np.isfinite(lengths[0])
    assert np.isfinite(lengths[1])
    assert [adam.n_steps for adam in adams] == [0, int(lengths[1] > 0.0)]
    rest = list(team[0].parameters())[1:]
    for one, two in zip(rest, list(policies[0].parameters())[1:], strict=True):
        assert torch.equal(one, two)


def test_what_c_cannot_ascend_is_left_to_torch(case: Case) -> None:
    model, _, policies, states = case

    class Own(type(policies[0])):  # type: ignore[misc]
        pass

    team = copy.deepcopy(policies)
    for one in team:
        one.__class__ = Own
    adams = [Adam(list(one.parameters())) for one in team]
    assert CompiledAscent.of(model, team, adams, states[:6], 0.95, 10) is None


def test_paths_that_err_are_those_of_numpy(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _, policies, states = case
    rng, actor = np.random.default_rng(3), ArrayPolicies(policies, is_decided=True)
    given = rng.uniform(-1.0, 1.0, (12, 6, actor.act(states[:2]).shape[1]))
    given[rng.uniform(size=(12, 6)) < 0.5] = np.nan
    ours = erring_steps(ArrayTransitionModel(model), actor, states[:6], given)
    acts = np.isnan(given)
    assert (ours[1][~acts] == given[~acts]).all()
    monkeypatch.setattr(transition_model, "compiled_library", lambda: None)
    theirs = erring_steps(ArrayTransitionModel(model), actor, states[:6], given)
    for mine, other in zip((*ours[:2], *ours[2]), (*theirs[:2], *theirs[2]), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_threads_do_not_change_a_digit(case: Case) -> None:
    model = ArrayTransitionModel(case[0])
    alone = flat(steps_of(model, case, 40))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with side_by_side():
            together = flat(steps_of(model, case, 40))
    finally:
        torch.set_num_threads(before)
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_a_path_is_the_same_alone_and_among_others(case: Case) -> None:
    # Nine of them: groups that are full, and one that goes by itself.
    model, starts = ArrayTransitionModel(case[0]).compiled, case[3][:9]
    assert model is not None
    rng = np.random.default_rng(4)
    actions = rng.uniform(-1.0, 1.0, (6, 9, model.d_a))
    slopes = rng.normal(size=(6, 9, model.d_a, model.d_s))
    noise = rng.normal(size=(6, 9, model.d_s))

    def paths(some: slice) -> list[np.ndarray]:
        draws, acted = noise[:, some], np.ascontiguousarray(actions[:, some])
        steps = model.rollout(acted, starts[some], 6, draws)
        credit = np.full(len(starts[some]), 0.9)
        return [*steps, model.action_gradients(steps, slopes[:, some], 0.95, -9.0, credit, draws)]

    every = paths(slice(9))
    for first, last in ((0, 1), (1, 4), (3, 8), (8, 9)):
        some = paths(slice(first, last))
        assert all(np.array_equal(a[:, first:last], b) for a, b in zip(every, some, strict=True))


def test_blocks_join_where_they_meet(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ArrayTransitionModel(case[0])
    whole = flat(steps_of(model, case, 20))
    monkeypatch.setattr(rollouts, "BLOCK", 7)
    parts = flat(steps_of(model, case, 20))
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))


@pytest.mark.parametrize("n_draws", [0, 3])
def test_single_precision_does_where_kernels_are_too_few(
    n_draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1.0, 1.0, (900, 4)), rng.uniform(-1.0, 1.0, (900, 1))
    after = s + 0.3 * np.sin(3.0 * s[:, [1, 2, 3, 0]] * s) + 0.2 * a * np.cos(s)
    monkeypatch.setattr(gaussian_process, "MAX_PRODUCTS", 1000)
    rows = [s, a, -np.square(s).sum(axis=1), after, np.zeros(900)]
    model, steps = fitted(rows), None
    if n_draws:
        given = [torch.tensor(column) for column in rows]
        steps = drawn_models(model, given, n_draws, np.random.default_rng(1))
    steps = steps or model.arrays
    assert steps.compiled is not None
    assert any(process_fields(steps._arrays)["is_single"])
    found = steps.follow(s[:9], a[None, :9])
    plain = steps.numpy_step(s[:9], a[:9])
    off = np.abs(found.next_states[0] - plain.next_states).max()
    assert 0.0 < off < 0.1 * model.process.missed.max()
    off_track = s[:9] * 10.0 ** np.arange(4, 58, 6)[:, None]  # paths that ran off
    far, exact = steps.follow(off_track, a[None, :9]), steps.numpy_step(off_track, a[:9])
    assert far.reached[0] == pytest.approx(exact.reached, rel=1e-6, abs=1.0)
    if n_draws:
        return
    alone = [steps.follow(s[k : k + 1], a[None, k : k + 1]).next_states for k in range(9)]
    assert np.array_equal(found.next_states, np.concatenate(alone, axis=1))
    made = steps.compiled.rollout(a[None, :9], s[:9], 1, None)
    by_state, credit = np.zeros((1, 9, 1, 4)), np.ones(9)
    slopes = steps.compiled.action_gradients(made, by_state, 0.9, -9.0, credit, None)
    states, actions = torch.tensor(s[:9]), torch.tensor(a[:9])
    by = model.jacobians(states, actions, model.step(states, actions), is_exact=True)
    assert slopes[0, :, 0] == pytest.approx(by.rewards[:, 4].numpy(), abs=1e-5)
    rounded = torch.from_numpy(steps.compiled.slopes(s[:9], a[:9]))
    away = (rounded - model.process.slopes(torch.cat([states, actions], dim=1))).abs()
    # In deviations of the inputs, beside what is missed anyway.
    assert 0.0 < (away * model.process.spread).max() < 0.1 * model.process.missed.max()


def test_slopes_are_those_of_torch_on_any_number_of_threads(case: Case) -> None:
    model, columns, _, _ = case
    s, a = (np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x in columns[:2])
    s, a = (np.tile(x, (-(-641 // len(x)), 1))[:641] for x in (s, a))  # worth three threads
    steps = ArrayTransitionModel(model).compiled
    assert steps is not None
    alone = steps.slopes(s, a)
    exact = model.process.slopes(torch.from_numpy(np.concatenate([s, a], axis=1))).numpy()
    scale = np.abs(exact).max(axis=(0, 2), keepdims=True)
    # Of a cell of a grid without noise large weights cancel.
    assert (np.abs(alone - exact) <= 1e-6 * scale).all()
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert np.array_equal(steps.slopes(s, a), alone)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("are_paths", [False, True])
def test_derivatives_are_those_of_torch(
    case: Case, are_paths: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, columns, _, _ = case
    rng = np.random.default_rng(6)
    rows = rng.integers(len(columns[0]), size=(20, 7))
    s, a = (np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x in columns[:2])
    s = s[rows] + 0.3 * s.std(axis=0) * rng.standard_normal((20, 7, s.shape[1]))

    def found() -> list[np.ndarray]:
        made = derivatives(model, s, a[rows], are_paths=are_paths)
        return [*made.outcomes, *made[1:]]

    ours = on_threads(1, found)
    assert all(np.array_equal(x, y) for x, y in zip(ours, on_threads(3, found), strict=True))
    monkeypatch.setattr(transition_model, "compiled_library", lambda: None)
    model = replace(model)
    for mine, other in zip(ours, found(), strict=True):
        scale = np.abs(other).max() + 1e-9
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=2e-6 * scale)


def on_threads(n: int, call: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        return call()
    finally:
        torch.set_num_threads(before)


@pytest.fixture(scope="module")
def wide() -> TransitionModel:
    """Of so many columns and kernels that threads share each of its steps."""
    rng = np.random.default_rng(4)
    s, a = rng.uniform(-1.0, 1.0, (700, 10)), rng.uniform(-1.0, 1.0, (700, 2))
    after = s + 0.1 * np.sin(3.0 * np.roll(s, 1, axis=1) * s) + 0.1 * a @ rng.normal(size=(2, 10))
    return fitted([s, a, -np.square(s).sum(axis=1), after, (s[:, 0] > 0.95).astype(float)])


@pytest.mark.parametrize(("n_paths", "n_draws"), [(1, 0), (5, 0), (6, 3)])
def test_threads_that_share_steps_change_no_digit(
    wide: TransitionModel, n_paths: int, n_draws: int
) -> None:
    assert wide.process.n_products > 10_000
    rng = np.random.default_rng(7)
    limits = torch.full((2,), -1.0), torch.full((2,), 1.0)
    spec = PolicySpec(kind="deterministic", n_states=10, n_outputs=2, hidden=(6,))
    actor = ArrayPolicies([spec.build(torch.Generator().manual_seed(1), *limits)])
    starts, credit = rng.uniform(-1.0, 1.0, (n_paths, 10)), rng.uniform(size=n_paths)
    by_state, steps = rng.normal(size=(9, n_paths, 2, 10)), ArrayTransitionModel(wide)
    if n_draws:
        rows = [torch.rand(40, *width).double() for width in ((10,), (2,), (), (10,), ())]
        steps = drawn_models(wide, rows, n_draws, rng)
    assert steps.compiled is not None

    def paths() -> list[np.ndarray]:
        assert steps.compiled is not None
        made = steps.compiled.rollout(actor, starts, 9, None)
        if n_draws:
            return list(made)
        return [*made, steps.compiled.action_gradients(made, by_state, 0.9, -9.0, credit, None)]

    alone = on_threads(1, paths)
    exact = steps.numpy_step(alone[0][0], alone[1][0])
    np.testing.assert_allclose(alone[2][0], exact.reached, rtol=1e-6, atol=1e-6)
    for n in (2, 3, 16):
        shared = on_threads(n, paths)
        assert all(np.array_equal(one, two) for one, two in zip(alone, shared, strict=True))


def test_gusts_of_a_system_without_noise_change_nothing() -> None:
    rows = pendulum_random(300, np.random.default_rng(1))
    model = fitted([np.asarray(c, dtype=np.float64) for c in rows[:5]])
    assert model.noise is None
    states, acted = rows[0][:4].astype(float), rows[1][:12].reshape(3, 4, 1)
    gusts = np.ones((3, 4, 3))
    with_them, without = (
        model.arrays.follow(states, acted.astype(float), draws) for draws in (gusts, None)
    )
    assert np.array_equal(with_them.next_states, without.next_states)


def test_arrays_of_another_shape_are_refused(case: Case) -> None:
    model, columns, policies, states = case
    steps = ArrayTransitionModel(model).compiled
    assert steps is not None
    actor = ArrayPolicies(policies)
    with pytest.raises(ValueError, match="is not"):
        steps.rollout(actor, states[:, 1:], 2, None)
    with pytest.raises(ValueError, match="is not"):
        steps.rollout(np.zeros((1, len(states), columns[1].shape[1])), states, 2, None)
    if model.noise is not None:
        with pytest.raises(ValueError, match="is not"):
            steps.rollout(actor, states, 2, np.zeros((1, *states.shape)))
