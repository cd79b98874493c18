"""Do learned models hold on a real machine? Held-out runs, replayed with their torques.

`python -m reproduction real-logs --data FILE` takes the runs of a real double pendulum
(an .npz: one array a run, named system.controller.experiment, and `columns`). Models
are learned from some runs of a controller and predict others from many of their states,
given the torques that were recorded. A motor answers late, so the last command is an
input beside the present one. Errors are root mean squares over the columns' deviations
after 1, 10 and 50 steps, beside those of a linear model and of standing still; bands of
90% are quantiles of noisy paths, widened as the runs learned from ask for. `--seeds 3`
holds out three other parts of the runs and takes means.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import fit_ensemble, model_columns
from nopg.dynamics.replays import Replays
from nopg.dynamics.transition_model import TransitionModel
from nopg.envs.base import FloatArray
from nopg.errors import DataError
from nopg.randomness import Seed
from reproduction.calibration import Calibration

NAME = "real-logs"
STATE = ("pos_meas1", "pos_meas2", "vel_meas1", "vel_meas2")
TORQUES = ("tau_con1", "tau_con2")
HORIZONS = (1, 10, 50)
N_STARTS = 150
"""Held-out states that are predicted from, spread over the held-out runs."""
N_PATHS = 32
"""Noisy paths from each of them, half of them in either model."""
HELD_OUT = 0.2
"""Share of the runs that is held out, one at least: the last ones, then those before.
"""


class Run(NamedTuple):
    """One recording."""

    states: FloatArray  # (T, d_s)
    inputs: FloatArray  # (T, d_a), present and last command


class Windows(NamedTuple):
    """Parts of held-out runs."""

    starts: FloatArray  # (B, d_s)
    inputs: FloatArray  # (B, H, d_a)
    truth: FloatArray  # (B, H, d_s)


def real_logs(data_file: str | None, n_splits: int | None = None) -> str:
    """The table, as text; a sentence where the file is not there."""
    if data_file is None or not Path(data_file).is_file():
        return (
            "Logs of the double pendulum must be given with --data FILE, found none "
            f"at {data_file}; nothing was replayed."
        )
    lines = ["machine and controller        method   "]
    lines[0] += "  ".join(f"{h:>3} steps" for h in HORIZONS)
    for name, runs in _recordings(Path(data_file)).items():
        count = max(1, round(HELD_OUT * len(runs)))
        ends = [len(runs) - i * count for i in range(n_splits or 1)]
        found = [
            _outcomes(runs[: end - count] + runs[end:], runs[end - count : end])
            for end in ends
            if end >= count
        ]
        for method in found[0]:
            mean = np.mean([each[method] for each in found], axis=0)
            numbers = "  ".join(f"{number:9.3f}" for number in mean)
            lines.append(f"{name:<28}  {method:<7}  {numbers}")
    return "\n".join(lines)


def _recordings(path: Path) -> dict[str, list[Run]]:
    """Runs by system and controller."""
    with np.load(path, allow_pickle=False) as file:
        columns = [str(name) for name in file["columns"]]
        missing = set(STATE + TORQUES) - set(columns)
        if missing:
            raise DataError(
                f"Logs must have the columns {', '.join(STATE + TORQUES)}, "
                f"{', '.join(sorted(missing))} are missing from {path.name}."
            )
        at, by = ([columns.index(name) for name in names] for names in (STATE, TORQUES))
        found: dict[str, list[Run]] = {}
        for key in sorted(file.files):
            if key == "columns":
                continue
            rows, (system, controller, _) = file[key], key.split(".")
            command = rows[:, by]
            inputs = np.concatenate([command[1:], command[:-1]], axis=1)
            run = Run(rows[1:, at], inputs)
            found.setdefault(f"{system} {controller}", []).append(run)
    return found


def _outcomes(seen: list[Run], held_out: list[Run]) -> dict[str, list[float]]:
    """Errors of each method, and the share of what bands hold, at each horizon."""
    states, inputs, following, data = _transitions(seen)
    deviation, windows = states.std(axis=0), _windows(held_out)
    models = fit_ensemble(data, Seed(0).numpy("models"))
    paths = predicted_paths(models, windows)  # (H, P, B, d_s)
    calibration = Calibration.of(models[0], model_columns(data), data.episodes)
    spread = paths if calibration is None else calibration.widened(paths)
    low, high = np.quantile(spread, [0.05, 0.95], axis=1)  # (H, B, d_s)
    truth = windows.truth.swapaxes(0, 1)
    slope = _least_squares(states, inputs, following)
    guesses = {
        "model": paths.mean(axis=1),
        "linear": _linear_paths(slope, windows).swapaxes(0, 1),
        "still": np.repeat(windows.starts[None], max(HORIZONS), axis=0),
    }
    at = [h - 1 for h in HORIZONS]
    found = {
        method: np.sqrt(np.square((guess - truth)[at] / deviation).mean(axis=(1, 2)))
        for method, guess in guesses.items()
    }
    holds = (low <= truth) & (truth <= high)
    return {**found, "90% in": holds[at].mean(axis=(1, 2))}


def predicted_paths(
    models: tuple[TransitionModel, ...], windows: Windows
) -> FloatArray:
    """Noisy paths of all models, given the inputs of each window, (H, P, B, d_s)."""
    replays = Replays(windows.starts[:, None], windows.inputs)
    n_paths = N_PATHS // len(models)
    return np.concatenate([replays.paths(one, n_paths) for one in models], axis=1)


def _transitions(
    runs: list[Run],
) -> tuple[FloatArray, FloatArray, FloatArray, Dataset]:
    """All steps of some runs, as arrays and as a data set without rewards."""
    states = np.concatenate([run.states[:-1] for run in runs])
    inputs = np.concatenate([run.inputs[:-1] for run in runs])
    following = np.concatenate([run.states[1:] for run in runs])
    episodes = np.repeat(np.arange(len(runs)), [len(run.states) - 1 for run in runs])
    zeros, never = np.zeros(len(states)), np.zeros(len(states), dtype=bool)
    data = Dataset(states, inputs, zeros, following, never, episodes=episodes)
    return states, inputs, following, data


def _windows(runs: list[Run]) -> Windows:
    horizon = max(HORIZONS)
    places = [
        (i, t) for i, run in enumerate(runs) for t in range(len(run.states) - horizon)
    ]
    places = places[:: -(-len(places) // N_STARTS)]
    return Windows(
        np.stack([runs[i].states[t] for i, t in places]),
        np.stack([runs[i].inputs[t : t + horizon] for i, t in places]),
        np.stack([runs[i].states[t + 1 : t + horizon + 1] for i, t in places]),
    )


def _least_squares(
    states: FloatArray, inputs: FloatArray, following: FloatArray
) -> FloatArray:
    """s' = (s, a, 1) W, the W."""
    design = np.concatenate([states, inputs, np.ones((len(states), 1))], axis=1)
    return np.asarray(np.linalg.lstsq(design, following, rcond=None)[0])


def _linear_paths(slope: FloatArray, windows: Windows) -> FloatArray:
    here, path = windows.starts, []
    one = np.ones((len(here), 1))
    for t in range(windows.inputs.shape[1]):
        here = np.concatenate([here, windows.inputs[:, t], one], axis=1) @ slope
        path.append(here)
    return np.stack(path, axis=1)
