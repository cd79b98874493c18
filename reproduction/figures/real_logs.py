"""Do learned models hold on a real machine? Held-out runs, replayed with their torques.

`python -m reproduction real-logs --data FILE` takes the runs of a real double pendulum
(an .npz: one array a run, named system.controller.experiment, and `columns`). Models
are learned from some runs of a controller and predict others from many of their states,
given the torques that were recorded. A joint turns, so that a state has cosines and
sines; a motor answers two steps late, so that the last two commands are inputs beside
the present one. Errors are root mean squares over the columns' deviations
after 1, 10 and 50 steps, beside those of the better of a linear model and standing
still; bands of 90% are those of `policy.check`, scaled as the runs learned from ask
for. `--seeds 3` holds out three other parts of the runs and takes means; every part is
a piece of work for one of `--jobs` processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nopg.data.dataset import Dataset
from nopg.errors import DataError
from nopg.evaluation.model import ModelEvaluator
from nopg.evaluation.replay import STEPS
from nopg.randomness import Seed
from reproduction.envs.base import FloatArray
from reproduction.workers import Deadline, in_parallel

NAME = "real-logs"
ANGLES, VELOCITIES = ("pos_meas1", "pos_meas2"), ("vel_meas1", "vel_meas2")
TORQUES = ("tau_con1", "tau_con2")
GAMMA = 0.99
"""There are no rewards to discount."""
HELD_OUT = 0.2
"""Share of the runs that is held out, one at least: the last ones, then those before.
"""


class Run(NamedTuple):
    """One recording."""

    states: FloatArray  # (T, d_s)
    inputs: FloatArray  # (T, d_a), the present command and the two before


class Split(NamedTuple):
    """Runs of one machine and controller, some of them held out."""

    name: str
    seen: list[Run]
    held_out: list[Run]


def real_logs(data_file: str | None, n_splits: int | None = None, jobs: int = 1) -> str:
    """The table, as text; a sentence where the file is not there."""
    if data_file is None or not Path(data_file).is_file():
        return (
            "Logs of the double pendulum must be given with --data FILE, found none "
            f"at {data_file}; nothing was replayed."
        )
    parts = splits(_recordings(Path(data_file)), n_splits or 1)
    found: dict[str, list[dict[str, FloatArray]]] = {split.name: [] for split in parts}
    for name, outcomes in in_parallel(_outcomes, parts, jobs, Deadline()):
        found[name].append(outcomes)
    lines = ["machine and controller        method   "]
    lines[0] += "  ".join(f"{label:>9}" for label in STEPS)
    for name, each in found.items():
        for method in each[0]:
            mean = np.mean([outcomes[method] for outcomes in each], axis=0)
            numbers = "  ".join(f"{number:9.3f}" for number in mean)
            lines.append(f"{name:<28}  {method:<7}  {numbers}")
    return "\n".join(lines)


def splits(recordings: dict[str, list[Run]], n_splits: int) -> list[Split]:
    """For each group the last runs held out, then those before, as often as there are any."""
    found = []
    for name, runs in recordings.items():
        count = max(1, round(HELD_OUT * len(runs)))
        for i in range(min(n_splits, len(runs) // count)):
            end = len(runs) - i * count
            first = end - count
            found.append(Split(name, runs[:first] + runs[end:], runs[first:end]))
    return found


def _recordings(path: Path) -> dict[str, list[Run]]:
    """Runs by system and controller."""
    with _opened(path) as file:
        columns = [str(name) for name in file["columns"]]
        wanted = (ANGLES, VELOCITIES, TORQUES)
        missing = set(sum(wanted, ())) - set(columns)
        if missing:
            raise DataError(
                f"Logs must have the columns {', '.join(sum(wanted, ()))}, "
                f"{', '.join(sorted(missing))} are missing from {path.name}."
            )
        places = [[columns.index(name) for name in names] for names in wanted]
        found: dict[str, list[Run]] = {}
        for key in sorted(file.files):
            if key == "columns":
                continue
            rows, (system, controller, _) = file[key].astype(np.float64), key.split(".")
            angles, velocities, command = (rows[:, at] for at in places)
            states = np.concatenate([np.cos(angles), np.sin(angles), velocities], axis=1)
            inputs = np.concatenate([command[2:], command[1:-1], command[:-2]], axis=1)
            run = Run(states[2:], inputs)
            found.setdefault(f"{system} {controller}", []).append(run)
    for name, runs in found.items():
        if len(runs) < 2:
            raise DataError(
                f"Each machine and controller must have two runs or more, {name} has one in "
                f"{path.name}: one is held out; leave it out or add a run."
            )
    return found


def _opened(path: Path) -> Any:
    """The file of the logs; nothing in it is executed."""
    try:
        file = np.load(path, allow_pickle=False)
        if "columns" in file:
            return file
    except (OSError, ValueError, TypeError):
        pass
    raise DataError(
        f"Logs must be an npz file of one array a run and their `columns`, {path.name} is not; "
        "pass the file of the double pendulum with --data."
    )


def _outcomes(split: Split) -> tuple[str, dict[str, FloatArray]]:
    """Errors of models and simple guesses, and the share that bands hold, by horizon.

    Bands are scaled by replays of the runs learned from, each left out in turn.
    """
    evaluator = ModelEvaluator(_transitions(split.seen), GAMMA, Seed(0))
    replay = evaluator.replay_of(_transitions(split.held_out))
    at = [replay.labels.index(label) for label in STEPS]
    errors = np.sqrt(np.square(replay.errors[at]).mean(axis=1))
    return split.name, {
        "model": errors,
        "simple": errors / replay.relative[at],
        "90% in": replay.coverage[at].mean(axis=1),
    }


def _transitions(runs: list[Run]) -> Dataset:
    """All steps of some runs, as a data set without rewards."""
    states = np.concatenate([run.states[:-1] for run in runs])
    inputs = np.concatenate([run.inputs[:-1] for run in runs])
    following = np.concatenate([run.states[1:] for run in runs])
    episodes = np.repeat(np.arange(len(runs)), [len(run.states) - 1 for run in runs])
    zeros, never = np.zeros(len(states)), np.zeros(len(states), dtype=bool)
    return Dataset(states, inputs, zeros, following, never, episodes=episodes)
