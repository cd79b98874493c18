"""Do learned models hold on a real machine? Held-out runs, replayed with their torques.

`python -m reproduction real-logs --data FILE` takes the runs of a real double pendulum
(an .npz: one array a run, named system.controller.experiment, and `columns`). Models
are learned from some runs of a controller and predict others from many of their states,
given the torques that were recorded. A motor answers late, so the last command is an
input beside the present one. Errors are root mean squares over the columns' deviations
after 1, 10 and 50 steps, beside those of a linear model and of standing still; bands of
90% are quantiles of noisy paths.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.envs.base import FloatArray
from nopg.errors import DataError
from nopg.randomness import Seed

NAME = "real-logs"
STATE = ("pos_meas1", "pos_meas2", "vel_meas1", "vel_meas2")
TORQUES = ("tau_con1", "tau_con2")
HORIZONS = (1, 10, 50)
N_STARTS = 150
"""Held-out states that are predicted from, spread over the held-out runs."""
N_PATHS = 32
"""Noisy paths from each of them, half of them in either model."""
HELD_OUT = 0.2
"""Share of the runs that is held out, the last ones; one at least."""


class Run(NamedTuple):
    """One recording."""

    states: FloatArray  # (T, d_s)
    inputs: FloatArray  # (T, d_a), present and last command


class Windows(NamedTuple):
    """Parts of held-out runs."""

    starts: FloatArray  # (B, d_s)
    inputs: FloatArray  # (B, H, d_a)
    truth: FloatArray  # (B, H, d_s)


def real_logs(data_file: str | None) -> str:
    """The table, as text; a sentence where the file is not there."""
    if data_file is None or not Path(data_file).is_file():
        return (
            "Logs of the double pendulum must be given with --data FILE, found none "
            f"at {data_file}; nothing was replayed."
        )
    head = "machine and controller        method   " + "  ".join(
        f"{h:>3} steps" for h in HORIZONS
    )
    lines = [head]
    for name, runs in _recordings(Path(data_file)).items():
        n_held_out = max(1, round(HELD_OUT * len(runs)))
        lines += _rows(name, runs[:-n_held_out], runs[-n_held_out:])
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


def _rows(name: str, seen: list[Run], held_out: list[Run]) -> list[str]:
    """Errors and coverage of one machine and controller, a line each."""
    states, inputs, following, data = _transitions(seen)
    deviation, windows = states.std(axis=0), _windows(held_out)
    paths = predicted_paths(fit_ensemble(data, Seed(0).numpy("models")), windows)
    low, high = np.quantile(paths, [0.05, 0.95], axis=0)  # (B, H, d_s)
    slope = _least_squares(states, inputs, following)
    guesses = {
        "model": paths.mean(axis=0),
        "linear": _linear_paths(slope, windows),
        "still": np.repeat(windows.starts[:, None], max(HORIZONS), axis=1),
    }
    lines = []
    for method, guess in guesses.items():
        missed = (guess - windows.truth) / deviation
        sizes = [np.sqrt(np.square(missed[:, h - 1]).mean()) for h in HORIZONS]
        numbers = "  ".join(f"{size:9.3f}" for size in sizes)
        lines.append(f"{name:<28}  {method:<7}  {numbers}")
    holds = (low <= windows.truth) & (windows.truth <= high)
    shares = "  ".join(f"{holds[:, h - 1].mean():9.0%}" for h in HORIZONS)
    return [*lines, f"{name:<28}  90% in   {shares}"]


def predicted_paths(
    models: tuple[TransitionModel, ...], windows: Windows
) -> FloatArray:
    """Noisy paths of all models, given the inputs of each window, (P, B, H, d_s)."""
    n_windows, horizon, _ = windows.inputs.shape
    n_paths, d_s = N_PATHS // len(models), windows.starts.shape[1]
    found = []
    for model in models:
        draws = noise_draws(horizon, n_paths * n_windows, d_s, np.random.default_rng(0))
        here, path = np.tile(windows.starts, (n_paths, 1)), []
        steps = ArrayTransitionModel(model)
        for t in range(horizon):
            inputs = np.tile(windows.inputs[:, t], (n_paths, 1))
            here = steps.step(here, inputs, draws[t]).next_states
            path.append(here.reshape(n_paths, n_windows, d_s))
        found.append(np.stack(path, axis=2))
    return np.concatenate(found)


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
