"""Distilled policies: what they do then, at the states that matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nopg.algorithms.search import distillation
from nopg.algorithms.search.distillation import MAX_STEPS, Lesson, distil
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
    targets = DistillationTargets(states, wanted, np.ones(300), 1)
    distil(policy, targets)
    left = float(Lesson(policy, targets).error(slice(None)).detach())
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
    targets = DistillationTargets(states, np.eye(3)[labels], np.ones(300), 1)
    distil(policy, targets)
    left = float(Lesson(policy, targets).error(slice(None)).detach())
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
    distil(policy, DistillationTargets(states, states[:, :1], np.zeros(300), 1))
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
        ("discrete", (64, 64, 9)),
    ],
)
@pytest.mark.parametrize("n_rows", [None, 7, 83])
def test_compiled_steps_are_those_of_autograd(
    kind: str, hidden: tuple[int, ...] | None, n_rows: int | None, states: np.ndarray
) -> None:
    """Of Adam on gradients of torch: a handful, before single precision shows."""
    rng = np.random.default_rng(1)
    wanted = rng.normal(size=(300, 2))
    if kind == "discrete":
        wanted = np.eye(2)[(states[:, 0] > 0).astype(int)]
    targets = DistillationTargets(states, wanted, rng.uniform(0, 2, 300), 1)
    rows = None if n_rows is None else rng.integers(300, size=(6, n_rows))
    rates = np.linspace(1e-2, 1e-3, 6)
    ours, truth = build(kind, 2, hidden), build(kind, 2, hidden)
    first = [p.detach().clone() for p in truth.parameters()]
    if not Lesson(ours, targets).learned_in_c(rates, rows):
        pytest.skip("there is no C compiler")
    Lesson(truth, targets).learn(rates, rows)
    for one, other, before in zip(ours.parameters(), truth.parameters(), first, strict=True):
        moved = (other - before).detach().numpy()
        assert (one - before).detach().numpy() == pytest.approx(moved, rel=1e-2, abs=2e-5)
    assert any((p != q).any() for p, q in zip(truth.parameters(), first, strict=True))


def test_any_number_of_threads_learns_the_same(
    states: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = DistillationTargets(states, np.sin(3.0 * states), np.ones(300), 1)
    found = []
    for count in (1, 3, 50):
        monkeypatch.setattr(distillation, "n_workers", lambda count=count: count)
        found.append(build("deterministic", 2, (16, 9)))
        distil(found[-1], targets, MAX_STEPS)
    for others in zip(*(policy.parameters() for policy in found), strict=True):
        assert torch.equal(others[0], others[1])
        assert torch.equal(others[0], others[2])


@pytest.mark.parametrize("most", [0, MAX_STEPS])
def test_without_a_compiler_torch_teaches(
    most: int, states: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distillation, "compiled", lambda *given: None)
    policy, wanted = build("stochastic", 2), np.stack([states[:, 1], states[:, 0]], axis=1)
    targets = DistillationTargets(states, wanted, np.ones(300), 1)
    distil(policy, targets, most)
    assert Lesson(policy, targets).error(slice(None)) < 1e-3
