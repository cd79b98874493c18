"""A small model that several tests put questions to."""

from __future__ import annotations

import pytest

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset

GAMMA = 0.9


@pytest.fixture(scope="module")
def model() -> nopg.FittedPolicy:
    """A pendulum after five updates from 200 samples."""
    algorithm = nopg.NOPG(gamma=GAMMA, hidden=(8,), rows="nadaraya-watson")
    return algorithm.fit(grid_dataset(10, 10), BOTTOM, n_updates=5, progress=False)
