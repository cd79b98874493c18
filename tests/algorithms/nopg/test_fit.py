"""NOPG from the user's side: learning, repeating, stopping, predicting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import nopg
from nopg.bellman import problem
from nopg.cli.swing_up import BOTTOM, grid_dataset, swing_up

DATA = grid_dataset(8, 8)
WIDE = nopg.Bandwidths([0.4, 0.4, 1.5], [2.0])
GIVEN: dict[str, Any] = {"bandwidths": WIDE, "search_start": False}


def fitted(n_updates: int = 5, data: nopg.Dataset = DATA, **settings: Any) -> nopg.FittedPolicy:
    model = nopg.NOPG(**(GIVEN | settings))
    return model.fit(data, BOTTOM, n_updates=n_updates, progress=False)


def labelled(n: int = 120) -> nopg.Dataset:
    """A walk on a line: action 2 moves right, 0 left, reward is the position."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, 1))
    labels = rng.integers(0, 3, n)
    return nopg.Dataset(
        x, labels, x[:, 0], np.clip(x + 0.2 * (labels[:, None] - 1), -1, 1), np.zeros(n)
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_pendulum_is_swung_up_from_450_samples(seed: int) -> None:
    """The demo's promise: return of at least -420 for seeds 0 to 4."""
    model = nopg.NOPG(seed=seed)
    model.fit(grid_dataset(), BOTTOM, progress=False)
    total = swing_up(model).total
    print(f"seed {seed}: return {total:.0f}")
    assert total >= -420


@pytest.mark.parametrize("policy", ["deterministic", "stochastic"])
def test_objective_rises(policy: str) -> None:
    model = fitted(60, policy=policy, policy_samples=4)
    assert model.history is not None
    objectives = model.history["objective"]
    assert np.mean(objectives[-5:]) > np.mean(objectives[:5]) + 5.0


def test_discrete_policy_learns_to_walk_right() -> None:
    model = nopg.NOPG("discrete", gamma=0.9)
    model.fit(labelled(), [[-0.5]], n_updates=120, progress=False)
    actions, _ = model.predict(np.linspace(-0.9, 0.7, 9)[:, None])
    assert (actions == 2).all()
    action, _ = model.predict([0.0])
    assert action.shape == ()
    assert isinstance(model.fitted.action_space, Discrete)


@pytest.mark.parametrize("policy", ["deterministic", "stochastic"])
def test_same_seed_same_bits(policy: str) -> None:
    first, second, other = (
        fitted(policy=policy, policy_samples=3, next_state_samples=2, seed=s) for s in (7, 7, 8)
    )
    weights = [torch.cat([p.flatten() for p in m.policy.parameters()]) for m in
               (first, second, other)]  # fmt: skip
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first.history is not None
    assert second.history is not None
    assert first.history["objective"] == second.history["objective"]


@pytest.mark.parametrize("rows", ["matched", "nadaraya-watson"])
def test_gradient_and_objective_are_those_of_the_equation(rows: str) -> None:
    model = fitted(neighbours=None, rows=rows, final_rtol=1e-10)
    equation = nopg.BellmanEquation(
        DATA, model.policy, BOTTOM, gamma=0.97, bandwidths=WIDE, rows=rows
    )
    objective = model.kernel.objective()
    assert float(objective) == pytest.approx(float(equation.objective))
    if rows == "nadaraya-watson":  # matched rows have paths besides
        assert model.expected_return(None).value == float(objective)
    torch.testing.assert_close(model.kernel.gradient(), equation.gradient())
    states = DATA.observations[:5]
    np.testing.assert_allclose(model.value(states), equation.value(states))
    np.testing.assert_allclose(model.kernel.visitation(states), equation.visitation(states))


def test_evaluators_run_on_schedule_and_land_in_the_history() -> None:
    model = nopg.NOPG(**GIVEN)
    policy = model.fit(
        DATA,
        BOTTOM,
        n_updates=7,
        evaluators={"J": lambda p: p.expected_return(None).value},
        evaluate_every=3,
        progress=False,
    )
    history = policy.history
    assert history is not None
    steps, results = history.evaluations("J")
    assert steps == [3, 6, 7]
    # An evaluator sees the policy after its update: the last is the final one.
    assert results[-1] == pytest.approx(policy.expected_return(None).value)
    assert history["step"] == [1, 2, 3, 4, 5, 6, 7]


def test_callback_can_stop() -> None:
    model = nopg.NOPG(**GIVEN)
    history = model.fit(DATA, BOTTOM, 50, callback=lambda m, u: u.step < 4, progress=False).history
    assert history is not None
    assert len(history) == 4
    assert history.stopped == "callback"


def test_interrupt_keeps_the_policy() -> None:
    def interrupt(policy: nopg.FittedPolicy, update: Any) -> None:
        if update.step == 3:
            raise KeyboardInterrupt

    model = nopg.NOPG(**GIVEN)
    history = model.fit(DATA, BOTTOM, 50, callback=interrupt, progress=False).history
    assert history is not None
    assert history.stopped == "interrupted"
    assert len(history) == 3
    action, _ = model.predict(BOTTOM)
    assert np.isfinite(action).all()


def test_solvers_that_gave_up_are_counted_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    from nopg.linalg import solve
    from nopg.linalg.krylov import Attempt

    def broken(matvec: Any, b: Any, start: Any, *_: Any) -> Attempt:
        return Attempt(start, b - matvec(start), False, 1)

    monkeypatch.setitem(solve.CHAIN, "gmres", broken)
    monkeypatch.setattr(problem, "WORTHWHILE", 10**9)
    model = fitted(3, data=grid_dataset(12, 12))
    assert model.history is not None
    assert model.history["fallbacks"] == [2, 2, 2]


def test_both_habits_work() -> None:
    model = nopg.NOPG(**GIVEN)
    policy = model.fit(DATA, BOTTOM, n_updates=2, progress=False)
    assert model.fitted is policy
    assert np.array_equal(model.predict(BOTTOM)[0], policy.predict(BOTTOM)[0])


def test_predict_follows_the_space_and_the_batch() -> None:
    space = Box(-2.0, 2.0, (1,), dtype=np.float32)
    model = fitted(action_space=space)
    one, state = model.predict(np.array(BOTTOM), state="kept")
    many, _ = model.predict(np.stack([BOTTOM, BOTTOM]))
    drawn, _ = model.predict(np.array(BOTTOM), deterministic=False)
    assert one.shape == (1,)
    assert one.dtype == np.float32
    assert many.shape == (2, 1)
    assert state == "kept"
    assert space.contains(one)
    assert np.array_equal(one, drawn)  # a deterministic policy has nothing to draw


def test_stochastic_draws_differ_and_are_clipped() -> None:
    model = fitted(policy="stochastic", policy_samples=2, max_std=[50.0])
    draws = [model.predict(np.array(BOTTOM), deterministic=False)[0] for _ in range(20)]
    assert len({float(draw[0]) for draw in draws}) > 1
    assert max(abs(float(draw[0])) for draw in draws) <= 2.0


def test_float32_learns_too() -> None:
    model = fitted(20, dtype="float32")
    assert next(model.policy.parameters()).dtype == torch.float32
    exact = fitted(20).expected_return(None).value
    assert model.expected_return(None).value == pytest.approx(exact, rel=1e-2)


def test_a_module_of_ones_own_is_trained_in_place() -> None:
    layer = torch.nn.Linear(3, 1)
    module = torch.nn.Sequential(layer, torch.nn.Tanh())
    before = layer.weight.detach().clone()
    model = fitted(policy=module)
    assert not torch.equal(before.double(), layer.weight)
    assert model.predict(BOTTOM)[0].shape == (1,)


@pytest.mark.parametrize("policy", ["deterministic", "stochastic"])
def test_the_coarse_inverse_changes_the_effort_not_the_path(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past one renewal of it, with terminal rows and two next states a sample."""
    grid = grid_dataset(18, 18)
    ended = np.arange(len(grid)) % 50 == 0
    data = nopg.Dataset(
        grid.observations, grid.actions, grid.rewards, grid.next_observations, ended
    )
    settings: dict[str, Any] = {
        "policy": policy,
        "bandwidths": nopg.Bandwidths([0.3, 0.3, 1.0], [2.0]),
        "rtol": 1e-10,
        "policy_samples": 2,
        "next_state_samples": 2,
        "search_start": False,
    }
    helped = nopg.NOPG(**settings).fit(data, BOTTOM, 10, progress=False).history
    monkeypatch.setattr(problem, "WORTHWHILE", 10**9)
    plain = nopg.NOPG(**settings).fit(data, BOTTOM, 10, progress=False).history
    assert helped is not None
    assert plain is not None
    np.testing.assert_allclose(helped["objective"], plain["objective"], rtol=1e-7)
    assert sum(helped["matvecs"]) < 0.6 * sum(plain["matvecs"])
    assert max(helped["fallbacks"]) == 0
