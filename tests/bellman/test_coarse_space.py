"""Which coarse space solves are given: none, smooth functions, or cells."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nopg
from nopg.bellman import problem as problem_module
from nopg.bellman.problem import EstimatorConfig, Problem
from nopg.bellman.samples import Samples
from nopg.cli.swing_up import grid_dataset
from nopg.data.dataset import Dataset
from nopg.linalg.coarse import CoarseCells, Modes
from nopg.randomness import Seed

WIDE = nopg.Bandwidths([0.3, 0.3, 1.0], [2.0])


def build(data: Dataset, bandwidths: nopg.Bandwidths) -> Problem:
    samples = Samples.of(data, torch.float64, "cpu")
    generator = Seed(0).torch("next-states")
    config = EstimatorConfig(gamma=0.97)
    return Problem.build(samples, samples.states[:1], bandwidths, config, generator)


def test_it_goes_by_the_number_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build(grid_dataset(11, 11), WIDE).coarse is None  # 242: solved directly
    assert isinstance(build(grid_dataset(12, 12), WIDE).coarse, Modes)
    monkeypatch.setattr(problem_module, "MANY", 288)
    assert isinstance(build(grid_dataset(12, 12), WIDE).coarse, CoarseCells)


def test_scattered_data_goes_without() -> None:
    """Six dimensions, narrow kernels: every sample is a direction of its own."""
    draws = Seed(0).numpy("data")
    states = draws.normal(size=(400, 6))
    following = states + 0.1 * draws.normal(size=states.shape)
    actions = draws.uniform(-1.0, 1.0, (400, 1))
    ended = np.zeros(400, dtype=bool)
    data = Dataset(states, actions, -(states**2).sum(axis=1), following, ended)
    assert build(data, nopg.Bandwidths([0.2] * 6, [0.5])).coarse is None
    assert isinstance(build(data, nopg.Bandwidths([2.0] * 6, [0.5])).coarse, Modes)
