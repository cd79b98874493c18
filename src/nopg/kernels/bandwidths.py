"""Bandwidths: one per dimension, given, or chosen from data by a rule.

`CrossValidated` and `LeaveOneOut` choose numbers; `select_bandwidths` applies what the user passed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from nopg.compiled import compiled_for, packed
from nopg.errors import ConfigError, DataError, warn
from nopg.kernels.cross_validation import Factor, FloatArray, cross_validated
from nopg.threads import parallel_map, threads_for

LABEL_SMOOTHING = 1e-3
"""Smoothing of the label kernel: a sample of the same action outweighs one of
another action up to sqrt(2 log 1000) = 3.7 bandwidths farther away."""
WIDEST_STATE = 20.0  # of state bandwidths, in deviations: the column says nothing
WIDEST_ACTION = 1.0  # of action bandwidths: with wider ones all policies are alike
N_PREDICTIONS = 512  # predictions made of what is left out; their error is known to a few percent
LANES = 16  # candidates that compiled code sums up side by side
MAX_CANDIDATES = 2048  # samples a prediction may listen to; of more the nearest ones


@dataclass(frozen=True)
class Bandwidths:
    """Kernel widths in the user's units.

    Attributes:
        state: One per state dimension (psi); infinity ignores a dimension.
        action: One per action dimension (varphi); for discrete actions the smoothing
            of the label kernel, one number in (0, 1 - 1 / n_actions].
        next_state: As `state`, its default, for sampled next states (phi); zero takes the mean.
    """

    state: tuple[float, ...]
    action: tuple[float, ...]
    next_state: tuple[float, ...]

    def __init__(
        self,
        state: Sequence[float] | FloatArray,
        action: Sequence[float] | FloatArray,
        next_state: Sequence[float] | FloatArray | None = None,
    ) -> None:
        following = state if next_state is None else next_state
        for name, listed in {"state": state, "action": action, "next_state": following}.items():
            values = _numbers(name, listed)
            for d, h in enumerate(values):
                if math.isnan(h) or h < 0.0 or (h == 0.0 and name != "next_state"):
                    raise ConfigError(
                        f"Every `{name}` bandwidth must be positive, got {h} in dimension {d}; a "
                        "constant column can be ignored with float('inf')."
                    )
            object.__setattr__(self, name, values)

    def scaled(self, state: float = 1.0, action: float = 1.0) -> Self:
        """The same bandwidths times a factor for states and one for actions."""
        states, actions = [h * state for h in self.state], [h * action for h in self.action]
        return type(self)(states, actions, self.next_state)

    def require_widths(self, d_s: int, d_a: int) -> None:
        """Check that there is one bandwidth per dimension."""
        if (found := (len(self.state), len(self.action), len(self.next_state))) != (d_s, d_a, d_s):
            raise ConfigError(
                f"There must be {d_s} state, {d_a} action and {d_s} next-state bandwidths, got "
                f"{found[0]}, {found[1]} and {found[2]}; give one per dimension."
            )


def _numbers(name: str, values: Any, what: str = "bandwidths") -> tuple[float, ...]:
    try:
        return tuple(float(h) for h in values)
    except (TypeError, ValueError):
        raise ConfigError(f"`{name}` {what} must be a list of numbers, got {values!r}.") from None


@runtime_checkable
class BandwidthRule(Protocol):
    """Anything that chooses bandwidths from data; your own rule is as good as ours.

    `data` has the arrays of a `Dataset`: observations, actions, rewards and next_observations.
    """

    def select(self, data: Any, generator: np.random.Generator) -> Bandwidths:
        """One bandwidth per dimension; `generator` is the source of all randomness."""


@dataclass(frozen=True)
class CrossValidated:
    """The paper's rule: density cross-validation per dimension, times a factor.

    Factors, a number or one per dimension, were tuned by hand (1 for states, 20 to 50 for actions).
    """

    state_factor: Factor = 1.0
    action_factor: Factor = 1.0
    next_state_factor: Factor | None = None
    """None takes the state's, as the authors' release does; the paper prints none."""
    half_spacing_floor: bool = False
    """Where values repeat, take at least half the spacing of neighbouring ones: on a grid the
    likelihood prefers widths at which no sample sees the next. Not in the paper."""

    def __post_init__(self) -> None:
        for name in ("state_factor", "action_factor", "next_state_factor"):
            if (given := getattr(self, name)) is not None:
                values = _numbers(name, given if np.ndim(given) else [given], "factors")
                if not all(value > 0.0 for value in values) or not values:
                    raise ConfigError(f"`{name}` must be positive, got {given}; 1 is the default.")
                object.__setattr__(self, name, values if np.ndim(given) else values[0])

    def select(self, data: Any, generator: np.random.Generator) -> Bandwidths:
        """Bandwidths of every column; remarks become one warning each."""
        floor, action = self.half_spacing_floor, [LABEL_SMOOTHING]
        if data.actions.ndim == 2:
            columns = np.asarray(data.actions, dtype=np.float64)
            action = cross_validated("action", columns, self.action_factor, floor)
        ahead = self.next_state_factor or self.state_factor
        next_state = cross_validated("next-state", data.next_observations, ahead, floor)
        state = cross_validated("state", data.observations, self.state_factor, floor)
        return Bandwidths(state, action, _finite(next_state))


@dataclass(frozen=True)
class LeaveOneOut:
    """Bandwidths that predict (s', r) of a left-out transition best: "auto"."""

    # By the very weights that will make the rows of P. Density cross-validation asks another
    # question, where samples are dense, and answers it badly on grids and clipped actions.

    def select(self, data: Any, generator: np.random.Generator) -> Bandwidths:
        """Bandwidths of all columns at once, no factor to tune."""
        _report_constant("state", data.observations)
        d_s = data.observations.shape[1]
        targets = np.column_stack([data.next_observations, data.rewards])
        if data.actions.ndim == 1:
            h = _by_label(data, targets, generator)
            return Bandwidths(h, [LABEL_SMOOTHING], _finite(h))
        inputs = torch.as_tensor(np.column_stack([data.observations, data.actions]))
        largest = torch.tensor([WIDEST_STATE] * d_s + [WIDEST_ACTION] * data.actions.shape[1])
        h = leave_one_out(inputs, torch.tensor(targets), generator, largest)[0].tolist()
        _report_constant("action", np.asarray(data.actions, dtype=np.float64))
        return Bandwidths(h[:d_s], h[d_s:], _finite(h[:d_s]))


def select_bandwidths(rule: object, data: Any, generator: np.random.Generator) -> Bandwidths:
    """Apply what the user passed as `bandwidths`."""
    actions = data.actions if data.actions.ndim == 2 else data.actions[:, None]
    if bool((actions == actions[0]).all()):
        raise DataError(
            f"Actions must differ between transitions, all {len(actions)} are "
            f"{actions[0].tolist()}; without other actions there is nothing to choose."
        )
    rule = LeaveOneOut() if rule == "auto" else rule
    chosen = rule.select(data, generator) if isinstance(rule, BandwidthRule) else rule
    if not isinstance(chosen, Bandwidths):
        raise ConfigError(
            '`bandwidths` must be "auto", nopg.Bandwidths(...), a rule such as '
            "nopg.CrossValidated(...), or an object whose `select` returns "
            f'nopg.Bandwidths, got {chosen!r}; "auto" needs no numbers.'
        )
    chosen.require_widths(data.observations.shape[1], actions.shape[1])
    return chosen


def _by_label(data: Any, targets: FloatArray, generator: np.random.Generator) -> list[float]:
    """One state bandwidth for all labels: the mean, in logs, over their own fits."""
    labels, counts = np.unique(data.actions, return_counts=True)
    logs = []
    for label in labels[counts >= 2]:
        rows = data.actions == label
        largest = torch.full((data.observations.shape[1],), WIDEST_STATE)
        states = torch.tensor(data.observations[rows])
        h, _ = leave_one_out(states, torch.tensor(targets[rows]), generator, largest)
        logs.append(h.log() * int(rows.sum()))
    if not logs:
        raise DataError("Some action must occur twice or more, every one occurs once; record more.")
    return list((torch.stack(logs).sum(dim=0) / int(counts[counts >= 2].sum())).exp().tolist())


def _report_constant(kind: str, values: FloatArray) -> None:
    for d in np.nonzero((values == values[0]).all(axis=0))[0]:
        warn(f"{kind} column {d} is constant: it tells no samples apart and is ignored.")


def _finite(bandwidths: list[float]) -> list[float]:
    """Next-state draws do not spread along an ignored dimension."""
    return [0.0 if math.isinf(h) else h for h in bandwidths]


def leave_one_out(
    inputs: Tensor, targets: Tensor, generator: np.random.Generator, largest: Tensor
) -> tuple[Tensor, float]:
    """Minimise the leave-one-out error of Nadaraya-Watson regression.

        error(h) = sum_i |y_i - sum_{j != i} w_ij(h) y_j|^2 / sum_i |y_i - mean y|^2,
        w_ij ~ exp(-1/2 sum_d ((x_id - x_jd) / h_d)^2)

    Copies of a query are left out with it: they predict it perfectly and would drive h to zero.
    Inputs are x = (s, a), (n, d), targets y = (s', r), (n, p); `largest` bounds h in deviations of
    the column, (d,). What comes is h, (d,), infinite for constant columns, and the error reached.
    """
    from scipy.optimize import minimize

    spread = inputs.std(dim=0, correction=0)
    varies = spread > 1e-12 * (1.0 + inputs.abs().amax(dim=0))
    x = (inputs / torch.where(varies, spread, torch.ones_like(spread)))[:, varies]
    deviation = targets.std(dim=0, correction=0)
    y = (targets - targets.mean(dim=0)) / torch.where(deviation > 0, deviation, 1.0)
    y = y[:, deviation > 0] if bool((deviation > 0).any()) else y[:, :1]
    queries, candidates = _choose(x, generator)
    # Squared differences by dimension, (d, m, c): the only large arrays.
    squares = (x[queries][:, None] - x[candidates]).square().permute(2, 0, 1)
    is_hidden = squares.sum(dim=0) < 1e-12  # copies, up to rounding
    # A random four fifths of the others are seen. On a regular grid the neighbours of a left-out
    # node lie symmetrically around it and cancel each other's errors, however far they are: leaving
    # some out breaks the symmetry, as queries between the nodes do later.
    is_hidden |= torch.as_tensor(generator.random(is_hidden.shape) > 0.8)
    # Single precision: an error to six digits has its minimum at four of h.
    known = (y[queries].float(), y[candidates].float())
    problem = _Regression(squares.float().contiguous(), is_hidden, *known)
    n, d = x.shape
    silverman = n ** (-1.0 / (d + 4))
    bounds = [(np.log(1e-3), np.log(most)) for most in largest[varies].tolist()]
    how = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": {"maxiter": 40}}
    starts = [np.clip(np.full(d, np.log(silverman * f)), *np.transpose(bounds)) for f in (0.5, 2.0)]
    found = parallel_map(lambda start: minimize(problem.error_and_slope, start, **how), starts)
    best = min(found, key=lambda one: float(one.fun))
    h = torch.full_like(spread, torch.inf)
    h[varies] = torch.as_tensor(np.exp(best.x)).to(spread) * spread[varies]
    return h, float(best.fun)


class _Regression:
    """The leave-one-out error of fixed queries as a function of log h."""

    def __init__(self, squares: Tensor, is_hidden: Tensor, targets: Tensor, known: Tensor) -> None:
        sees = ~is_hidden.all(dim=1)  # the others have nothing to be predicted from
        self.squares = squares[:, sees].flatten(1)  # (d, m c)
        self.blocked = torch.where(is_hidden[sees], -torch.inf, 0.0).to(squares)
        self.targets = targets[sees]  # (m, p)
        self.known = known if len(known) == 1 else known[sees]  # one list for all, or (m, c, p)
        self.scale = float((self.targets - self.targets.mean(dim=0)).square().sum()) or 1.0
        self.library = compiled_for(squares, "nopg.kernels", "leave_one_out.c")
        room = (0, -self.blocked.shape[1] % LANES)  # filled up with what is blocked
        apart, listed = (pad(x, room).contiguous() for x in (squares[:, sees], self.known.mT))
        blocked = pad(self.blocked, room, value=-torch.inf)
        self.laid_out = (apart, blocked, listed, self.targets.contiguous())

    def error_and_slope(self, log_h: np.ndarray) -> tuple[float, np.ndarray]:
        """The relative error and its derivative, in closed form."""
        # Moving log h_d moves weight w_ij by w_ij (z_ijd^2 - mean): slopes are covariances in rows.
        precision = torch.as_tensor(np.exp(-2.0 * log_h)).to(self.squares)
        if self.library is not None:
            errors, slopes = self._in_c(precision)
            return float(errors.sum()) / self.scale, slopes.sum(dim=0).numpy() / self.scale
        distances = (precision @ self.squares).view_as(self.blocked)
        weights = torch.softmax(self.blocked - 0.5 * distances, dim=1)  # (m, c)
        groups = (len(self.known), -1, weights.shape[1])  # of queries with one list
        predicted = (weights.view(groups) @ self.known).view_as(self.targets)
        residual = self.targets - predicted
        towards = (residual.view(*groups[:2], residual.shape[1]) @ self.known.mT).view_as(weights)
        towards -= (predicted * residual).sum(dim=1, keepdim=True)
        slope = -2.0 * precision * (self.squares @ (weights * towards).flatten())
        error = float(residual.square().sum())
        return error / self.scale, slope.double().cpu().numpy() / self.scale

    def _in_c(self, precision: Tensor) -> tuple[Tensor, Tensor]:
        """Squared error of each query, (m,), and its slopes by log h, (m, d)."""
        (m, p), d = self.targets.shape, len(precision)
        errors, slopes = precision.new_empty(m), precision.new_empty(m, d)
        sizes = (m, self.laid_out[1].shape[1], d, p, len(self.known))
        given = packed(*sizes, *self.laid_out, precision, errors, slopes)
        if self.library.nopg_leave_one_out(given, threads_for(m)):
            raise MemoryError("There is no memory for predictions.")
        return errors.double(), -2.0 * (precision * slopes).double()


def _choose(x: Tensor, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Queries (m,) and the candidates each may listen to, (m, c), or (1, c) for all."""
    n = len(x)
    # Few samples are predicted several times, each time from another four fifths.
    rounds = [generator.permutation(n) for _ in range(-(-N_PREDICTIONS // n))]
    queries = torch.as_tensor(np.concatenate(rounds)[:N_PREDICTIONS])
    if n <= MAX_CANDIDATES:
        return queries, torch.arange(n)[None]
    from scipy.spatial import cKDTree

    _, nearest = cKDTree(x.numpy()).query(x[queries].numpy(), k=MAX_CANDIDATES // 4, workers=-1)
    return queries, torch.as_tensor(nearest)
