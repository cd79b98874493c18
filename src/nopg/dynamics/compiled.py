"""Rollouts in compiled code: `rollout.c`, where this machine has a C compiler.

A step of a rollout is some dozens of operations on small arrays, whose calls cost more
than their arithmetic; and there are a million of such steps in a search. So the loop
over steps is written in C. Its paths are shared among threads. Without a compiler the
same is done in NumPy, several times slower, and to rounding the same.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nopg.compiled import compiled
from nopg.policies.arrays import Array, ArrayPolicies
from nopg.threads import n_workers, parallel_map

LANES = 8
"""Kernels that are evaluated at once; their arrays are filled up to a multiple."""
FEW = 4
"""Paths that are worth a thread of their own."""


class ProcessArrays(NamedTuple):
    """S functions of a Gaussian process, as arrays: its mean, or draws."""

    centre: Array  # (d,)
    factor: Array  # (d,), one over the spread
    linear: Array  # (S, 1 + d, q)
    curved: Sequence[int]  # targets with kernels
    points: Array  # where these are, (m, d)
    inverse_scales: Array  # (c, d)
    weights: Sequence[Array]  # of each curved target, the first so many points, (S, k)
    frequencies: Array  # of waves, (c, d, D); D may be 0
    phases: Array  # (c, D)
    wave_weights: Array  # (S, c, D)


class CompiledModel:
    """A learned model, laid out for `rollout.c`."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields
        self.d_s, self.d_a = fields["d_s"], fields["d_a"]
        self.is_noisy = fields.get("log_std") is not None
        self.struct, self._kept = _filled(_Model, fields)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pointers cannot be copied or pickled; what they point to can."""
        return functools.partial(CompiledModel, **self._fields), ()

    def rollout(
        self, actor: ArrayPolicies | Array, starts: Array, n_steps: int, draws: Any
    ) -> tuple[Array, ...]:
        """States, actions and the fields of a predicted step, (T, B, ...) each.

        Args:
            actor: Policies, or actions that were recorded, (T, B, d_a).
            starts: Where, (B, d_s).
            n_steps: T.
            draws: Standard normal draws of the noise, (T, B, d_s), or None.
        """
        library = compiled_library()
        assert library is not None  # who has none does not come here
        n, draws = len(starts), draws if self.is_noisy else None
        self._require(starts, (n, self.d_s))
        self._require(draws, (n_steps, n, self.d_s))
        if isinstance(actor, np.ndarray):
            self._require(actor, (n_steps, n, self.d_a))
        policies, kept = _filled(_Policies, _policy_fields(actor, self.d_a))
        wide = (self.d_s, self.d_a, self.d_s, self.d_s)
        arrays = [np.empty((n_steps, n, k)) for k in wide]
        arrays += [np.empty((n_steps, n)) for _ in range(4)]
        arrays[0][0] = starts
        if draws is not None:
            draws = np.ascontiguousarray(draws)
        given = [_pointer(draws), *(_pointer(array) for array in arrays)]
        both = ctypes.byref(self.struct), ctypes.byref(policies)
        _in_parts(library.nopg_rollout, both, n, (n_steps, *given))
        del kept  # alive until here
        return tuple(arrays)

    def action_gradients(
        self,
        steps: Sequence[Array],
        by_state: Array,
        gamma: float,
        worst: float,
        credit: Array,
        draws: Array | None,
    ) -> Array:
        """dU_t / da_t along each rollout, (T, B, d_a); see `rollout_gradients`.

        Args:
            steps: What `rollout` gave.
            by_state: d policy / d state, (T, B, d_a, d_s).
            gamma: Discount factor.
            worst: Value out of support.
            credit: What is left of dU_{t+1} / ds, (B,).
            draws: Those of the rollout.
        """
        library = compiled_library()
        draws = draws if self.is_noisy else None
        n_steps, n = steps[0].shape[:2]
        self._require(credit, (n,))
        self._require(by_state, (n_steps, n, self.d_a, self.d_s))
        self._require(draws, (n_steps, n, self.d_s))
        found = np.empty_like(steps[1])
        arrays = [
            None if x is None else np.ascontiguousarray(x)
            for x in (credit, by_state, draws, *steps, found)
        ]
        rest = (n_steps, gamma, worst, *map(_pointer, arrays))
        model = (ctypes.byref(self.struct),)
        _in_parts(library.nopg_backward, model, n, rest)
        return found

    @staticmethod
    def _require(array: Array | None, shape: tuple[int, ...]) -> None:
        """Compiled code reads beyond an array of another shape."""
        if array is not None and array.shape != shape:
            raise ValueError(f"{array.shape} is not {shape}")


def _pointer(array: Array | None) -> Any:
    return None if array is None else array.ctypes.data_as(_DOUBLES)


def _in_parts(function: Any, first: tuple[Any, ...], n: int, rest: Any) -> None:
    """Call it for parts of n paths, side by side."""
    n_parts = max(1, min(n_workers(), n // FEW))
    edges = np.linspace(0, n, n_parts + 1).astype(int).tolist()
    parts = list(itertools.pairwise(edges))
    if any(parallel_map(lambda part: function(*first, *part, n, *rest), parts)):
        raise MemoryError


@functools.cache
def compiled_library() -> Any:
    """The compiled loop, or None where it cannot be had."""
    library = compiled("nopg.dynamics", "rollout.c", False)
    if library is not None:
        sizes, numbers = [ctypes.c_int64] * 4, [ctypes.c_double] * 2
        forward, backward = library.nopg_rollout, library.nopg_backward
        forward.argtypes = [ctypes.c_void_p] * 2 + sizes + [_DOUBLES] * 9
        backward.argtypes = [ctypes.c_void_p] + sizes + numbers + [_DOUBLES] * 12
    return library


def process_fields(process: ProcessArrays) -> dict[str, Any]:
    """A process as `rollout.c` takes it."""
    (n_draws, _, q), d = process.linear.shape, len(process.centre)
    counts, points, offsets = [], [], []
    weights: list[list[Array]] = [[] for _ in range(n_draws)]
    for i, given in enumerate(process.weights):
        k = given.shape[1]
        n = -(-k // LANES) * LANES
        scaled = np.zeros((n, d))
        scaled[:k] = process.points[:k] * process.inverse_scales[i]
        counts.append(n)
        points.append(scaled.reshape(-1, LANES, d).transpose(0, 2, 1).ravel())
        offsets.append(-0.5 * np.square(scaled).sum(axis=1))
        for one, row in zip(weights, given, strict=True):
            one.append(np.concatenate([row, np.zeros(n - k)]))
    return process._asdict() | {
        "d": d,
        "q": q,
        "n_draws": n_draws,
        "n_curved": len(counts),
        "n_waves": process.frequencies.shape[2],
        "target": process.curved,
        "count": counts,
        "points": _joined(points),
        "offsets": _joined(offsets),
        "weights": _joined([part for one in weights for part in one]),
    }


def filled_up(array: Array, value: float = 0.0) -> Array:
    """An array whose last axis is filled up to a multiple of `LANES`."""
    missing = -array.shape[-1] % LANES
    widths = [(0, 0)] * (array.ndim - 1) + [(0, missing)]
    return np.pad(array, widths, constant_values=value)


def _policy_fields(actor: ArrayPolicies | Array, d_a: int) -> dict[str, Any]:
    if isinstance(actor, np.ndarray):
        return {"count": 1, "given": actor}
    return actor.compiled_fields(d_a)


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0)


_DOUBLES, _WHOLES = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int64)
_FLAGS = ctypes.POINTER(ctypes.c_ubyte)


def _fields(text: str) -> list[tuple[str, Any]]:
    """Fields of a structure from their kinds and names, in the order of `rollout.c`."""
    kinds = {
        "whole": ctypes.c_int64,
        "real": ctypes.c_double,
        "wholes": _WHOLES,
        "reals": _DOUBLES,
        "flags": _FLAGS,
    }
    lines = (line.split() for line in text.strip().splitlines())
    return [(name, kinds[kind]) for kind, *names in lines for name in names]


class _Model(ctypes.Structure):
    _fields_ = _fields(
        """
        whole d_s d_p d_a d q n_draws n_curved n_waves
        reals centre factor linear
        wholes target count
        reals inverse_scales points offsets weights frequencies phases wave_weights
        reals noise_centre noise_factor log_std log_low log_high mixing
        wholes copied
        whole n_copied n_changes
        reals low high below above
        flags stops is_set
        reals set_to
        whole has_stops n_angles
        wholes angles
        real reward_low reward_high
        whole n_points
        reals end_factor end_points end_offsets ended end_rewards
        """
    )


class _Policies(ctypes.Structure):
    _fields_ = _fields(
        """
        whole count n_layers n_out is_discrete is_decided is_squashed
        wholes widths
        reals mean factor weights biases middle half given
        """
    )


_KINDS = {_DOUBLES: np.float64, _WHOLES: np.int64, _FLAGS: np.uint8}


def _filled(kind: Any, fields: dict[str, Any]) -> tuple[Any, list[Any]]:
    """A structure of these values, what is missing 0, and the arrays it points to."""
    struct, kept = kind(), []
    for name, field in kind._fields_:
        value = fields.get(name)
        if value is None:
            continue
        if field in _KINDS:
            array = np.ascontiguousarray(value, dtype=_KINDS[field])
            kept.append(array)
            value = array.ctypes.data_as(field)
        setattr(struct, name, value)
    return struct, kept
