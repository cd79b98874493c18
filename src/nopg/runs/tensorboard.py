"""Curves of a run in TensorBoard."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from nopg.data.extras import require_extra
from nopg.fitted.history import Update


def summary_writer(folder: Path, first_step: int) -> Any:
    """Torch's writer of event files in a run folder, for `tensorboard --logdir runs`.

    `first_step` is the first update that will be logged: what an interrupted run logged
    beyond its checkpoint is not shown twice.
    """
    require_extra("tensorboard", "tensorboard")
    writing = require_extra("torch.utils.tensorboard.writer", "tensorboard")
    return writing.SummaryWriter(str(folder / "tensorboard"), purge_step=first_step)


def scalars(update: Update) -> dict[str, float]:
    """What is logged of an update: its finite numbers, under one name each."""
    values = {
        "train/objective": update.objective,
        "train/certificate": update.certificate,
        "train/gradient_norm": update.gradient_norm,
        "train/learning_rate": update.learning_rate,
        "train/matvecs": float(update.matvecs),
        "train/seconds": update.seconds,
        **{f"evaluation/{name}": v for name, v in update.evaluations.items()},
    }
    return {name: value for name, value in values.items() if math.isfinite(value)}
