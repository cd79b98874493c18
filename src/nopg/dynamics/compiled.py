"""Rollouts in compiled code, `rollout.c`; without a compiler NumPy does the same."""

import functools
import importlib.resources
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nopg.compiled import MOST_THREADS, compiled, packed
from nopg.dynamics.hyperparameters import Angle, with_angles
from nopg.policies.arrays import Array, ArrayPolicies
from nopg.threads import threads_for

LANES = 8  # kernels that are evaluated at once; arrays are multiples of it


class ProcessArrays(NamedTuple):
    """S functions of a Gaussian process, as arrays: its mean, or draws."""

    centre: Array  # (d,)
    factor: Array  # (d,), one over the spread
    linear: Array  # (S, 1 + d, q)
    curved: Sequence[int]  # targets with kernels
    points: Array  # where these are, (m, d)
    inverse_scales: Array  # (c, d)
    exponent: Array  # the kernels' exponents as a linear map of (z^2, z, 1), (2 d + 1, c m)
    weights: Sequence[Array]  # of each curved target, the first so many points, (S, k)
    frequencies: Array  # of waves, (c, d, D); D may be 0
    phases: Array  # (c, D)
    wave_weights: Array  # (S, c, D)
    turned: Sequence[Angle]  # further inputs, after those that are given
    missed: Array  # error of the curved targets that have too few kernels, otherwise 0, (c,)

    def features(self, inputs: Array) -> Array:
        """(z^2, z, 1) of inputs and their angles, (m, 2 d + 1)."""
        inputs, d = with_angles(inputs, self.turned), len(self.centre)
        found = np.ones((len(inputs), 2 * d + 1))
        z = np.multiply(inputs - self.centre, self.factor, out=found[:, d : 2 * d])
        np.multiply(z, z, out=found[:, :d])
        return found


class PathFeedback(NamedTuple):
    """Actions a_t = u_t + K_t (s_t - x_t) within limits, of B paths of T steps."""

    given: Array  # u, (T, B, d_a)
    around: Array  # x, (T, B, d_s)
    gains: Array  # K, (T, B, d_a, d_s)
    limits: Array  # lowest and highest action, (2, d_a)

    def at(self, t: int | slice, states: Array) -> Array:
        """What is done in the states at a step, or at some steps."""
        added = self.gains[t] @ (states - self.around[t])[..., None]
        return np.clip(self.given[t] + added[..., 0], *self.limits)


class CompiledModel:
    """A learned model, laid out for `rollout.c`."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields
        self.d_s, self.d_a = fields["d_s"], fields["d_a"]
        self.is_noisy = fields.get("log_std") is not None
        self.struct, self._kept = laid_out("Model", fields)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pointers cannot be copied or pickled; what they point to can."""
        return functools.partial(CompiledModel, **self._fields), ()

    def rollout(
        self,
        # Policies, or recorded actions, (T, B, d_a), or feedback along paths.
        actor: ArrayPolicies | Array | PathFeedback,
        starts: Array,  # (B, d_s)
        n_steps: int,  # T
        draws: Any,  # standard normal draws of the noise, (T, B, d_s), or None
        # Probability that each still runs, (B,), kept up to date; without it none is gone.
        running: Array | None = None,
        given: Array | None = None,  # done instead of what policies do, but where it is NaN
    ) -> tuple[Array, ...]:
        """States, actions and the fields of a predicted step, (T, B, ...) each."""
        library = compiled_library()
        assert library is not None  # who has none does not come here
        n, draws = len(starts), draws if self.is_noisy else None
        self._require(starts, (n, self.d_s))
        self._require(draws, (n_steps, n, self.d_s))
        if isinstance(actor, np.ndarray):
            self._require(actor, (n_steps, n, self.d_a))
            given_by: dict[str, Any] = {"count": 1, "given": actor}
        elif isinstance(actor, PathFeedback):
            given_by = {"count": 1} | actor._asdict()
            whole, limits = (n_steps, n, self.d_a, self.d_s), (2, self.d_a)
            shapes = (whole[:3], (n_steps, n, self.d_s), whole, limits)
            for array, shape in zip(actor, shapes, strict=True):
                self._require(array, shape)
        else:
            self._require(given, (n_steps, n, self.d_a))
            given_by = {} if given is None else actor.compiled_fields(self.d_a) | {"given": given}
        # What C reads is alive until all is done.
        plain: Any = actor  # policies that are asked for some steps at a time
        policies, _kept = laid_out("Policies", given_by) if given_by else _known(plain, self.d_a)
        arrays = [np.empty((n_steps, n, k)) for k in (self.d_s, self.d_a, self.d_s, self.d_s)]
        arrays += [np.empty((n_steps, n)) for _ in range(4)]
        arrays[0][0] = starts
        draws = None if draws is None else np.ascontiguousarray(draws)
        paths = packed(n, n_steps, draws, running, *arrays)
        _call(library.nopg_rollout, paths, self.struct, policies)
        return tuple(arrays)

    def action_gradients(
        self,
        steps: Sequence[Array],  # what `rollout` gave
        by_state: Array,  # d policy / d state, (T, B, d_a, d_s)
        gamma: float,
        worst: float,  # value out of support
        credit: Array,  # what is left of dU_{t+1} / ds, (B,)
        draws: Array | None,  # those of the rollout
    ) -> Array:
        """dU_t / da_t along each rollout, (T, B, d_a); see `rollout_gradients`."""
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
        given = packed(n, n_steps, float(gamma), float(worst), *arrays)
        _call(compiled_library().nopg_backward, given, self.struct)
        return found

    def slopes(self, states: Array, actions: Array) -> Array:
        """Of all targets by states, actions and their angles, (B, q, d_z)."""
        n, sizes = len(states), self._fields
        self._require(states, (n, self.d_s))
        self._require(actions, (n, self.d_a))
        found = np.empty((n, sizes["q"], sizes["d_z"]))
        arrays = [*map(np.ascontiguousarray, (states, actions)), found]
        _call(compiled_library().nopg_slopes, packed(n, *arrays), self.struct)
        return found

    def derive(self, rows: Any, *fields: Array) -> None:
        """Fill in derivatives in some rows of states, actions, steps and these, (B, ...) each."""
        # Whoever asks laid them out all.
        _call(compiled_library().nopg_derivatives, packed(len(rows), rows, *fields), self.struct)

    @staticmethod
    def _require(array: Array | None, shape: tuple[int, ...]) -> None:
        """Compiled code reads beyond an array of another shape."""
        if array is not None and array.shape != shape:
            raise ValueError(f"{array.shape} is not {shape}")


@functools.lru_cache(maxsize=64)
def _known(actor: ArrayPolicies, d_a: int) -> tuple[bytes, list[Any]]:
    """Policies for `rollout.c`, laid out once."""
    return laid_out("Policies", actor.compiled_fields(d_a))


def _call(function: Any, given: bytes, *models: bytes) -> None:
    """Call it with the threads that there are."""
    if function(given, threads_for(MOST_THREADS), *models):
        raise MemoryError


# The compiled loop, or None where it cannot be had.
compiled_library = functools.partial(compiled, "nopg.dynamics", "rollout.c", False)


def process_fields(process: ProcessArrays) -> dict[str, Any]:
    """A process as `rollout.c` takes it."""
    (n_draws, _, q), d = process.linear.shape, len(process.centre)
    counts, points, offsets, waves, is_single = [], [], [], [], []
    weights = [np.zeros((n_draws, 0))]
    for i, given in enumerate(process.weights):
        k = given.shape[1]
        scaled = process.points[:k] * process.inverse_scales[i]
        squares = np.square(scaled).sum(axis=1)
        # Rounding in single precision, if all of it adds up, beside what the target misses anyway.
        rounding = 0.5**24 * (np.abs(given) * (1.0 + squares)).sum(axis=1).max()
        is_single.append(rounding < process.missed[i])
        lanes = 2 * LANES if is_single[i] else LANES
        counts.append(-(-k // lanes) * lanes)
        gap = (0, counts[i] - k)
        points.append(np.pad(scaled, [gap, (0, 0)]).reshape(-1, lanes, d).swapaxes(1, 2).ravel())
        offsets.append(np.pad(-0.5 / np.log(2.0) * squares, gap))
        waves.append(process.frequencies[i].T.reshape(-1, lanes, d).swapaxes(1, 2).ravel() / np.pi)
        weights.append(np.pad(given, [(0, 0), gap]))
    sizes = {"d_z": d, "q": q, "n_draws": n_draws, "n_curved": len(counts), "is_single": is_single}
    sizes |= {"n_waves": process.phases.shape[1], "target": process.curved, "count": counts}
    lists = {"points": points, "offsets": offsets, "frequencies": waves}
    laid_out = {name: np.concatenate([[], *parts]) for name, parts in lists.items()}
    laid_out |= {"weights": np.concatenate(weights, axis=1), "phases": process.phases / np.pi}
    laid_out |= {f"{name}32": array for name, array in laid_out.items()}
    laid_out["wave_weights32"] = process.wave_weights
    return process._asdict() | sizes | laid_out


def filled_up(array: Array, value: float = 0.0) -> Array:
    """An array whose last axis is filled up to a multiple of `LANES`."""
    missing = -array.shape[-1] % LANES
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)], constant_values=value)


_KINDS: dict[str, Any] = {"int64_t": np.int64, "double": np.float64, "float": np.float32}
_KINDS["unsigned char"] = np.uint8


@functools.cache
def _layout(name: str) -> list[tuple[str, Any, bool]]:
    """Name and type of each field of a structure in C, and whether it points to an array."""
    folder, fields = importlib.resources.files("nopg"), []
    sources = [(folder / path).read_text() for path in ("act.h", "dynamics/rollout.c")]
    text = re.sub(r"/\*.*?\*/", "", "".join(sources), flags=re.DOTALL)
    (body,) = re.findall(rf"typedef struct {{([^}}]*)}} {name};", text)
    for kind, names in re.findall(r"(?:const )?(unsigned char|\w+) ([^;]*);", body):
        if kind not in _KINDS:  # a structure within
            fields += _layout(kind)
            continue
        each = [one.strip() for one in names.split(",")]
        fields += [(one.lstrip("*"), _KINDS[kind], one[0] == "*") for one in each]
    return fields


def laid_out(layout: str, given: dict[str, Any]) -> tuple[bytes, list[Any]]:
    """A structure of `rollout.c`, what is missing 0, and the arrays it points to."""
    values, kept = list[Any](), list[Any]()
    for name, kind, is_array in _layout(layout):
        value = given.get(name)
        if value is not None and is_array:
            kept.append(np.ascontiguousarray(value, dtype=kind))
            value = kept[-1].ctypes.data
        elif value is not None:
            value = kind(value).item()
        values.append(value)
    return packed(*values), kept
