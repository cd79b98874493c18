"""Small trainings whose every bit can be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.fitted.history import Update
from nopg.runs import Monitoring, resume, start
from nopg.runs.folder import RunFolder

GIVEN = nopg.Bandwidths([0.5, 0.5, 2.0], [2.0])
QUICK: dict[str, Any] = {"bandwidths": GIVEN, "hidden": (6,), "search_start": False}
SMALL = grid_dataset(6, 6)  # 72 samples: the equations are factorised
LARGER = grid_dataset(12, 12)  # 288 samples: they are iterated, from the last ones


class PowerCut(Exception):
    """A process that dies, as far as one can within one."""


def noisy_action(policy: nopg.FittedPolicy) -> float:
    """Draws from the policy's generator: it must be restored too."""
    return float(policy.predict(BOTTOM, deterministic=False)[0].sum())


def cut_at(step: int) -> Any:
    def evaluate(policy: nopg.FittedPolicy) -> float:
        assert policy.history is not None
        if len(policy.history) + 1 == step:
            raise PowerCut
        return noisy_action(policy)

    return evaluate


def begin(path: Path, cut: int | None = None, n_updates: int = 12, **given: Any) -> Any:
    data = given.pop("data", SMALL)
    settings: dict[str, Any] = QUICK | given
    evaluate = noisy_action if cut is None else cut_at(cut)
    return start(
        path,
        nopg.NOPG(**settings),
        data,
        [BOTTOM],
        n_updates=n_updates,
        evaluate_every=1,
        monitoring=monitoring(evaluate),
    )


def carry_on(path: Path, cut: int | None = None, **given: Any) -> Any:
    evaluate = noisy_action if cut is None else cut_at(cut)
    return resume(path, monitoring=monitoring(evaluate), **given)


def monitoring(evaluate: Any) -> Monitoring:
    return Monitoring(checkpoint_every=3, evaluators={"noisy": evaluate}, progress=False)


def bits(path: Path) -> tuple[dict[str, bytes], list[Update]]:
    """Every parameter and every update, but the time it took."""
    run = RunFolder.open(path)
    weights = run.policy().policy.state_dict()
    updates = [replace(update, seconds=0.0) for update in run.history()]
    return {k: v.numpy().tobytes() for k, v in weights.items()}, updates


def discrete_data() -> nopg.Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    labels = rng.integers(0, 3, 60)
    moved = x + 0.1 * rng.normal(size=x.shape)
    return nopg.Dataset(x, labels, x[:, 0], moved, np.zeros(60))


def small_policy() -> nopg.FittedPolicy:
    model = nopg.NOPG(**QUICK)
    return model.fit(SMALL, [BOTTOM], n_updates=2, progress=False)
