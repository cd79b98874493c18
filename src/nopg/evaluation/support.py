"""Support: how much data an answer at (s, a) rests on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg.bellman.problem import Problem
from nopg.bellman.rows import QueryRows
from nopg.bellman.samples import initial_state_tensor
from nopg.data.validation import FloatArray
from nopg.errors import DataError
from nopg.kernels.neighbours import log_label_similarity

USUAL_SHARE = 0.99  # share of the data's own transitions that count as near the data


@dataclass(frozen=True)
class Support:
    """What the data say about states and actions.

    Attributes:
        mass: Sum of the kernels of all samples, (m,): a sample at the very place counts 1, one a
            bandwidth away 0.61, one three bandwidths away 0.01.
        effective: Effective number of samples in the row, 1 / sum w^2, (m,); 1 if one alone speaks.
        distance: Distance to the nearest sample in bandwidths, (m,); other labels are farther away.
        weights: How much each place counts: visits along a policy's path, else 1, (m,).
    """

    mass: FloatArray
    effective: FloatArray
    distance: FloatArray
    weights: FloatArray

    def __len__(self) -> int:
        return len(self.mass)

    def share_beyond(self, distance: float) -> float:
        """Share of the weight that lies farther than this from every sample."""
        return float(self.weights[self.distance > distance].sum() / self.weights.sum())

    def __repr__(self) -> str:
        distance = float(np.average(self.distance, weights=self.weights))
        return (
            f"Support({len(self)} places: mass {np.median(self.mass):.3g} and effective samples "
            f"{np.median(self.effective):.3g} in the middle, nearest sample {distance:.2f} "
            f"bandwidths away on average, {self.share_beyond(3.0):.0%} beyond 3)"
        )


def support_at(problem: Problem, states: Any, actions: Any, weights: FloatArray | None) -> Support:
    """Support of states (m, d_s) with actions (m, d_a), or labels (m,)."""
    queries = initial_state_tensor(states, problem.samples.states)
    taken = _action_tensor(actions, len(queries), problem)
    rows = problem.rows_at(queries)
    logs = _log_kernels(rows, taken, problem)
    mass = rows.gather([torch.logsumexp(log, dim=1) for log in logs])
    double = rows.gather([torch.logsumexp(2.0 * log, dim=1) for log in logs])
    found = (mass.exp(), (2.0 * mass - double).exp(), distance_of_rows(problem, rows, taken))
    total, effective, nearest = (x.double().cpu().numpy() for x in found)
    return Support(total, effective, nearest, np.ones(len(queries)) if weights is None else weights)


def distance_of_rows(problem: Problem, rows: QueryRows, actions: Tensor) -> Tensor:
    """`Support.distance` alone, of rows that are listed already, (m,)."""
    logs = _log_kernels(rows, actions, problem)
    return (-2.0 * rows.gather([log.amax(dim=1) for log in logs])).sqrt()


def usual_distance(problem: Problem) -> float:
    """Distance that 99 of 100 samples have at most from the nearest other one."""
    # In bandwidths, at least 1; of labels among their own kind, those alone of it left out.
    data, h = problem.samples, problem.bandwidths
    places = data.states / data.states.new_tensor(h.state)
    if data.n_actions:
        kinds = [places[data.actions == label] for label in range(data.n_actions)]
    else:
        kinds = [torch.cat([places, data.actions / data.states.new_tensor(h.action)], dim=1)]
    every = [kind.double().cpu().numpy() for kind in kinds if len(kind) > 1]
    found = [cKDTree(kind).query(kind, k=2)[0][:, 1] for kind in every]
    return max(1.0, float(np.quantile(np.concatenate(found), USUAL_SHARE))) if found else 1.0


def _log_kernels(rows: QueryRows, taken: Tensor, problem: Problem) -> list[Tensor]:
    """Log kernel of the samples each query lists, peak 0, (m_b, k_b) of each block."""
    found, n_actions, widths = [], problem.samples.n_actions, problem.bandwidths.action
    for block, listed in zip(rows.blocks, rows.actions, strict=True):
        here = taken[block.rows]
        if n_actions:
            similarity = log_label_similarity(n_actions, widths[0]).to(block.log_psi)
            found.append(block.log_psi + similarity[here[:, None], listed])
            continue
        h = here.new_tensor(widths)
        offsets = (listed - here.T[:, :, None]) / h[:, None, None]  # (d_a, m_b, k_b)
        found.append(block.log_psi - 0.5 * offsets.square().sum(dim=0))
    return found


def _action_tensor(actions: Any, m: int, problem: Problem) -> Tensor:
    data, array = problem.samples, np.asarray(actions)
    if data.n_actions:
        is_label = array.shape == (m,) and array.dtype.kind in "iu"
        if not is_label or (m and not 0 <= array.min() <= array.max() < data.n_actions):
            raise DataError(f"`actions` must be labels below {data.n_actions}, one per state.")
        return torch.as_tensor(array.astype(np.int64)).to(data.states.device)
    d_a = data.actions.shape[1]
    if array.ndim == 1 and d_a == array.shape[0] and m == 1:
        array = array[None]
    if array.shape != (m, d_a) or array.dtype.kind not in "fiu":
        raise DataError(f"`actions` must have shape ({m}, {d_a}), got {array.shape}; reshape them.")
    return torch.as_tensor(array.astype(np.float64)).to(data.states)
