"""Policies as arrays against the same policies as modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nopg.errors import ConfigError
from nopg.policies.arrays import ArrayPolicies, actor_of
from nopg.policies.build import PolicySpec, linear_policy
from nopg.policies.families import Policy, as_policy

LOW, HIGH = torch.tensor([-2.0, 1.0]), torch.tensor([2.0, 5.0])


def build(kind: str, seed: int, **changes: object) -> Policy:
    n_outputs = 4 if kind == "discrete" else 2
    spec = PolicySpec(kind=kind, n_states=3, n_outputs=n_outputs, **changes)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(seed)
    policy = spec.build(generator, *(() if kind == "discrete" else (LOW, HIGH)))
    if spec.is_standardised:
        scale = torch.tensor([1.0, 10.0, 0.1]).double()
        states = torch.randn((50, 3), generator=generator, dtype=torch.float64)
        policy.standardise.fit_to(states * scale + seed)  # type: ignore[operator, union-attr]
    return policy


def team_of_three(kind: str, **changes: object) -> tuple[list[Policy], torch.Tensor]:
    states = torch.randn(
        (3 * 7, 3), generator=torch.Generator().manual_seed(9), dtype=torch.float64
    )
    return [build(kind, seed, **changes) for seed in range(3)], 5.0 * states


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("deterministic", {}),
        ("deterministic", {"hidden": (8, 5)}),
        ("deterministic", {"hidden": ()}),
        ("deterministic", {"is_standardised": False}),
        ("deterministic", {"is_squashed": False}),
        ("stochastic", {}),
        ("stochastic", {"is_squashed": False}),
        ("discrete", {}),
        ("discrete", {"hidden": (6, 6, 6)}),
    ],
)
def test_arrays_act_as_the_modules_do(kind: str, changes: dict[str, object]) -> None:
    team, states = team_of_three(kind, **changes)
    ours = ArrayPolicies(team).act(states.numpy())
    theirs = [
        policy.outputs(part)[0].detach() for policy, part in zip(team, states.chunk(3), strict=True)
    ]
    assert ours == pytest.approx(torch.cat(theirs).numpy(), rel=1e-12, abs=1e-14)


def test_decided_labels_are_the_likeliest() -> None:
    team, states = team_of_three("discrete")
    ours = ArrayPolicies(team, is_decided=True).act(states.numpy())
    labels = [p.act(part) for p, part in zip(team, states.chunk(3), strict=True)]
    assert np.array_equal(ours, np.eye(4)[torch.cat(labels).numpy()])
    assert len(set(ours.argmax(axis=1))) > 1


def test_other_policies_have_nothing_to_decide() -> None:
    team, states = team_of_three("deterministic")
    decided, plain = (ArrayPolicies(team, is_decided=d).act(states.numpy()) for d in (True, False))
    assert np.array_equal(decided, plain)


def test_weights_are_copies() -> None:
    (policy, *_), states = team_of_three("deterministic")
    arrays = ArrayPolicies([policy])
    before = arrays.act(states.numpy())
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
    assert np.array_equal(arrays.act(states.numpy()), before)


def test_states_are_not_changed() -> None:
    team, states = team_of_three("deterministic", is_standardised=False, hidden=())
    before = states.clone()
    ArrayPolicies(team).act(states.numpy())
    assert torch.equal(states, before)


@pytest.mark.parametrize("gain", [[0.5, -1.0], [[0.5, -1.0, 2.0], [1.0, 0.3, -0.7]]])
def test_gains_are_linear_layers(gain: Any) -> None:
    policy = linear_policy(gain)
    states = torch.randn((4, np.shape(gain)[-1]), dtype=torch.float64)
    expected = policy.act(states).detach().numpy()
    found = ArrayPolicies([policy]).act(states.numpy())
    assert found == pytest.approx(expected, rel=1e-12)


def test_other_modules_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be perceptrons"):
        ArrayPolicies([as_policy(torch.nn.Linear(3, 1))])


def test_any_module_can_act() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Tanh()).double()
    states = torch.randn((5, 3), dtype=torch.float64)
    found = actor_of(as_policy(module)).act(states.numpy())
    assert found == pytest.approx(module(states).detach().numpy(), abs=1e-12)


def test_a_network_with_other_activations_is_not_taken_for_a_perceptron() -> None:
    policy, states = build("discrete", 0), torch.randn((9, 3), dtype=torch.float64)
    policy.network[1] = torch.nn.Tanh()  # type: ignore[operator, assignment]
    with pytest.raises(ConfigError, match="must be perceptrons"):
        ArrayPolicies([policy])
    labels = actor_of(policy).act(states.numpy())
    assert np.array_equal(labels, np.eye(4)[policy.act(states).numpy()])


def test_several_policies_act_on_their_own_states_whatever_their_shapes() -> None:
    policies, states = team_of_three("deterministic")
    wider = build("deterministic", 3, hidden=(7,))
    for team in (policies, [*policies[:2], wider]):
        found = actor_of(*team).act(states.numpy())
        for policy, some in zip(team, torch.arange(len(states)).chunk(3), strict=True):
            with torch.no_grad():
                expected = policy.act(states[some]).numpy()
            np.testing.assert_allclose(found[some], expected, atol=1e-12)
