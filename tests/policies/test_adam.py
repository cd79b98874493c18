"""Our Adam against torch's, to the last bit."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from nopg.policies.adam import Adam


def networks(dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    net = nn.Sequential(nn.Linear(3, 50), nn.ReLU(), nn.Linear(50, 2)).to(dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(generator=generator)
    return net, copy.deepcopy(net)


def gradients_of(net: nn.Module, generator: torch.Generator) -> list[Tensor]:
    return [torch.randn(p.shape, dtype=p.dtype, generator=generator) for p in net.parameters()]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_same_bits_as_torch(dtype: torch.dtype) -> None:
    theirs, ours = networks(dtype)
    reference = torch.optim.Adam(theirs.parameters(), lr=1.0, maximize=True)
    adam = Adam(list(ours.parameters()))
    generator = torch.Generator().manual_seed(1)
    for step in range(60):
        rate = 1e-2 / (1 + step)
        scale = 10.0 ** ((step % 7) - 5)
        gradients = [scale * g for g in gradients_of(ours, generator)]
        reference.param_groups[0]["lr"] = rate
        for parameter, gradient in zip(theirs.parameters(), gradients, strict=True):
            parameter.grad = gradient.clone()
        reference.step()
        adam.step(gradients, rate)
    for left, right in zip(theirs.parameters(), ours.parameters(), strict=True):
        assert torch.equal(left, right)


def test_it_goes_on_to_the_same_bits() -> None:
    whole, stopped = networks(torch.float64)
    generator = torch.Generator().manual_seed(2)
    steps = [gradients_of(whole, generator) for _ in range(10)]
    adam, first = Adam(list(whole.parameters())), Adam(list(stopped.parameters()))
    for gradients in steps:
        adam.step(gradients, 1e-2)
    for gradients in steps[:4]:
        first.step(gradients, 1e-2)
    kept = copy.deepcopy(first.state_dict())
    first.step(steps[0], 1.0)  # what was kept is not touched by later steps
    _, fresh = networks(torch.float64)
    again = Adam(list(fresh.parameters()))
    for gradients in steps[:4]:
        again.step(gradients, 1e-2)
    second = Adam(list(fresh.parameters()))
    second.load_state_dict(kept)
    for gradients in steps[4:]:
        second.step(gradients, 1e-2)
    for left, right in zip(whole.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(left, right)


def test_moments_of_another_network_are_refused() -> None:
    adam = Adam([torch.zeros(3)])
    with pytest.raises(ValueError, match="shapes"):
        Adam([torch.zeros(4)]).load_state_dict(adam.state_dict())


def test_training_does_not_import_torchs_compiler() -> None:
    """It takes seconds, more than a small training."""
    script = (
        "import sys, numpy as np, nopg\n"
        "from nopg.cli.swing_up import BOTTOM, grid_dataset\n"
        "model = nopg.NOPG(bandwidths=nopg.Bandwidths([0.6] * 3, [2.0]))\n"
        "model.fit(grid_dataset(8, 8), BOTTOM, 2, progress=False)\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
