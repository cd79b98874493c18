"""Samples with other actions, against the system that they came from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nopg
from nopg.bellman.paths import KEPT, MeanPaths, transported
from nopg.bellman.samples import Samples

NOISE, N = 0.1, 1200


@pytest.fixture(scope="module")
def both() -> tuple[Samples, Samples]:
    """Samples of v' = 0.9 v + 0.3 a + noise, r = a, and what was made of them."""
    rng = np.random.default_rng(0)
    v, a = rng.uniform(-1, 1, (N, 1)), rng.uniform(-1, 1, (N, 1))
    after = 0.9 * v + 0.3 * a + NOISE * rng.standard_normal((N, 1))
    data = nopg.Dataset(v, a, a[:, 0], after, np.zeros(N))
    samples = Samples.of(data, torch.float64, "cpu")
    paths = MeanPaths.of(samples, nopg.Bandwidths([0.2], [0.6]), 0.9)
    return samples, transported(samples, paths, np.random.default_rng(1))


def test_most_actions_are_at_the_ends_of_those_taken(both: tuple[Samples, Samples]) -> None:
    before, after = both
    is_kept = (before.next_states == after.next_states)[:, 0]
    # And the few that were at an end already, where the draw was their own gust.
    assert N // KEPT <= int(is_kept.sum()) < 1.05 * N // KEPT
    torch.testing.assert_close(before.states, after.states, rtol=0, atol=0)
    kept = (before.actions[is_kept], after.actions[is_kept])
    torch.testing.assert_close(*kept, rtol=0, atol=0)
    assert float(after.actions[~is_kept].abs().min()) > 0.8
    assert float(after.actions.abs().max()) <= 1.0


def test_steps_are_those_of_the_system_in_the_same_noise(both: tuple[Samples, Samples]) -> None:
    before, after = both
    moved = (before.next_states != after.next_states)[:, 0]
    mean = 0.9 * after.states + 0.3 * after.actions
    gusts = (after.next_states - mean)[moved][:, 0]
    # 800 draws of 1,200 gusts: the mean is known to 0.1 / sqrt(800), and the
    # regression's own to about as much.
    assert abs(float(gusts.mean())) < 4.0 * NOISE / np.sqrt(800)
    assert float(gusts.std()) == pytest.approx(NOISE, rel=0.1)
    along = torch.stack([after.states[moved, 0], after.actions[moved, 0]])
    assert float((along @ gusts).abs().max()) / int(moved.sum()) < 0.02
    torch.testing.assert_close(after.rewards[moved], after.actions[moved, 0], rtol=0, atol=0.02)
    assert bool((after.continuation == 1.0).all())
