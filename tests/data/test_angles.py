"""Cosine and sine columns are found, others are left alone."""

from __future__ import annotations

import numpy as np
import torch

from nopg.data.validation import angle_pairs


def circles() -> np.ndarray:
    rng = np.random.default_rng(0)
    first, second = rng.uniform(-np.pi, np.pi, (2, 50))
    return np.column_stack(
        [
            np.cos(first),
            rng.normal(size=50),
            np.sin(second),
            np.sin(first),
            np.cos(second),
            np.zeros(50),
            np.ones(50),
        ]
    )


def test_pairs_are_found_in_arrays_and_tensors() -> None:
    assert angle_pairs(circles()) == [(0, 3), (2, 4)]
    assert angle_pairs(torch.as_tensor(circles())) == [(0, 3), (2, 4)]


def test_off_the_circle_there_is_no_angle() -> None:
    states = circles()
    states[7, 0] += 2e-4 / abs(states[7, 0])
    assert angle_pairs(states) == [(2, 4)]
    assert angle_pairs(states[:1]) == []
