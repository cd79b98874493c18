"""An export against the library: the same actions at 10,000 states."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor

from nopg.errors import NopgError, require_extra
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.predict import predicted_actions
from nopg.randomness import Seed

FloatArray = NDArray[np.float64]
Runner = Callable[..., Any]
"""The inputs of a graph to its actions, and to the next state where it has one."""

N_STATES = 10_000
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}
"""Largest difference of an action, relative to the largest action where that is above
one; sums in single precision differ by their order alone."""


def verify(
    policy: FittedPolicy,  # the library's side
    run: Runner,  # the export
    states: FloatArray,  # states to compare at, (m, d_s), the past included
    # Precision of the export; by default the policy's.
    dtype: torch.dtype | None = None,
) -> float:
    """The largest difference of an action, if it is no more than rounding."""
    inputs = tuple(one.numpy() for one in graph_inputs(policy, states))
    memory = policy.memory
    if memory is None:
        expected, found = library_actions(policy, states), run(*inputs)
    else:
        states = seen_states(policy, states)
        actions = library_actions(policy, states)
        expected = _side_by_side(actions, memory.after(states, actions))
        found = _side_by_side(*run(*inputs))
    dtype, found = dtype or dtype_of(policy), np.asarray(found, dtype=np.float64)
    if found.shape != expected.shape:
        raise NopgError(
            f"An export must give actions of shape {expected.shape}, it gave "
            f"{found.shape}; please report this."
        )
    difference = float(np.abs(found - expected).max())
    allowed = TOLERANCE[dtype] * max(1.0, float(np.abs(expected).max()))
    if dtype != dtype_of(policy):
        allowed = max(allowed, 4.0 * _lost_in(policy, states, dtype))
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
    starts = torch.arange(len(whole)) % 7 == 0
    return seen, policy.memory.changed(seen, past), starts


def _lost_in(policy: FittedPolicy, states: FloatArray, dtype: torch.dtype) -> float:
    """What the library's own actions lose in another precision."""
    rounded = replace(policy, policy=copy.deepcopy(policy.policy).to(dtype))
    lost = library_actions(rounded, states) - library_actions(policy, states)
    return 0.0 if policy.action_space.shape == () else float(np.abs(lost).max())


def seen_states(policy: FittedPolicy, states: FloatArray) -> FloatArray:
    """The states that those inputs amount to, (m, d_s)."""
    if policy.memory is None:
        return states
    starts = np.arange(len(states))[:, None] % 7 == 0
    first = policy.memory.complete(states[:, : policy.memory.n_observed])
    return np.where(starts, first, states)


def dtype_of(policy: FittedPolicy) -> torch.dtype:
    """The precision the policy computes in."""
    return next(policy.policy.parameters()).dtype


def trial_states(policy: FittedPolicy, n_states: int = N_STATES) -> FloatArray:
    """States of the data, states among them, and states far outside.

    A policy saved without its data is tried around what it standardises by.
    """
    rng = Seed(0).numpy("export")
    data = policy.data
    if data is not None:
        known = data.observations
    else:
        names = policy.observation_names or policy.bandwidths.state
        width = len(names) if policy.memory is None else policy.memory.width
        known = rng.normal(size=(256, width))
        standardise = getattr(policy.policy, "standardise", None)
        if standardise is not None:
            known = known * standardise.std.numpy() + standardise.mean.numpy()
    low, high = known.min(axis=0), known.max(axis=0)
    half = 0.5 * (high - low) + 1e-3
    n_known = n_states // 2
    inside = rng.uniform(low, high, size=((n_states - n_known) // 2, len(low)))
    n_left = n_states - n_known - len(inside)
    outside = rng.uniform(low - 9 * half, high + 9 * half, size=(n_left, len(low)))
    seen = known[rng.integers(len(known), size=n_known)]
    return np.concatenate([seen, inside, outside])


def onnx_runner(content: bytes) -> Runner:
    """Actions of an ONNX file, on one core."""
    onnxruntime = require_extra("onnxruntime", "export")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )

    names = [one.name for one in session.get_inputs()]
    wanted = ["action", "next_state"][: len(names)]

    def run(*inputs: NDArray[Any]) -> Any:
        found = session.run(wanted, dict(zip(names, inputs, strict=True)))
        return found if len(wanted) > 1 else found[0]

    return run


def _side_by_side(actions: NDArray[Any], past: NDArray[Any]) -> FloatArray:
    return np.concatenate([actions.reshape(len(past), -1), past], axis=1)


def library_actions(policy: FittedPolicy, states: FloatArray) -> FloatArray:
    """What `predict` says, before it is rounded to the dtype of the action space."""
    space = policy.action_space
    if isinstance(space, Box):
        low, high = (np.asarray(b, np.float64) for b in (space.low, space.high))
        space = Box(low, high, dtype=np.float64)
    found = predicted_actions(policy.policy, space, None, states)
    return np.asarray(found, dtype=np.float64)
