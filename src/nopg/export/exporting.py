"""A fitted policy becomes one file that runs without this library."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete

from nopg.data.files import write_atomically
from nopg.errors import ConfigError
from nopg.export import numpy_reader, verify
from nopg.export.contract import contract, spoken
from nopg.export.deployed import deployed, policy_arrays, to_onnx
from nopg.export.guard import N_POINTS, SupportPoints, support_points
from nopg.export.program_formats import Program, program_name, to_c, to_js
from nopg.fitted.policy import FittedPolicy

SUFFIXES = {"onnx": ".onnx", "numpy": ".npz", "c": ".h", "js": ".js"}
PROGRAMS = {"c": to_c, "js": to_js}
READER = "read_policy.py"  # name of the reader that is put beside a numpy file


@dataclass(frozen=True)
class Exported:
    """A file that was checked and written."""

    path: Path
    n_states: int  # at which it was compared with the library; 0 without compiler or Node.js
    difference: float  # largest difference of an action there
    contract: Path  # the JSON beside it: columns, limits, sample time, data, verdict
    reader: Path | None = None  # the program beside it, for the numpy format
    seconds: float | None = None  # what one action takes here, for programs
    guard: SupportPoints | None = None  # the support guard inside, for programs
    # Shares of those states that are far for the guard inside alone, and for the library's alone.
    lost: tuple[float, float] = (0.0, 0.0)


def export_policy(
    policy: FittedPolicy,
    path: str | Path,
    format: str | None = None,
    *,
    guard_points: int | None = None,
    fallback: Sequence[float] | float | None = None,
) -> Exported:
    """Write `policy` for other programs, scaling and limits inside.

    The file is first compared with `policy.predict` at 10,000 states; it is there, whole, only if
    every action agrees. A contract is written beside it.

    Args:
        policy: A fitted policy.
        path: Where to.
        format: "onnx", "numpy", "c" or "js"; by default what the suffix says.
        guard_points: Samples that the support guard of a program holds at most; 0 for no guard. By
            default 512, or none if the policy has no data.
        fallback: The action of a program where no sample is near, or a label; by default it is the
            policy's own, and only the answer says so.

    Raises:
        ConfigError: If the policy cannot be held by the format.
        NopgError: If an action differs, or the folder cannot be written.
        MissingExtraError: If the format needs a package that is not there.

    Example:
        >>> done = nopg.export_policy(policy, "cart.h", fallback=0.0)
        >>> done.path.name, done.contract.name
        ('cart.h', 'cart.h.contract.json')
    """
    path = Path(path)
    if (kind := format or {s: f for f, s in SUFFIXES.items()}.get(path.suffix)) not in SUFFIXES:
        raise ConfigError(
            f"`format` must be one of {', '.join(SUFFIXES)}, got {kind or path.name!r}; choose one."
        )
    action = _fallback(policy, fallback)
    if kind in PROGRAMS:
        made, content = _program(policy, path, kind, guard_points, action)
    elif guard_points or fallback is not None:
        raise ConfigError(f"A guard and a fallback are for c and js, got {kind}; leave them out.")
    else:
        made, content = _graph(policy, path, kind)
    difference = made.difference if made.n_states else None
    measured = {"format": kind, "n_states": made.n_states, "difference": difference}
    found = contract(policy, content, measured, made.guard, action)
    text = json.dumps(found, indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda stream: stream.write(content))
    write_atomically(made.contract, lambda stream: stream.write(text.encode()))
    if made.reader is not None:
        program = Path(numpy_reader.__file__).read_bytes()
        write_atomically(made.reader, lambda stream: stream.write(program))
    return made


def _graph(policy: FittedPolicy, path: Path, kind: str) -> tuple[Exported, bytes]:
    reader = path.with_name(READER) if kind == "numpy" else None
    first, _, _ = Path(numpy_reader.__file__).read_bytes().partition(b"\n")
    if reader and reader.exists() and not reader.read_bytes().startswith(first):
        raise ConfigError(
            f"`{reader}` must be free for the reader, another file has its name; move it."
        )
    graph, states = deployed(policy), verify.trial_states(policy)
    if kind == "numpy":
        stream = io.BytesIO()
        np.savez(stream, **policy_arrays(graph))
        content = stream.getvalue()
        run: verify.Runner = numpy_reader.NumpyPolicy(io.BytesIO(content))
        if policy.memory is not None:
            run = numpy_reader.NumpyMemoryPolicy(io.BytesIO(content)).step
    else:
        about = contract(policy, b"", {"outputs": graph.outputs}, None, None)
        about["dtype"] = str(verify.dtype_of(policy)).removeprefix("torch.")
        content = to_onnx(graph, verify.graph_inputs(policy, states[:2]), about)
        run = verify.onnx_runner(content)
    difference = verify.difference(policy, run, states)
    return Exported(path, len(states), difference, _beside(path), reader), content


def _program(
    policy: FittedPolicy, path: Path, kind: str, n_points: int | None, fallback: list[float] | None
) -> tuple[Exported, bytes]:
    arrays = policy_arrays(deployed(policy))
    if n_points is None:
        n_points = 0 if policy.data is None else N_POINTS
    guard = support_points(policy, n_points) if n_points else None
    about = spoken(contract(policy, b"", {}, guard, fallback))
    is_single = verify.dtype_of(policy) == torch.float32
    name, suffix = program_name(path.stem), SUFFIXES[kind]
    program = Program(name, about, arrays, guard, fallback, is_single)
    content = PROGRAMS[kind](program).encode()
    made = Exported(path, 0, float("nan"), _beside(path), guard=guard)
    if verify.ProgramRunner.tool(suffix) is None:
        return made, content
    # With the fallback in, the policy's own action would not be seen everywhere.
    bare = replace(program, fallback=None)
    run = verify.ProgramRunner(bare, PROGRAMS[kind](bare), suffix)
    states = verify.trial_states(policy)
    difference, lost = verify.difference(policy, run, states), made.lost
    if guard is not None:
        seen = verify.seen_states(policy, states)
        distance = policy.support(seen, policy.predict(seen)[0]).distance
        here, there = run.found == 1, distance > guard.full_threshold
        lost = float((here & ~there).mean()), float((there & ~here).mean())
    n, seconds = len(states), run.seconds
    return replace(made, n_states=n, difference=difference, seconds=seconds, lost=lost), content


def _fallback(policy: FittedPolicy, fallback: Any) -> list[float] | None:
    """The action of a guard, one number per column, or a label."""
    if fallback is None:
        return None
    space: Any = policy.action_space
    is_discrete = isinstance(space, Discrete)
    n = 1 if is_discrete else int(np.prod(space.shape))
    try:
        found = np.asarray(fallback, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        found = np.empty(0)
    fits = len(found) == n and bool(np.isfinite(found).all())
    if fits and is_discrete:
        fits = 0 <= found[0] < space.n and found[0] == int(found[0])
    elif fits:
        fits = bool(((found >= space.low) & (found <= space.high)).all())
    if not fits:
        inside = f"a label below {space.n}" if is_discrete else f"{n} in {space}"
        raise ConfigError(f"`fallback` must be {inside}, got {fallback!r}; name a safe action.")
    return [float(value) for value in found]


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.contract.json")
