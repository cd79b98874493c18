"""One torch thread a test process, and GPU kernels interpreted where there is no GPU.

One thread: results repeat, and workers do not compete.
"""

from __future__ import annotations

import os

import pytest
import torch

torch.set_num_threads(1)
if not torch.cuda.is_available():
    # Before anything imports Triton, whose kernels are interpreted or compiled from
    # their definition on.
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20201)
