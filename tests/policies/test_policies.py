"""Every policy: shapes, bounds, gradients, the same bits from the same seed."""

from __future__ import annotations

import pytest
import torch

from nopg.errors import ConfigError
from nopg.policies.build import PerceptronPass, PolicySpec, linear_policy
from nopg.policies.families import Policy, as_policy, checked_outputs

LOW, HIGH = torch.tensor([-2.0, 1.0]), torch.tensor([2.0, 5.0])


def build(kind: str, seed: int = 0, **changes: object) -> Policy:
    n_outputs = 4 if kind == "discrete" else 2
    spec = PolicySpec(kind=kind, n_states=3, n_outputs=n_outputs, **changes)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(seed)
    return spec.build(generator, *(() if kind == "discrete" else (LOW, HIGH)))


@pytest.mark.parametrize("kind", ["deterministic", "stochastic", "discrete"])
def test_outputs_have_the_right_shape_and_reach_every_parameter(
    kind: str, generator: torch.Generator
) -> None:
    policy = build(kind)
    states = torch.randn((7, 3), dtype=torch.float64, generator=generator)
    outputs = checked_outputs(policy, states, 4 if kind == "discrete" else 2)
    weights = [torch.randn(o.shape, generator=generator).double() for o in outputs]
    torch.autograd.backward(outputs, weights)
    assert all(p.grad is not None and p.grad.any() for p in policy.parameters())


def test_a_box_may_be_columns_of_a_table_and_is_copied() -> None:
    table, states = torch.tensor([[-2.0, 2.0], [1.0, 5.0]]).double(), torch.zeros(5, 3).double()
    generator = torch.Generator().manual_seed(0)
    policy = PolicySpec(kind="deterministic", n_states=3, n_outputs=2).build(generator, *table.T)
    PerceptronPass.of(policy, states)  # in C, where there is a compiler
    before = policy(states)
    table.zero_()
    assert torch.equal(policy(states), before)


@pytest.mark.parametrize("kind", ["deterministic", "stochastic", "discrete"])
def test_same_seed_same_bits(kind: str) -> None:
    pairs = zip(build(kind, 3).parameters(), build(kind, 3).parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    other = next(build(kind, 4).parameters())
    assert not torch.equal(next(build(kind, 3).parameters()), other)


@pytest.mark.parametrize("kind", ["deterministic", "stochastic"])
def test_actions_stay_in_the_box_in_user_units(kind: str) -> None:
    policy = build(kind, is_standardised=False)
    far = 1e4 * torch.randn(
        (200, 3), dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    actions = policy(far).detach()
    assert (actions >= LOW).all()
    assert (actions <= HIGH).all()
    assert float((actions - LOW).min()) < 1e-6  # and they reach its edges


def test_probabilities_sum_to_one_and_draws_follow_them() -> None:
    policy = build("discrete")
    state = torch.zeros((20_000, 3), dtype=torch.float64)
    probabilities = policy.outputs(state[:1])[0].detach()
    assert float(probabilities.sum()) == pytest.approx(1.0)
    draws = policy.act(state, torch.Generator().manual_seed(0))
    frequencies = torch.bincount(draws, minlength=4) / len(draws)
    assert (frequencies - probabilities[0]).abs().max() < 0.02


def test_gaussian_draws_have_the_stated_moments() -> None:
    policy = build("stochastic")
    state = torch.ones((40_000, 3), dtype=torch.float64)
    mean, std = (output[0].detach() for output in policy.outputs(state[:1]))
    draws = policy.act(state, torch.Generator().manual_seed(0)).detach()
    torch.testing.assert_close(draws.mean(dim=0), mean, rtol=0, atol=0.03)
    torch.testing.assert_close(draws.std(dim=0), std, rtol=0.03, atol=0)


def test_linear_policies_multiply() -> None:
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    assert linear_policy([0.5, -1.0])(x).tolist() == [[0.5, -2.0]]
    assert linear_policy([[1.0, 1.0]])(x).tolist() == [[3.0]]
    mean, std = linear_policy([0.5, -1.0], std=[0.1, 0.2]).outputs(x)
    assert mean.tolist() == [[0.5, -2.0]]
    assert std.tolist() == [[0.1, 0.2]]


def test_any_module_is_a_deterministic_policy() -> None:
    module = torch.nn.Linear(3, 2, dtype=torch.float64)
    x = torch.ones((5, 3), dtype=torch.float64)
    assert torch.equal(as_policy(module)(x), module(x))


def test_wrong_shapes_and_nan_are_refused() -> None:
    x = torch.ones((5, 3), dtype=torch.float64)
    with pytest.raises(ConfigError, match=r"actions of shape \(5, 2\)"):
        checked_outputs(as_policy(torch.nn.Identity()), x, 2)
    with pytest.raises(ConfigError, match="finite"):
        checked_outputs(as_policy(torch.nn.Identity()), x * torch.nan, 3)


@pytest.mark.parametrize("changes", [{"hidden": (0,)}, {"kind": "tabular"}])
def test_bad_specs_are_refused(changes: dict[str, object]) -> None:
    arguments = {"kind": "deterministic", "n_states": 3, "n_outputs": 2} | changes
    with pytest.raises(ConfigError):
        PolicySpec(**arguments)  # type: ignore[arg-type]
