"""Refining: never worse in any model, and it ends when nothing is gained."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from nopg.algorithms.search import refinement
from nopg.algorithms.search.refinement import (
    CHECK_EVERY,
    N_PATHS,
    N_STARTS,
    PATIENCE,
    attainable_return,
    model_estimates,
    model_returns,
    refine,
    search_starts,
)
from nopg.discount import discount_horizon
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.rollouts import model_rollout, rollout_gradients
from nopg.dynamics.transition_model import TransitionModel
from nopg.policies.arrays import ArrayPolicies
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy

GAMMA = 0.9
STARTS = np.array([[0.8], [-0.6]])


def learned(earn: Any, n: int = 120, seed: int = 0, noise: float = 0.0) -> TransitionModel:
    """s' = 0.9 s + 0.3 a, so linear that it is known exactly; or with some noise."""
    rng = np.random.default_rng(seed)
    states, actions = rng.uniform(-2, 2, size=(2, n, 1))
    after = 0.9 * states + 0.3 * actions + noise * rng.standard_normal((n, 1))
    rows = (states, actions, earn(states, actions)[:, 0], after)
    columns = [torch.tensor(row) for row in (*rows, np.zeros(n))]
    return TransitionModel.fit(*columns, generator=np.random.default_rng(seed))


def near_zero() -> TransitionModel:
    return learned(lambda s, a: -(s**2) - 0.1 * a**2)


def build(seed: int, kind: str = "deterministic") -> Policy:
    spec = PolicySpec(kind=kind, n_states=1, n_outputs=1, hidden=(6,))
    limit = torch.tensor([0.6])  # s stays within 1.8, among the data
    return spec.build(torch.Generator().manual_seed(seed), -limit, limit)


def real_return(policy: Policy, start: float, n_steps: int = 400) -> float:
    s, total = start, 0.0
    for t in range(n_steps):
        a = float(policy(torch.tensor([[s]]).double()).detach())
        total += GAMMA**t * (-(s**2) - 0.1 * a**2)
        s = 0.9 * s + 0.3 * a
    return total


def test_an_estimate_is_the_return_of_the_system() -> None:
    models, team = (near_zero(),), [build(1), build(2)]
    found = model_estimates(models, team, STARTS, GAMMA, 1e-9)
    for policy, estimate in zip(team, found, strict=True):
        truth = np.mean([real_return(policy, float(s)) for [s] in STARTS])
        # The model's rewards are off by up to 0.002, which adds up to 0.02.
        assert estimate.value == pytest.approx(truth, abs=0.002 / (1.0 - GAMMA))
        assert estimate.uncertainty < 0.05
    short = [estimate.value for estimate in model_estimates(models, team, STARTS, GAMMA)]
    assert short == model_returns(models, team, STARTS, GAMMA)


def test_uncertainty_is_the_mean_along_the_rollout() -> None:
    model = learned(lambda s, a: np.sin(3 * s))
    policy, start = build(1), np.array([[5.0]])
    (estimate,) = model_estimates([model], [policy], start, GAMMA, 0.5)  # seven steps
    here, uncertainties = torch.tensor(start), []
    for _ in range(7):
        action = policy(here).detach()
        uncertainties.append(float(model.uncertainty(here, action)))
        here = model.step(here, action).next_states
    expected = np.average(uncertainties, weights=GAMMA ** np.arange(7))
    assert estimate.uncertainty == pytest.approx(expected, rel=1e-9)
    assert estimate.uncertainty > 0.1  # it begins where no data are


def test_the_lowest_of_the_models_counts() -> None:
    low = learned(lambda s, a: -(s**2) - 0.1 * a**2 - 1.0)
    high, policy = near_zero(), build(1)
    (both,), (alone,) = (
        model_estimates(models, [policy], STARTS, GAMMA) for models in ((high, low), (low,))
    )
    assert both == alone


def test_refining_improves_the_real_system() -> None:
    team = [build(1), build(2)]
    models = (near_zero(), learned(lambda s, a: -(s**2) - 0.1 * a**2, seed=5))
    before = [real_return(policy, 0.8) for policy in team]
    seen: list[float] = []
    refine(models, team, STARTS, GAMMA, 60, seen.append)
    after = [real_return(policy, 0.8) for policy in team]
    assert all(new > old for new, old in zip(after, before, strict=True))
    assert seen == sorted(seen)
    assert seen[-1] == max(model_returns(models, team, STARTS, GAMMA))


def test_what_only_the_first_model_believes_is_not_kept() -> None:
    more, less = learned(lambda s, a: a), learned(lambda s, a: -a)
    policy = build(0)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()  # a = 0, of which both think the same
        policy.network[0].bias.fill_(1.0)  # type: ignore[index, union-attr]
    kept = copy.deepcopy(policy.state_dict())
    fooled = copy.deepcopy(policy)
    refine([more], [fooled], STARTS, GAMMA, 20)
    assert model_returns([more], [fooled], STARTS, GAMMA)[0] > 0.1
    refine([more, less], [policy], STARTS, GAMMA, 20)
    for name, parameter in policy.state_dict().items():
        assert torch.equal(parameter, kept[name])


def test_it_ends_after_some_updates_without_a_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    def downhill(*arguments: Any) -> Any:
        return [tuple(-g for g in each) for each in rollout_gradients(*arguments)]

    monkeypatch.setattr(refinement, "rollout_gradients", downhill)
    monkeypatch.setattr(refinement, "_compiled", lambda *_: None)
    updates: list[float] = []
    policy = build(1)
    kept = copy.deepcopy(policy.state_dict())
    refine([near_zero()], [policy], STARTS, GAMMA, 500, updates.append)
    assert len(updates) == CHECK_EVERY * (PATIENCE // CHECK_EVERY + 1)
    for name, parameter in policy.state_dict().items():
        assert torch.equal(parameter, kept[name])


def test_what_cannot_be_better_is_left_alone() -> None:
    updates: list[float] = []
    perfect = learned(lambda s, a: 0.0 * s + 2.0)
    assert attainable_return(perfect, GAMMA, 1e-12) == pytest.approx(2.0 / (1.0 - GAMMA), rel=2e-4)
    refine([perfect], [build(1)], STARTS, GAMMA, 50, updates.append)
    assert updates == []


def test_a_team_is_refined_as_each_alone() -> None:
    model, together = near_zero(), [build(1), build(2), build(3)]
    alone = copy.deepcopy(together)
    refine([model], together, STARTS, GAMMA, 12)
    for policy in alone:
        refine([model], [policy], STARTS, GAMMA, 12)
    for ours, theirs in zip(together, alone, strict=True):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(a, b, rtol=1e-6, atol=1e-8)


def test_policies_that_agree_are_refined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(model: Any, policies: Any, *rest: Any) -> Any:
        sizes.append(len(policies))
        return rollout_gradients(model, policies, *rest)

    monkeypatch.setattr(refinement, "rollout_gradients", counted)
    monkeypatch.setattr(refinement, "_compiled", lambda *_: None)
    refined, left, _ = refine([near_zero()], [build(1), build(1), build(2)], STARTS, GAMMA, 3)
    assert set(sizes) == {2}
    assert refined > left  # the second is left as it was


def test_gradients_are_of_a_few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(model: Any, policies: Any, starts: Any, *rest: Any) -> Any:
        sizes.append(len(starts))
        return rollout_gradients(model, policies, starts, *rest)

    monkeypatch.setattr(refinement, "rollout_gradients", counted)
    monkeypatch.setattr(refinement, "_compiled", lambda *_: None)
    many = np.linspace(-1, 1, 40)[:, None]
    refine([near_zero()], [build(1)], many, GAMMA, 2)
    assert sizes == [refinement.N_STARTS] * 2


def test_in_noise_paths_go_over_all_starts_in_turn() -> None:
    model = learned(lambda s, a: -(s**2), noise=0.1)
    assert len(search_starts(near_zero(), np.zeros((9, 1)))) == N_STARTS
    starts = np.arange(9.0)[:, None]
    found = search_starts(model, starts)
    assert found[:, 0].tolist() == [i % 9 for i in range(N_PATHS)]


def test_a_share_is_the_mean_of_the_worst_rollouts() -> None:
    models, policy = (learned(lambda s, a: -(s**2), noise=0.2),), build(1)
    starts = search_starts(models[0], STARTS)
    mean, worst = (
        model_returns(models, [policy], starts, GAMMA, share)[0] for share in (1.0, 0.25)
    )
    horizon = discount_horizon(GAMMA, refinement.SEARCH_WEIGHT)
    draws = noise_draws(horizon, N_PATHS, 1, np.random.default_rng(0))
    actor = ArrayPolicies([policy])
    paths = model_rollout(models[0], actor, starts, GAMMA, horizon, draws=draws)
    returns = np.sort(paths.returns)
    assert mean == pytest.approx(returns.mean())
    assert worst == pytest.approx(returns[: N_PATHS // 4].mean())
    assert worst < mean - 0.5 * returns.std()


def test_refining_improves_the_worst_share_in_noise() -> None:
    models, policy = (learned(lambda s, a: -(s**2), noise=0.2),), build(1)
    starts = search_starts(models[0], STARTS)
    before = model_returns(models, [policy], starts, GAMMA, 0.25)[0]
    (after,) = refine(models, [policy], STARTS, GAMMA, 40, worst_share=0.25)
    assert after > before
    assert after == model_returns(models, [policy], starts, GAMMA, 0.25)[0]


def test_every_update_in_noise_meets_new_gusts_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    model, policy = learned(lambda s, a: -(s**2), noise=0.2), build(1)
    asked: list[Any] = []

    def noted(_: Any, policies: Any, starts: Any, *rest: Any) -> Any:
        asked.append((starts[:, 0].tolist(), rest[2], rest[4]))
        return rollout_gradients(model, policies, starts, *rest)

    monkeypatch.setattr(refinement, "rollout_gradients", noted)
    refine((model,), [policy], np.arange(10.0)[:, None], GAMMA, 2)
    (first, gusts, credits), (second, others, _) = asked
    assert (first, second) == ([8, 9, 0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 0, 1, 2, 3])
    assert gusts.shape[1] == refinement.N_NEW_PATHS
    assert not np.array_equal(gusts, others)
    # Once for all that follows and once for a while; the better is kept.
    assert credits == list(refinement.CREDITS)
