"""Memory that runs out is told with the plan; nothing else is taken for it."""

from __future__ import annotations

import resource

import pytest
import torch

import nopg
from nopg.algorithms.nopg.memory import available_memory
from nopg.algorithms.nopg.out_of_memory import explained, is_shortage
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.errors import ConfigError, SolverError

GIVEN = nopg.Bandwidths([0.5, 0.5, 2.0], [2.0])


def test_what_torch_and_numpy_raise_is_recognised() -> None:
    import numpy as np

    found = []
    for allocate in (
        lambda: torch.empty(2**60, dtype=torch.uint8),
        lambda: np.empty(2**60, dtype=np.uint8),
    ):
        try:
            allocate()
        except (RuntimeError, MemoryError) as error:
            found.append(is_shortage(error))
    assert found == [True, True]


def test_other_errors_stay_what_they_are() -> None:
    assert not is_shortage(SolverError("can't allocate memory"))
    with pytest.raises(RuntimeError, match="shapes"), explained(None):
        raise RuntimeError("shapes do not match")


def test_a_shortage_while_training_is_one_sentence_with_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def greedy(policy: object, states: torch.Tensor, width: int) -> torch.Tensor:
        return torch.empty(2**60, dtype=torch.uint8)

    monkeypatch.setattr("nopg.bellman.solution.checked_outputs", greedy)
    model = nopg.NOPG(bandwidths=GIVEN)
    with pytest.raises(ConfigError, match="must fit into memory") as caught:
        model.fit(grid_dataset(6, 6), [BOTTOM], n_updates=1, progress=False)
    assert "the plan: 72 samples, 72 neighbours a row" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_limit_on_addresses_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = available_memory()
    assert before is not None
    with open("/proc/self/statm", encoding="utf-8") as stream:
        used = int(stream.read().split()[0]) * resource.getpagesize()
    limit = used + before // 2
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    found = available_memory()
    assert found is not None
    assert found == pytest.approx(before // 2, rel=0.05)
