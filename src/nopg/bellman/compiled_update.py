"""Updates of an ascent in one call of compiled code each, `update.c`.

For deterministic perceptrons on the CPU and the paper's rows, where these are sparse; all else is
done by `solution.py`, to the same values. Up to some thousand samples calls and new arrays take
longer than what is computed, and while Python makes them no other ascent goes on.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from nopg.bellman import compiled_rows
from nopg.bellman.nadaraya_watson import NadarayaWatson
from nopg.bellman.problem import Problem
from nopg.bellman.responsibilities import DeterministicResponsibilities
from nopg.bellman.solution import Estimator, Measured, Start
from nopg.compiled import compiled_for, packed
from nopg.linalg.coarse import PRECISION, ROWS_EACH, STEPS, CompiledSystem
from nopg.linalg.operators import AveragedRows, SparseRows
from nopg.linalg.solve import SolverConfig
from nopg.policies.adam import BETAS, Adam
from nopg.policies.build import PerceptronPass
from nopg.policies.families import DeterministicPolicy, Policy
from nopg.threads import threads_for

MOST_THREADS = 64  # of which each part of an update takes what it is worth


@dataclass(frozen=True)
class CompiledUpdate:
    """An update laid out once, and where its results are."""

    fields: bytes  # for `update.c`
    kept: Sequence[Any]  # what these point to
    library: Any
    problem: Problem
    adam: Adam
    start: Start  # where the next solves start
    dropped: Tensor  # by rows at next states, (m,)
    measured: Tensor  # (12,)

    @classmethod
    @torch.no_grad()
    def of(
        cls, estimator: Estimator, policy: Policy, adam: Adam, solver: SolverConfig
    ) -> Self | None:
        """Lay out updates of a policy; None where they are made by `Estimator.solve`."""
        problem, queries = estimator.problem, estimator.problem.queries
        families, n = (estimator.at_next, estimator.at_initial), len(problem.samples.rewards)
        library = compiled_for(queries, "nopg.bellman", "update.c")
        rows_library, cells = compiled_rows.library_for(queries), problem.coarse
        made = PerceptronPass.of(policy, queries)
        is_plain = all(_is_plain(family) for family in families) and problem.ranks is None
        if library is None or rows_library is None or cells is None or made is None:
            return None
        if not is_plain or type(policy) is not DeterministicPolicy or n <= solver.dense_below:
            return None
        x, residuals, starts = queries.new_zeros((3, 2, n))  # of q and mu
        taken, slopes = queries.new_empty((2, *made.outputs[0].shape))
        m, weights, dropped, listed, kept = problem.next_rows.shape[0], [], [], [], list[Any]()
        for family, part in zip(families, (slice(m), slice(m, None)), strict=True):
            rows, model = family.rows, family.model
            weights.append(queries.new_empty(rows.n_entries))
            log_mass, lost = queries.new_empty((2, rows.shape[0]))
            dropped.append(lost)
            sizes, blocks = (rows.shape[0], 1, taken.shape[1], rows.shape[0], 0), rows.listing
            made_of = (blocks[0], taken[part], model.precisions, weights[-1], log_mass, lost)
            given = (weights[-1], *rows.pattern.ends, rows.pattern.columns, x[0], model.centred)
            both = [_struct(*sizes, *made_of)]
            both += [_struct(rows.shape[0], taken.shape[1], *given, slopes[part])]
            worth = 1 + rows.n_entries // compiled_rows.FEW
            listed += [rows.shape[0], worth, *both, lost, slopes[part]]
            kept += [blocks, *made_of, *given, *both]
        later, first = (one.rows.pattern for one in families)
        group, mask = problem.config.next_state_samples, problem.samples.continuation_mask
        transition = AveragedRows(SparseRows(later, weights[0]), group, mask)
        system = CompiledSystem.of(transition, problem.config.gamma)
        assert system is not None  # its entries are at hand
        eps0, rewards, core = starts.new_empty(n), problem.samples.rewards, torch.empty(0)
        core = torch.empty((len(cells.sizes),) * 2, dtype=PRECISION)
        outcomes, measured = torch.empty((2, 3), dtype=torch.float64), torch.empty(12).double()
        rtol, budget = solver.reachable(rewards), solver.budget
        solves = [
            _struct(k, budget, STEPS, rtol, b, x[k], residuals[k], outcomes[k])
            for k, b in enumerate((rewards, eps0))
        ]
        there = _struct_of(made.fields((None, None, taken, None, None), []))
        back = _struct_of(made.fields((slopes, None, None, None, None), adam.changes))
        whole = _struct_of(system.fields(cells, core))
        solve_pair = system.library.nopg_solve_pair
        solve_pair.restype = ctypes.c_int64
        fixed = (whole.tobytes(), *(one.tobytes() for one in solves))
        room = torch.empty(solve_pair(*fixed, None, ctypes.c_int64(1)), dtype=torch.uint8)
        visits, sizes_of = queries.new_empty(m), [p.numel() for p in made.parameters]
        pointers = np.array([p.data_ptr() for p in made.parameters])
        functions = (
            made.library.nopg_perceptron,
            rows_library.nopg_kernel_rows,
            rows_library.nopg_covariances,
            system.library.nopg_coarse_core,
            solve_pair,
        )
        addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
        variances, scale = families[0].model.variances.contiguous(), system.scale
        numbers = (n, group, taken.shape[1], made.worth, 1 + len(core) // ROWS_EACH, system.worth)
        arrays = (rewards, scale, variances, eps0, visits, *starts, *x, *residuals, outcomes, core)
        by_tensor = (len(sizes_of), np.array(sizes_of), pointers)
        moments = (adam.change, adam.means, adam.squares, *BETAS, adam.eps, measured)
        entries = (*first.ends, first.columns, weights[1], room)
        fields = packed(
            *(*addresses, there, back, whole, *solves, *listed, *entries, *numbers),
            *(float(problem.config.gamma), *arrays, *by_tensor, *moments),
        )
        kept += [made, system, there, back, whole, *solves, *entries, *arrays, *by_tensor]
        start = Start(*starts, core)
        return cls(fields, kept, library, problem, adam, start, dropped[0], measured)

    def run(self, start: Start | None, rate: float) -> Measured | None:
        """Improve the policy once; None, and nothing is changed, where a solve does not end."""
        is_new = start is None or start.core is None
        if start is None:
            self.start.q.zero_()
            self.start.mu.zero_()
        elif start.q is not self.start.q:  # of an earlier ascent, or of an update made otherwise
            for own, given in zip(vars(self.start).values(), vars(start).values(), strict=True):
                if given is not None:
                    own.copy_(given)
        rates = [ctypes.c_double(one) for one in self.adam.rates(rate)]
        many = threads_for(MOST_THREADS)
        failed = self.library.nopg_update(self.fields, ctypes.c_int64(is_new), *rates, many)
        if failed < 0:
            raise MemoryError("There is no memory for an update.")
        if failed:
            return None
        self.adam.n_steps += 1
        return Measured(*self.measured.tolist())


def _is_plain(family: Any) -> bool:
    is_one = type(family) is DeterministicResponsibilities and family.rows.pattern is not None
    return is_one and type(family.model) is NadarayaWatson


def _struct(*fields: Any) -> Any:
    return _struct_of(packed(*fields))


def _struct_of(fields: bytes) -> Any:
    """A structure that another one points to."""
    return np.frombuffer(fields, dtype=np.uint8)
