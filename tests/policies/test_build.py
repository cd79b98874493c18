"""Perceptrons differentiated by hand against autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nopg.policies.build import PerceptronPass, PolicySpec, linear_policy
from nopg.policies.families import DeterministicPolicy, GaussianPolicy, Policy


def made(kind: str, generator: torch.Generator, *, is_squashed: bool = True) -> Policy:
    spec = PolicySpec(kind=kind, n_states=3, n_outputs=2, hidden=(7, 5), is_squashed=is_squashed)
    low, high = torch.tensor([-1.0, 0.5]), torch.tensor([2.0, 4.0])
    policy = spec.build(generator, low, high)
    states = torch.randn((40, 3), dtype=torch.float64, generator=generator)
    policy.standardise.fit_to(3.0 * states + 1.0)  # type: ignore[operator, union-attr]
    return policy


def narrow(generator: torch.Generator) -> Policy:
    """A Gaussian policy whose spread does not depend on the state."""
    network = made("deterministic", generator).network
    return GaussianPolicy(network, torch.tensor([0.3, 0.4]))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["deterministic", "stochastic", "discrete", "narrow"])
@pytest.mark.parametrize("is_squashed", [True, False])
def test_outputs_and_slopes_are_those_of_autograd(
    kind: str, is_squashed: bool, generator: torch.Generator
) -> None:
    policy = narrow(generator) if kind == "narrow" else None
    policy = policy or made(kind, generator, is_squashed=is_squashed)
    states = 2.0 * torch.randn((30, 3), dtype=torch.float64, generator=generator)
    outputs = policy.outputs(states)
    found = PerceptronPass.of(policy, states)
    assert found is not None
    slopes = tuple(torch.randn(x.shape, generator=generator).double() for x in outputs)
    total = torch.stack([(x * s).sum() for x, s in zip(outputs, slopes, strict=True)]).sum()
    expected = torch.autograd.grad(total, list(policy.parameters()))
    for x, y in zip(found.outputs, outputs, strict=True):
        torch.testing.assert_close(x, y.detach())
    for x, y in zip(found.vjp(slopes), expected, strict=True):
        torch.testing.assert_close(x, y)
    jacobian: Any = torch.autograd.functional.jacobian
    whole = jacobian(lambda s: policy.outputs(s)[0].sum(0), states)
    torch.testing.assert_close(found.jacobian(), whole.movedim(1, 0))


def test_a_pass_is_made_again_with_the_parameters_of_now(generator: torch.Generator) -> None:
    policy = made("stochastic", generator)
    states = torch.randn((30, 3), dtype=torch.float64, generator=generator)
    first = PerceptronPass.of(policy, states)
    assert first is not None
    said = [output.clone() for output in first.outputs]
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1.1)
    second, fresh = first.again(), PerceptronPass.of(policy, states)
    assert fresh is not None
    assert all(torch.equal(x, y) for x, y in zip(first.outputs, said, strict=True))
    assert all(torch.equal(x, y) for x, y in zip(second.outputs, fresh.outputs, strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("m", [1, 63, 129, 30_000])
def test_any_number_of_states_and_threads(
    m: int, dtype: torch.dtype, generator: torch.Generator
) -> None:
    """Chunks that are not full, and sums whose digits do not depend on threads."""
    policy = made("stochastic", generator).to(dtype)
    states = torch.randn((m, 3), dtype=torch.float64, generator=generator).to(dtype)
    slopes = tuple(torch.randn((m, 2), generator=generator).to(dtype) for _ in range(2))
    found, before = [], torch.get_num_threads()
    for n_threads in (1, 2, 3):
        torch.set_num_threads(n_threads)
        one = PerceptronPass.of(policy, states)
        if one is None:
            pytest.skip("there is no C compiler")
        found.append([*one.outputs, *one.vjp(slopes), one.jacobian()])
    torch.set_num_threads(before)
    for others in found[1:]:
        assert all(torch.equal(x, y) for x, y in zip(found[0], others, strict=True))
    exact = policy.double()
    outputs = exact.outputs(states.double())
    total = sum((x * s.double()).sum() for x, s in zip(outputs, slopes, strict=True))
    assert isinstance(total, Tensor)
    expected = [*outputs, *torch.autograd.grad(total, list(exact.parameters()))]
    accuracy = 1e-12 if dtype == torch.float64 else 1e-4
    for x, y in zip(found[0], expected, strict=False):  # slopes by states are above
        largest = float(y.detach().abs().max())
        torch.testing.assert_close(
            x.double(), y.detach(), rtol=accuracy, atol=accuracy * (1.0 + largest)
        )


class Doubled(DeterministicPolicy):
    """A user's own, which says something else."""

    def outputs(self, states: Tensor) -> tuple[Tensor, ...]:
        return (2.0 * super().outputs(states)[0],)


def test_others_are_left_to_autograd(generator: torch.Generator) -> None:
    states = torch.ones((4, 3), dtype=torch.float64)
    network = made("deterministic", generator).network
    assert isinstance(network, nn.Sequential)
    bent = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    half = made("deterministic", generator)
    next(half.parameters()).requires_grad_(False)
    for policy in (
        Doubled(network),
        DeterministicPolicy(bent),
        DeterministicPolicy(nn.Identity()),
        linear_policy(torch.ones((2, 3))),
        linear_policy([1.0, 2.0, 3.0]),
        half,
    ):
        assert PerceptronPass.of(policy, states) is None
