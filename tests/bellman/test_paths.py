"""Mean paths against the system itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import nopg
from nopg.bellman.paths import MeanPaths
from nopg.bellman.samples import Samples
from nopg.policies.build import linear_policy

GAMMA = 0.95


def integrator(n: int = 2000) -> nopg.Dataset:
    """A mass on a line, pushed at random."""
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (n, 1))
    return nopg.Dataset(
        states, actions, -(states**2).sum(axis=1), moved(states, actions), np.zeros(n)
    )


def moved(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    x, v = states.T
    return np.column_stack([x + 0.1 * v, v + 0.2 * actions[:, 0]])


def paths(data: nopg.Dataset) -> MeanPaths:
    samples = Samples.of(data, torch.float64, "cpu")
    return MeanPaths.of(samples, nopg.Bandwidths([0.1, 0.1], [0.3]), GAMMA)


def test_return_is_that_of_the_system() -> None:
    data, gain = integrator(), np.array([[-1.0, -1.5]])
    start = np.array([[0.5, 0.2]])
    found = paths(data).returns([linear_policy(gain.tolist())], torch.tensor(start))
    state, expected = start, 0.0
    for t in range(104):
        expected -= GAMMA**t * float((state**2).sum())
        state = moved(state, state @ gain.T)
    # The reward is curved: a regression takes off at most 2 h^2 a step.
    bias = 2 * 0.1**2 / (1.0 - GAMMA)
    assert expected - bias < float(found[0, 0]) < expected + 0.05 * bias


def test_what_runs_away_is_lost_and_worth_less_than_any_reward() -> None:
    data = integrator()
    starts = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    outward, still = (linear_policy([[g, g]]) for g in (2.0, 0.0))
    away, drifts = paths(data).returns([outward, still], starts)[:, 0].tolist()
    worst = float(data.rewards.min())
    assert away < drifts < 0.5 * worst / (1.0 - GAMMA)


def test_labels_and_ends() -> None:
    rng = np.random.default_rng(1)
    states = rng.uniform(-1, 1, (500, 1))
    labels = rng.integers(0, 2, 500)
    after = states + 0.2 * (2 * labels[:, None] - 1)
    data = nopg.Dataset(states, labels, np.ones(500), after, np.abs(after[:, 0]) > 1.0)
    samples = Samples.of(data, torch.float64, "cpu")
    made = MeanPaths.of(samples, nopg.Bandwidths([0.1], [1e-3]), GAMMA)
    from nopg.policies.build import PolicySpec

    spec = PolicySpec(kind="discrete", n_states=1, n_outputs=2, hidden=None, is_standardised=False)
    returning, leaving = (spec.build(torch.Generator()) for _ in range(2))
    with torch.no_grad():
        for policy, sign in ((returning, -1.0), (leaving, 1.0)):
            (gain,) = policy.parameters()
            gain.copy_(torch.tensor([[-5.0 * sign], [5.0 * sign]]))
    start = torch.tensor([[0.3]], dtype=torch.float64)
    stays, ends = made.returns([returning, leaving], start)[:, 0].tolist()
    assert stays > 0.9 / (1.0 - GAMMA)
    assert ends < 6.0


def test_slow_drift_is_followed_to_its_end() -> None:
    # v' = v + a / 10 under a = 0.004 moves by 0.0004 a step: a regression whose slopes
    # are shrunk to nothing finds a balance on the way.
    rng = np.random.default_rng(2)
    v, a = rng.uniform(-1, 1, (300, 1)), rng.uniform(-1, 1, (300, 1))
    after = 1.002 * v + 0.1 * a
    data = nopg.Dataset(v, a, np.ones(300), after, np.abs(after[:, 0]) > 1.0)
    samples = Samples.of(data, torch.float64, "cpu")
    gamma = 0.9995
    made = MeanPaths.of(samples, nopg.Bandwidths([0.2], [0.3]), gamma)
    start = torch.tensor([[0.2]], dtype=torch.float64)
    held, drifts = made.returns([linear_policy([[g]]) for g in (-0.5, 0.0)], start)
    steps = np.log(1.0 / 0.2) / np.log(1.002)  # until |v| is 1
    expected = (1.0 - gamma**steps) / (1.0 - gamma)
    assert abs(float(drifts[0]) / expected - 1.0) < 0.02
    assert float(held[0]) > 0.9 / (1.0 - gamma)


def test_limit_ends_a_path_where_nobody_crossed_it() -> None:
    # Only slow samples reach the end of the line; the path arrives fast.
    rng = np.random.default_rng(3)
    x, v = rng.uniform(0, 1, 600), rng.uniform(-0.2, 0.2, 600)
    v[x > 0.7] *= 0.3
    a = rng.uniform(-1, 1, (600, 1))
    after = np.column_stack([x + v, v + 0.02 * a[:, 0]])
    ends = after[:, 0] > 1.0
    states = np.column_stack([x, v])
    rewards = np.where(ends, -50.0, -1.0)  # of falling off the end
    data = nopg.Dataset(states, a, rewards, after, ends)
    samples = Samples.of(data, torch.float64, "cpu")
    made = MeanPaths.of(samples, nopg.Bandwidths([0.05, 0.01], [0.5]), GAMMA)
    start = torch.tensor([[0.1, 0.15]], dtype=torch.float64)
    found = made.returns([linear_policy([[0.0, 0.0]])], start)
    until = -(1.0 - GAMMA**6) / (1.0 - GAMMA)
    assert float(found[0, 0]) == pytest.approx(until - 50.0 * GAMMA**6, rel=0.02)


def test_wall_stops_a_path_as_it_stopped_the_samples() -> None:
    # At 0 a car stands still; only slow ones were seen to run into it.
    rng = np.random.default_rng(4)
    x, v = rng.uniform(0, 1, 800), rng.uniform(-0.15, 0.15, 800)
    v[x < 0.2] = np.clip(v[x < 0.2], -0.05, 0.05)
    a = rng.uniform(-1, 1, (800, 1))
    after = np.column_stack([x + v, v + 0.02 * a[:, 0]])
    after[after[:, 0] <= 0.0] = 0.0
    states = np.column_stack([x, v])
    data = nopg.Dataset(states, a, -x, after, np.zeros(800))
    samples = Samples.of(data, torch.float64, "cpu")
    made = MeanPaths.of(samples, nopg.Bandwidths([0.05, 0.02], [0.5]), GAMMA)
    (wall,) = made.walls
    places = np.array([[-0.1, -0.12], [0.3, -0.12]])
    assert wall.stop(places).tolist() == [[0.0, 0.0], [0.3, -0.12]]


def test_drawn_paths_know_what_noise_costs() -> None:
    """E sum gamma^t (x^2 + v^2) of a linear system in noise has a closed form."""
    rng, gain, noise = np.random.default_rng(5), np.array([[-1.0, -1.5]]), 0.2
    states, actions = rng.uniform(-1, 1, (1500, 2)), rng.uniform(-2, 2, (1500, 1))
    after = moved(states, actions)
    after[:, 1] += noise * rng.standard_normal(1500)
    rewards = -(states**2).sum(axis=1)
    data = nopg.Dataset(states, actions, rewards, after, np.zeros(1500))
    samples = Samples.of(data, torch.float64, "cpu")
    made = MeanPaths.of(samples, nopg.Bandwidths([0.3, 0.3], [2.0]), GAMMA)
    closed = np.array([[1.0, 0.1], [0.0, 1.0]]) + np.array([[0.0], [0.2]]) @ gain
    # P = I + gamma A' P A; the start costs s' P s, and the noise of every later step
    # gamma / (1 - gamma) noise^2 P_vv.
    cost = np.linalg.solve(
        np.eye(4) - GAMMA * np.kron(closed.T, closed.T), np.eye(2).ravel()
    ).reshape(2, 2)
    start = np.array([0.4, 0.2])
    by_start = -float(start @ cost @ start)
    by_noise = -GAMMA / (1.0 - GAMMA) * noise**2 * float(cost[1, 1])
    policy, starts = linear_policy(gain.tolist()), torch.tensor(start[None])
    mean = float(made.returns([policy], starts)[0, 0])
    drawn = made.returns([policy], starts.repeat(200, 1), np.random.default_rng(0))
    # What a regression takes off a curved reward is the same for both. What it takes
    # for motion where it errs disturbs the path a little more than the noise does.
    assert mean > by_start + 0.5 * by_noise
    assert float(drawn.mean()) - mean == pytest.approx(by_noise, rel=0.25)


def test_gusts_are_the_same_for_every_policy() -> None:
    still = integrator(400)
    after = still.next_observations + 0.2 * np.random.default_rng(6).normal(size=(400, 2))
    data = replace(still, next_observations=after)
    starts = torch.tensor([[0.5, 0.2], [0.1, 0.0]], dtype=torch.float64)
    same = [linear_policy([[-1.0, -1.5]])] * 2
    one, other = paths(data).returns(same, starts, np.random.default_rng(0))
    np.testing.assert_array_equal(one, other)


def test_a_fall_in_noise_costs_what_it_costs_once() -> None:
    """A walk beside an edge, against as many walks of the system itself."""
    rng, n, noise = np.random.default_rng(7), 3000, 0.05

    def walk(x: np.ndarray, a: np.ndarray, draw: np.ndarray) -> np.ndarray:
        return np.asarray(x + 0.05 * a + noise * draw)

    x, a = rng.uniform(-1, 1, (n, 1)), rng.uniform(-1, 1, (n, 1))
    after = walk(x, a, rng.standard_normal((n, 1)))
    ends = after[:, 0] > 1.0
    data = nopg.Dataset(x, a, np.where(ends, -51.0, -1.0), after, ends)
    samples = Samples.of(data, torch.float64, "cpu")
    made = MeanPaths.of(samples, nopg.Bandwidths([0.05], [0.6]), GAMMA)
    start = np.full((400, 1), 0.85)
    policy = linear_policy([[-0.2]])
    found = made.returns([policy], torch.tensor(start), np.random.default_rng(8))
    state, total, alive = start, np.zeros(400), np.ones(400)
    for t in range(150):
        state = walk(state, -0.2 * state, rng.standard_normal((400, 1)))
        falls = state[:, 0] > 1.0
        total += GAMMA**t * alive * np.where(falls, -51.0, -1.0)
        alive *= ~falls
    spread = float(total.std()) / np.sqrt(400) * np.sqrt(2.0)
    assert abs(float(found.mean() - total.mean())) < 3.0 * spread


def test_an_end_tells_of_one_limit() -> None:
    """Poles fell at an angle; that some carts were farther out then than any other is chance."""
    rng = np.random.default_rng(1)
    n = 400
    states = np.column_stack([rng.uniform(-1, 1, n), rng.uniform(-0.2, 0.2, n)])
    following = states + 0.1 * rng.standard_normal((n, 2))
    following[:, 0] = np.clip(following[:, 0], -1, 1)
    following[:5] = [1.05, 0.5]  # fell, and out there
    ends = np.abs(following[:, 1]) > 0.2
    data = nopg.Dataset(states, rng.uniform(-1, 1, (n, 1)), np.ones(n), following, ends)
    least, most = paths(data).limits
    assert (least[0], most[0]) == (-np.inf, np.inf)
    assert [least[1], most[1]] == pytest.approx([-0.2, 0.2], abs=0.01)
