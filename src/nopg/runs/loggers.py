"""Curves in other programs: TensorBoard, Weights & Biases, MLflow.

One small protocol; a program is imported only when it is asked for by name.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from nopg.data.extras import require_extra
from nopg.errors import ConfigError
from nopg.fitted.history import Update

BATCH = 500
"""Numbers that MLflow is sent at once; its servers take at most a thousand."""


class Logger(Protocol):
    """Anything that takes numbers by step."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Note some numbers of one update; a repeated step replaces the earlier."""

    def close(self) -> None:
        """Send what is left; nothing is logged after this."""


class TensorBoard:
    """Event files in the run folder, for `tensorboard --logdir runs`."""

    def __init__(
        self, folder: Path, config: Mapping[str, Any], first_step: int
    ) -> None:
        require_extra("tensorboard", "tensorboard")
        writing = require_extra("torch.utils.tensorboard.writer", "tensorboard")
        # What an interrupted run logged beyond its checkpoint is not shown twice.
        self._writer = writing.SummaryWriter(
            str(folder / "tensorboard"), purge_step=first_step
        )
        self._writer.add_text("config", _table(config), first_step)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases, continued under its id when the run is resumed."""

    def __init__(
        self, folder: Path, config: Mapping[str, Any], first_step: int
    ) -> None:
        wandb = require_extra("wandb", "wandb")
        self._run = wandb.init(
            project="nopg",
            name=folder.name,
            id=_identity(folder),
            dir=str(folder),
            config=dict(config),
            resume="allow",
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Send the numbers of one step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Mark the run as finished."""
        self._run.finish()


class MLflow:
    """A run of MLflow, where MLFLOW_TRACKING_URI points, else in the run folder."""

    def __init__(
        self, folder: Path, config: Mapping[str, Any], first_step: int
    ) -> None:
        mlflow = require_extra("mlflow", "mlflow")
        uri = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
        self._client = mlflow.tracking.MlflowClient(uri)
        self._metric = mlflow.entities.Metric
        self._waiting: list[Any] = []
        known = self._client.get_experiment_by_name("nopg")
        experiment = (
            self._client.create_experiment("nopg")
            if known is None
            else known.experiment_id
        )
        mark = _identity(folder)
        earlier = self._client.search_runs(
            [experiment], filter_string=f"tags.nopg = '{mark}'", max_results=1
        )
        if earlier:  # resumed: its parameters are there, and may not be set again
            self._id = earlier[0].info.run_id
            return
        run = self._client.create_run(
            experiment, run_name=folder.name, tags={"nopg": mark}
        )
        self._id = run.info.run_id
        for name, value in config.items():
            self._client.log_param(self._id, name, str(value))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Note the numbers of one step; a server is told of many at once."""
        now = int(time.time() * 1000)
        self._waiting += [self._metric(k, v, now, step) for k, v in values.items()]
        if len(self._waiting) > BATCH:
            self._send()

    def close(self) -> None:
        """Send the rest and mark the run as finished."""
        self._send()
        self._client.set_terminated(self._id)

    def _send(self) -> None:
        self._client.log_batch(self._id, metrics=self._waiting)
        self._waiting = []


Maker = Callable[[Path, Mapping[str, Any], int], Logger]

LOGGERS: dict[str, Maker] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


def make_logger(
    name: str, folder: Path, config: Mapping[str, Any], first_step: int = 1
) -> Logger:
    """The logger called `name`, for the run in `folder`.

    Args:
        name: A key of `LOGGERS`.
        folder: The run folder.
        config: Settings to show beside the curves.
        first_step: The first update that will be logged.

    Raises:
        ConfigError: If there is no such logger.
        MissingExtraError: If its program is not installed.
    """
    if name not in LOGGERS:
        raise ConfigError(
            f"A logger must be one of {', '.join(LOGGERS)}, got {name!r}; choose one."
        )
    return LOGGERS[name](folder.resolve(), config, first_step)


def numbers_of(update: Update) -> dict[str, float]:
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


def _identity(folder: Path) -> str:
    """An id that a resumed run finds again: when and from what the run was made."""
    return hashlib.sha256((folder / "run.json").read_bytes()).hexdigest()[:16]


def _table(config: Mapping[str, Any]) -> str:
    rows = "".join(f"| {name} | {value} |\n" for name, value in config.items())
    return f"| setting | value |\n|---|---|\n{rows}"
