"""An export against the library: the same actions at 10,000 states."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor

from nopg.compiled import COMPILERS
from nopg.data.validation import FloatArray, IntArray
from nopg.errors import NopgError, require_extra
from nopg.export.program_formats import Program, fill_template
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.predict import predicted_actions
from nopg.randomness import Seed

Runner = Callable[..., Any]  # inputs of a graph to actions, and to the next state
N_STATES = 10_000
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}
"""Largest difference of actions, over the largest above one; single sums differ by their order."""


def difference(policy: FittedPolicy, run: Runner, states: FloatArray) -> float:
    """The largest difference of an action at states (m, d_s), if it is rounding."""
    inputs = tuple(one.numpy() for one in graph_inputs(policy, states))
    if (memory := policy.memory) is None:
        expected, found = library_actions(policy, states), run(*inputs)
    else:
        states = seen_states(policy, states)
        actions = library_actions(policy, states)
        expected = np.column_stack([actions, memory.after(states, actions)])
        found = np.column_stack(run(*inputs))
    if (found := np.asarray(found, dtype=np.float64)).shape != expected.shape:
        raise NopgError(f"An export must give {expected.shape}, it gave {found.shape}; report it.")
    difference = float(np.abs(found - expected).max())
    allowed = TOLERANCE[dtype_of(policy)] * max(1.0, float(np.abs(expected).max()))
    if not difference <= allowed:
        raise NopgError(
            f"An export must act as the library does to {allowed:.0e}, it differs by "
            f"{difference:.1e}; nothing was written, please report this."
        )
    return difference


def graph_inputs(policy: FittedPolicy, states: FloatArray) -> tuple[Tensor, ...]:
    """States as the inputs of the policy's graph; every seventh starts an episode."""
    whole = torch.as_tensor(states).to(dtype_of(policy))
    if policy.memory is None:
        return (whole,)
    width = policy.memory.n_observed
    seen, past = whole[:, :width].clone(), whole[:, width:].clone()
    return seen, policy.memory.changed(seen, past), torch.arange(len(whole)) % 7 == 0


def seen_states(policy: FittedPolicy, states: FloatArray) -> FloatArray:
    """The states that those inputs amount to, (m, d_s)."""
    if policy.memory is None:
        return states
    first = policy.memory.complete(states[:, : policy.memory.n_observed])
    return np.where(np.arange(len(states))[:, None] % 7 == 0, first, states)


def dtype_of(policy: FittedPolicy) -> torch.dtype:
    """The precision the policy computes in."""
    return next(policy.policy.parameters()).dtype


def trial_states(policy: FittedPolicy, n_states: int = N_STATES) -> FloatArray:
    """States of the data, or of what standardises; among them, and far outside."""
    rng = Seed(0).numpy("export")
    if policy.data is not None:
        known = policy.data.observations
    else:
        names = policy.observation_names or policy.bandwidths.state
        known = rng.normal(size=(256, len(names) if policy.memory is None else policy.memory.width))
        if (standardise := getattr(policy.policy, "standardise", None)) is not None:
            known = known * standardise.std.numpy() + standardise.mean.numpy()
    low, high = known.min(axis=0), known.max(axis=0)
    half, n_known = 0.5 * (high - low) + 1e-3, n_states // 2
    inside = rng.uniform(low, high, size=((n_states - n_known) // 2, len(low)))
    n_left = n_states - n_known - len(inside)
    outside = rng.uniform(low - 9 * half, high + 9 * half, size=(n_left, len(low)))
    return np.concatenate([known[rng.integers(len(known), size=n_known)], inside, outside])


def onnx_runner(content: bytes) -> Runner:
    """Actions of an ONNX file, on one core."""
    onnxruntime = require_extra("onnxruntime", "export")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    wanted = ["action", "next_state"][: len(names)]

    def run(*inputs: NDArray[Any]) -> Any:
        found = session.run(wanted, dict(zip(names, inputs, strict=True)))
        return found if len(wanted) > 1 else found[0]

    return run


def library_actions(policy: FittedPolicy, states: FloatArray) -> FloatArray:
    """What `predict` says, before it is rounded to the dtype of the action space."""
    if isinstance(space := policy.action_space, Box):
        low, high = (np.asarray(b, np.float64) for b in (space.low, space.high))
        space = Box(low, high, dtype=np.float64)
    return np.asarray(predicted_actions(policy.policy, space, None, states), dtype=np.float64)


STRICT = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic")
LONGEST = 120.0  # seconds that compiling or 10,000 states may take


@dataclass
class ProgramRunner:
    """Runs an exported program at many states."""

    program: Program
    text: str  # the exported file
    suffix: str  # ".h" or ".js"
    seconds: float = float("nan")  # what one action took in the last call
    found: IntArray | None = None  # (m,): 0 for an action, 1 for far, 2 for refused

    @staticmethod
    def tool(suffix: str) -> str | None:
        """The compiler or interpreter that is there, if any."""
        names = COMPILERS if suffix == ".h" else ("node",)
        return next((path for name in names if (path := shutil.which(name))), None)

    def __call__(self, observation: Any, state: Any = None, episode_start: Any = None) -> Any:
        """Actions, and the next state of a policy with memory, as the graphs give."""
        n_past = self.program.sizes["N_PAST"]
        past = (state, episode_start) if n_past else (np.ones(len(observation)),)
        rows = np.column_stack([observation, *past]).astype(np.float64)
        with tempfile.TemporaryDirectory() as folder:
            told = self._run(Path(folder), rows)
        self.found = told[:, 0].astype(np.int64)
        actions = told[:, 1 : told.shape[1] - n_past]
        actions = actions[:, 0] if self.program.is_discrete else actions
        return (actions, told[:, told.shape[1] - n_past :]) if n_past else actions

    def _run(self, folder: Path, rows: FloatArray) -> FloatArray:
        """Lines that the program says of rows: what it found, its action, its past."""
        check = "check.c" if self.suffix == ".h" else "check.js"
        (folder / f"policy{self.suffix}").write_text(self.text, encoding="utf-8")
        (folder / check).write_text(fill_template(check, self.program), encoding="utf-8")
        tool = self.tool(self.suffix) or "node"
        command = [tool, check]
        if self.suffix == ".h":
            _told([tool, *STRICT, check, "-o", "check", "-lm"], folder)
            command = [str(folder / "check")]
        sizes = (len(rows), self.program.sizes["N_OBSERVATIONS"], rows.shape[1])
        done = _told([*command, *map(str, sizes)], folder, rows.tobytes())
        self.seconds = float(done.stderr.split()[0])
        return np.array([line.split() for line in done.stdout.splitlines()], np.float64)


def _told(command: list[str], cwd: Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        done = subprocess.run(command, cwd=cwd, input=given, capture_output=True, timeout=LONGEST)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NopgError(f"`{command[0]}` must run an export, got {error}.") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NopgError(
            f"An export must compile and run without a warning, `{command[0]}` said "
            f"{said[0] if said else done.returncode}; nothing was written, please report this."
        )
    return done
