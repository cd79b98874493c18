"""The network by the kernel, against torch's layers and autograd."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="Triton is not available on this platform")

from nopg.gpu import perceptron
from nopg.gpu.perceptron import FusedNetwork, fits
from nopg.policies.build import mlp
from tests.gpu.launches import DEVICE


def network(d: int, n_units: int, d_a: int) -> nn.Sequential:
    return mlp(d, d_a, (n_units,), torch.Generator().manual_seed(3)).to(DEVICE)


@pytest.mark.parametrize(
    ("m", "d", "n_units", "d_a"), [(70, 4, 50, 1), (9, 1, 3, 2), (1, 3, 200, 1)]
)
def test_actions_and_gradients_are_those_of_the_layers(
    m: int, d: int, n_units: int, d_a: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perceptron, "PROGRAMS", 2)  # several tiles each
    plain = network(d, n_units, d_a)
    fused = FusedNetwork(*plain)
    draw = torch.Generator().manual_seed(4)
    x, slope = (
        torch.randn((m, width), generator=draw, dtype=torch.float64).to(DEVICE)
        for width in (d, d_a)
    )
    expected, found = plain(x), fused(x)
    torch.testing.assert_close(found, expected)
    weights = list(plain.parameters())
    exact = torch.autograd.grad(expected, weights, slope)
    for mine, its in zip(torch.autograd.grad(found, weights, slope), exact, strict=True):
        torch.testing.assert_close(mine, its)


def test_what_the_kernel_takes() -> None:
    assert fits(network(4, 50, 1))
    assert not fits(network(9, 50, 1))
    assert not fits(network(4, 300, 1))
    assert not fits(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)))
    deep = nn.Sequential(*network(4, 50, 50), nn.ReLU(), nn.Linear(50, 1))
    assert not fits(deep)
    assert not fits(nn.Sequential(nn.Linear(4, 5, False), nn.ReLU(), nn.Linear(5, 1)))
