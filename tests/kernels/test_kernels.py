"""Kernels are Gaussian, peak at zero in the log domain, and never underflow."""

from __future__ import annotations

import math

import pytest
import torch

from nopg.kernels.neighbours import log_label_similarity, log_similarity


def test_similarity_is_a_gaussian_over_its_peak(generator: torch.Generator) -> None:
    x, c = torch.randn((2, 7, 2), dtype=torch.float64, generator=generator)
    h = torch.tensor([0.5, 0.9], dtype=torch.float64)
    normal = torch.distributions.Normal(c, h, validate_args=False)
    density = normal.log_prob(x[:, None]).sum(-1)  # type: ignore[no-untyped-call]
    peak = normal.log_prob(c).sum(-1)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(log_similarity(x, c, h), density - peak)


def test_similarity_is_zero_at_the_centre_and_finite_far_away() -> None:
    h = torch.tensor([0.1], dtype=torch.float64)
    x = torch.tensor([[0.0], [1e5]], dtype=torch.float64)
    found = log_similarity(x, x[:1], h)
    assert found[0, 0] == 0.0
    assert found[1, 0] == pytest.approx(-0.5e12)


def test_infinite_bandwidth_ignores_a_dimension() -> None:
    x = torch.tensor([[0.0, 3.0], [0.0, -7.0]], dtype=torch.float64)
    h = torch.tensor([1.0, math.inf], dtype=torch.float64)
    assert log_similarity(x, x, h).abs().max() == 0.0


def test_labels_follow_aitchison_and_aitken() -> None:
    similarity = log_label_similarity(3, 0.3).exp()
    kernel = similarity * 0.7
    torch.testing.assert_close(kernel.sum(dim=1), torch.ones(3, dtype=torch.float64))
    assert float(kernel[0, 1]) == pytest.approx(0.15)
