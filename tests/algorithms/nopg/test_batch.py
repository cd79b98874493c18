"""Many policies at once: the same results as one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import nopg
from nopg.algorithms.nopg.config import TrainingConfig
from nopg.algorithms.nopg.fused import FusedTrainer
from nopg.cli.swing_up import BOTTOM, grid_dataset

DATA = grid_dataset(6, 6)
STARTS = [BOTTOM, (1.0, 0.0, 0.0)]
GIVEN = nopg.Bandwidths([0.5, 0.5, 2.0], [2.0])


def model(seed: int, **settings: Any) -> nopg.NOPG:
    chosen: dict[str, Any] = {"bandwidths": GIVEN, "neighbours": 12, "schedule": "constant"}
    return nopg.NOPG(**(chosen | settings), seed=seed)


@pytest.mark.parametrize(
    ("policy", "search_start"), [("deterministic", True), ("stochastic", False)]
)
def test_batch_equals_one_by_one(policy: str, search_start: bool) -> None:
    given: dict[str, Any] = {
        "policy": policy,
        "policy_samples": 3,
        "gamma": 0.6,
        "search_start": search_start,
    }
    together = [model(seed, **given) for seed in range(3)]
    policies = nopg.fit_batch(together, DATA, STARTS, n_updates=4, progress=False)
    for seed, one in enumerate(policies):
        alone = model(seed, **given).fit(DATA, STARTS, n_updates=4, progress=False)
        assert alone.history is not None
        assert one.history is not None
        assert one.history["objective"] == alone.history["objective"]
        states = DATA.observations[:5]
        assert np.array_equal(one.predict(states)[0], alone.predict(states)[0])


def test_models_must_be_alike() -> None:
    with pytest.raises(nopg.ConfigError, match="seeds alone"):
        nopg.fit_batch([model(0), model(1, gamma=0.5)], DATA, STARTS, progress=False)
    with pytest.raises(nopg.ConfigError, match="at least one"):
        nopg.fit_batch([], DATA, STARTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "has_terminals", "count"), [("nadaraya-watson", False, 2), ("matched", True, 1)]
)
def test_fused_updates_equal_plain_ones(rows: str, has_terminals: bool, count: int) -> None:
    """The GPU path, kernel by kernel in Triton's interpreter, against the CPU path."""
    pytest.importorskip("triton")
    data = nopg.Dataset(
        DATA.observations,
        DATA.actions,
        DATA.rewards,
        DATA.next_observations,
        (np.arange(len(DATA)) % 9 == 0) & has_terminals,
    )
    given: dict[str, Any] = {"gamma": 0.6, "rows": rows, "search_start": False}
    plain = [model(seed, rtol=1e-9, **given) for seed in range(count)]
    trained = [m.fit(data, STARTS, n_updates=2, progress=False) for m in plain]
    expected = [policy.history for policy in trained if policy.history is not None]
    fused = [model(seed, **given).prepare(data, STARTS) for seed in range(count)]
    problem = fused[0].kernel.problem
    trainer = FusedTrainer(
        problem,
        [m.policy for m in fused],
        TrainingConfig(schedule="constant", rtol=1e-6),
        n_updates=2,
        is_captured=False,
    )
    for step in range(2):
        trainer.update(step)
        found = trainer.objective.tolist()
        exact = [history["objective"][step] for history in expected]
        np.testing.assert_allclose(found, exact, rtol=1e-9)
        norms = [history["gradient_norm"][step] for history in expected]
        np.testing.assert_allclose(trainer.gradient_norm.tolist(), norms, rtol=1e-4)
    for one, other in zip(trained, fused, strict=True):
        for p, q in zip(one.policy.parameters(), other.policy.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=0, atol=1e-5)
