"""Distilled policies: what they do then, at the states that matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nopg.algorithms.search.distillation import Student, distil
from nopg.algorithms.search.planning import DistillationTargets
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy


def build(kind: str, n_outputs: int, hidden: tuple[int, ...] | None = (50,)) -> Policy:
    spec = PolicySpec(kind=kind, n_states=2, n_outputs=n_outputs, hidden=hidden)
    box = torch.full((n_outputs,), 3.0)
    generator = torch.Generator().manual_seed(0)
    return spec.build(generator, *(() if kind == "discrete" else (-box, box)))


@pytest.fixture
def states() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, size=(300, 2))


@pytest.mark.parametrize("kind", ["deterministic", "stochastic"])
def test_actions_become_the_targets(kind: str, states: np.ndarray) -> None:
    wanted = np.stack([2.0 * np.sin(2 * states[:, 0]), states[:, 1]], axis=1)
    policy = build(kind, 2)
    before = policy.outputs(torch.tensor(states))[-1].detach()
    left = distil(policy, DistillationTargets(states, wanted, np.ones(300), 1))
    outputs = [output.detach().numpy() for output in policy.outputs(torch.tensor(states))]
    span = np.ptp(wanted, axis=0)
    error = (((outputs[0] - wanted) / span) ** 2).mean()
    assert left == pytest.approx(error)
    assert left < 1e-3
    if kind == "stochastic":  # the head of the spread has no target
        assert (outputs[1] > 0.1 * before.numpy()).all()


def test_labels_become_likely(states: np.ndarray) -> None:
    labels = (states[:, 0] > 0).astype(int) + (states[:, 1] > 0.3)
    policy = build("discrete", 3)
    left = distil(policy, DistillationTargets(states, np.eye(3)[labels], np.ones(300), 1))
    probabilities = policy.outputs(torch.tensor(states))[0].detach().numpy()
    likelihood = np.log(probabilities[np.arange(300), labels])
    assert left == pytest.approx(-likelihood.mean())
    assert (probabilities.argmax(axis=1) == labels).mean() > 0.95


def test_only_states_with_an_advantage_count(states: np.ndarray) -> None:
    wanted = states[:, :1].copy()
    weights = (np.arange(300) % 2).astype(np.float64)
    wanted[weights == 0.0] = 2.5  # any action would do there
    policy = build("deterministic", 1)
    distil(policy, DistillationTargets(states, wanted, weights, 1))
    actions = policy(torch.tensor(states)).detach().numpy()
    assert actions == pytest.approx(states[:, :1], abs=0.15)


def test_without_advantages_nothing_is_learned(states: np.ndarray) -> None:
    policy = build("deterministic", 1)
    before = [p.clone() for p in policy.parameters()]
    assert distil(policy, DistillationTargets(states, states[:, :1], np.zeros(300), 1)) == 0.0
    for now, then in zip(policy.parameters(), before, strict=True):
        assert torch.equal(now, then)


@pytest.mark.parametrize(
    ("kind", "hidden"),
    [
        ("deterministic", (50,)),
        ("deterministic", (8, 6)),
        ("deterministic", None),
        ("stochastic", (8, 6)),
        ("stochastic", None),
        ("discrete", (8, 6)),
    ],
)
def test_gradients_are_those_of_autograd(
    kind: str, hidden: tuple[int, ...] | None, states: np.ndarray
) -> None:
    policy, rng = build(kind, 2, hidden), np.random.default_rng(1)
    labels = (states[:, 0] > 0).astype(int)
    wanted = np.eye(2)[labels] if kind == "discrete" else rng.normal(size=(300, 2))
    weights, rows = rng.uniform(0, 2, 300), np.arange(7, 90)
    targets = DistillationTargets(states, wanted, weights, 1)
    student = Student(policy, targets, torch.float64)
    error = student.error(rows)
    made = policy.outputs(torch.tensor(states[rows]))[0]
    aim = torch.tensor(wanted[rows])
    span = torch.tensor(np.ptp(wanted, axis=0))
    each = ((made - aim) / span).square().mean(dim=1)
    if kind == "discrete":
        each = -(aim * made.log()).sum(dim=1)
    truth = (torch.tensor(weights[rows]) * each).mean()
    assert error == pytest.approx(truth.item())
    truth.backward()  # type: ignore[no-untyped-call]
    student.parameters += student.ascent  # one step of gradient descent
    before = [p.detach().clone() for p in policy.parameters()]
    student.teach(policy)
    for now, then in zip(policy.parameters(), before, strict=True):
        slope = torch.zeros_like(then) if now.grad is None else now.grad
        assert (then - now).detach().numpy() == pytest.approx(slope.numpy(), abs=1e-12)
