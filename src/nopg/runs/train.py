"""Training in a run folder: begin, or go on where a killed process stood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nopg.algorithms.nopg.loop import announce
from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.nopg.states import TrainingState
from nopg.algorithms.nopg.training import Training
from nopg.data.dataset import Dataset
from nopg.errors import ConfigError, NopgError, RunError
from nopg.runs.folder import RunFolder
from nopg.runs.interrupts import interruptible
from nopg.runs.loggers import make_logger
from nopg.runs.ownership import locked, require_vacant
from nopg.runs.record import RunRecord, versions
from nopg.runs.recorder import Recorder, note


@dataclass(frozen=True, kw_only=True)
class Watching:
    """What a person sees of a training, and how often it is saved.

    None of this changes the policy; a resumed run may have it otherwise.
    """

    checkpoint_every: int = 100
    """Updates between checkpoints; there is one a minute in any case."""
    loggers: Sequence[str] = ()
    """Names of loggers: "tensorboard", "wandb", "mlflow"."""
    evaluators: Mapping[str, Callable[[NOPG], float]] = field(default_factory=dict)
    """Functions of the model, as in `NOPG.fit`."""
    progress: bool = True
    """Show a bar with J."""

    def __post_init__(self) -> None:
        if self.checkpoint_every < 1:
            raise ConfigError(
                "`checkpoint_every` must be a number of updates from 1, got "
                f"{self.checkpoint_every}; 100 is usual."
            )


def start(
    path: str | Path,
    model: NOPG,
    data: Dataset,
    initial_states: Any = None,
    *,
    n_updates: int = 1500,
    patience: int | None = None,
    evaluate_every: int = 100,
    source: str = "",
    command: str = "",
    watching: Watching | None = None,
) -> NOPG:
    """Train `model` in a new run folder.

    Args:
        path: The folder; must not hold a run yet.
        model: The model; its settings are kept in the folder.
        data: Logged transitions; copied into the folder.
        initial_states: Where the task starts, as in `NOPG.fit`.
        n_updates: Policy updates.
        patience: As in `NOPG.fit`.
        evaluate_every: As in `NOPG.fit`.
        source: Where the data come from, for people.
        command: What was typed, for people.
        watching: Checkpoints, loggers, evaluators, progress.

    Returns:
        The model. Ctrl-C ends training after the present update; the policy is kept
        and `resume` goes on from it.

    Raises:
        RunError: If the folder holds a run.
        NopgError: If another process trains in it, or it cannot be written.
    """
    path, watching = Path(path), watching or Watching()
    require_vacant(path)
    with locked(path):
        model.prepare(
            data, initial_states, announce=announce if watching.progress else None
        )
        record = RunRecord.of(
            model,
            n_updates=n_updates,
            patience=patience,
            evaluate_every=evaluate_every,
            source=source,
            command=command,
        )
        run = RunFolder.create(path, record, data)
        note(path, f"begun: {n_updates} updates of {len(data)} transitions")
        _train(run, model, watching, None)
    return model


def resume(
    path: str | Path,
    *,
    policy: nn.Module | None = None,
    watching: Watching | None = None,
    tell: Callable[[str], object] = lambda text: None,
) -> NOPG:
    """Go on with the run in a folder, to the same bits as if it had never stopped.

    Args:
        path: The folder.
        policy: For runs with a module of your own: one of the same architecture.
        watching: As in `start`; it may differ.
        tell: Told in one sentence where training goes on.

    Raises:
        RunError: If there is no run, it is done, or it is damaged.
        NopgError: If another process trains in it, or it cannot be written.
    """
    run = RunFolder.open(path)
    with locked(run.path):
        if run.is_done:
            raise RunError(
                f"`{run.path}` must have updates left, all {run.status()['updates']} "
                f"are done ({run.status()['stopped']}); use it, or begin a new run."
            )
        # Sums over other numbers of threads round differently.
        torch.set_num_threads(run.record.threads)
        state = run.state()
        model = run.prepared(policy)
        step = 0 if state is None else state.step
        text = f"goes on after update {step} of {run.record.n_updates}"
        note(run.path, text)
        tell(f"{run.path} {text}.{_changed(run.record)}")
        _train(run, model, watching or Watching(), state)
    return model


def _train(
    run: RunFolder, model: NOPG, watching: Watching, state: TrainingState | None
) -> None:
    training = Training(model, run.record.n_updates, state)
    if not training.can_resume:
        note(run.path, "no checkpoints: the fused GPU path keeps no state")
    config = run.record.config | {"n_updates": run.record.n_updates}
    first = len(training.history) + 1
    loggers = [make_logger(n, run.path, config, first) for n in watching.loggers]
    with (
        interruptible() as interruption,
        closing(
            Recorder(
                run,
                training,
                checkpoint_every=watching.checkpoint_every,
                loggers=loggers,
                interruption=interruption,
            )
        ) as recorder,
    ):
        try:
            training.run(
                evaluators=watching.evaluators,
                evaluate_every=run.record.evaluate_every,
                callback=recorder,
                patience=run.record.patience,
                progress=watching.progress,
            )
            if training.history.stopped == "interrupted":
                # Stopped within an update: only the last checkpoint is whole.
                raise KeyboardInterrupt
            recorder.finish(model)
        except NopgError as error:
            note(run.path, f"stopped by an error: {error}")
            raise


def _changed(record: RunRecord) -> str:
    """A sentence if the packages are other ones: the last bits may then differ."""
    now = versions()
    changed = [f"{k} {v}" for k, v in record.versions.items() if now.get(k) != v]
    if not changed:
        return ""
    return f" It began with {', '.join(changed)}: the last bits may differ."
