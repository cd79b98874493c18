"""Updates in one compiled call against those that `Estimator.solve` makes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from nopg.algorithms.nopg.ascent import AscentState, ascend
from nopg.algorithms.nopg.config import TrainingConfig
from nopg.bellman.compiled_update import CompiledUpdate
from nopg.bellman.problem import EstimatorConfig, Problem
from nopg.bellman.samples import Samples
from nopg.bellman.solution import Estimator
from nopg.data.dataset import Dataset
from nopg.kernels.bandwidths import Bandwidths
from nopg.linalg.solve import SolverConfig
from nopg.policies.adam import Adam
from nopg.policies.build import PolicySpec
from nopg.policies.families import DeterministicPolicy, Policy
from nopg.randomness import Seed

N, GAMMA = 500, 0.9


def problem(dtype: torch.dtype = torch.float64, ending: bool = False, group: int = 1) -> Problem:
    """Scattered steps of two columns with two actions."""
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, size=(2, N, 2))
    after = 0.9 * states + 0.2 * actions
    ends = after[:, 0] > 0.8 if ending else np.zeros(N, dtype=bool)
    data = Dataset(states, actions, -np.square(states).sum(axis=1), after, ends)
    samples = Samples.of(data, dtype, torch.device("cpu"))
    starts = torch.tensor([[0.9, -0.5], [-0.7, 0.1], [0.0, 0.8]], dtype=dtype)
    h = Bandwidths(state=(0.06, 0.08), action=(0.8, 0.9), next_state=(0.05, 0.05))
    config = EstimatorConfig(
        gamma=GAMMA,
        tolerance=1e-3,
        rows="nadaraya-watson",
        neighbours="auto",
        next_state_samples=group,
    )
    return Problem.build(samples, starts, h, config, Seed(0).torch("next-states"))


def policy(dtype: torch.dtype = torch.float64, kind: str = "deterministic") -> Policy:
    spec = PolicySpec(kind=kind, n_states=2, n_outputs=2, hidden=(16, 8))
    return spec.build(torch.Generator().manual_seed(1)).to(dtype)


def parameters(one: Policy) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1).double() for p in one.parameters()])


def ascended(
    given: Problem, one: Policy, n_updates: int, state: AscentState | None = None
) -> list[tuple[float, ...]]:
    """What updates said, with the parameters they led to in `one`."""
    how = TrainingConfig(
        learning_rate=0.01, rtol=1e-8 if given.queries.dtype.itemsize == 8 else 1e-4
    )
    draws = Seed(0).torch("policy-samples")
    found = ascend(Estimator.of(given, one), one, how, n_updates, draws, state)
    return [(u.objective, u.certificate, u.gradient_norm, float(u.matvecs)) for u in found]


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("ending", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_updates_are_those_of_the_plain_path(
    dtype: torch.dtype, ending: bool, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, ours, theirs = problem(dtype, ending, group), policy(dtype), policy(dtype)
    assert given.coarse is not None
    assert len(given.next_rows.blocks) > 1  # of several lengths
    runs, run = list[Any](), CompiledUpdate.run

    def watched(*given: Any) -> Any:
        runs.append(run(*given))
        return runs[-1]

    monkeypatch.setattr(CompiledUpdate, "run", watched)
    compiled = ascended(given, ours, 12)
    assert len(runs) == 12
    assert None not in runs
    monkeypatch.setattr(CompiledUpdate, "of", lambda *_: None)
    plain = ascended(given, theirs, 12)
    near = 1e-7 if dtype == torch.float64 else 2e-3
    for found, expected in zip(compiled, plain, strict=True):
        assert found[0] == pytest.approx(expected[0], rel=near)
        assert found[1] == pytest.approx(expected[1], rel=1e-3 if near < 1e-5 else 0.1)
        assert found[2] == pytest.approx(expected[2], rel=100 * near)
    assert compiled[0][3] > 0
    assert torch.allclose(parameters(ours), parameters(theirs), atol=10 * near)
    assert not torch.allclose(parameters(ours), parameters(policy(dtype)), atol=10 * near)


def test_it_is_taken_where_it_can_be() -> None:
    solver = SolverConfig()
    for dtype in (torch.float64, torch.float32):
        one = policy(dtype)
        adam = Adam(list(one.parameters()))
        assert CompiledUpdate.of(Estimator.of(problem(dtype), one), one, adam, solver) is not None
    for kind in ("stochastic", "frozen", "custom"):
        one = policy(kind="stochastic" if kind == "stochastic" else "deterministic")
        if kind == "frozen":
            next(one.parameters()).requires_grad_(False)
        if kind == "custom":
            one.__class__ = type("Custom", (DeterministicPolicy,), {})
        adam = Adam([p for p in one.parameters() if p.requires_grad])
        assert CompiledUpdate.of(Estimator.of(problem(), one), one, adam, solver) is None
    one = policy()
    adam, small = Adam(list(one.parameters())), SolverConfig(dense_below=N)
    assert CompiledUpdate.of(Estimator.of(problem(), one), one, adam, small) is None


def test_a_solve_that_does_not_end_changes_nothing() -> None:
    one = policy()
    before, adam = parameters(one), Adam(list(one.parameters()))
    hasty = SolverConfig(rtol=1e-12, max_matvecs=10)
    update = CompiledUpdate.of(Estimator.of(problem(), one), one, adam, hasty)
    assert update is not None
    assert update.run(None, 0.1) is None
    assert torch.equal(parameters(one), before)
    assert adam.n_steps == 0
    assert not update.start.q.any()


def test_an_ascent_goes_on_to_the_same_bits() -> None:
    given, whole, halves = problem(), policy(), policy()
    expected = ascended(given, whole, 10)
    state = AscentState()
    how, draws = TrainingConfig(learning_rate=0.01, rtol=1e-8), Seed(0).torch("policy-samples")
    begun = ascend(Estimator.of(given, halves), halves, how, 10, draws, state)
    first = [next(begun) for _ in range(4)]
    again = AscentState.from_plain(state.to_plain(), given.samples.rewards)
    rest = ascended(given, halves, 10, again)
    assert [u.objective for u in first] + [one[0] for one in rest] == [one[0] for one in expected]
    assert torch.equal(parameters(halves), parameters(whole))
    assert all(math.isfinite(value) for one in expected for value in one)
