"""Which solves are given a coarse inverse."""

from __future__ import annotations

import torch

import nopg
from nopg.bellman.problem import EstimatorConfig, Problem
from nopg.bellman.samples import Samples
from nopg.cli.swing_up import grid_dataset
from nopg.randomness import Seed

WIDE = nopg.Bandwidths([0.3, 0.3, 1.0], [2.0])


def build(side: int) -> Problem:
    samples = Samples.of(grid_dataset(side, side), torch.float64, "cpu")
    generator = Seed(0).torch("next-states")
    config = EstimatorConfig(gamma=0.97)
    return Problem.build(samples, samples.states[:1], WIDE, config, generator)


def test_it_goes_by_the_number_of_samples() -> None:
    assert build(11).coarse is None  # 242: solved directly
    cells = build(12).coarse
    assert cells is not None
    assert cells.cell.shape == (288,)
    assert len(cells.sizes) == 128
    assert 1.0 < cells.cost < 25.0
