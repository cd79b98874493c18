"""Updates of an ascent in one call of compiled code each, `update.c`.

For deterministic perceptrons on the CPU and the paper's rows, where these are sparse; all else is
done by `solution.py`, to the same values. Up to some thousand samples calls and new arrays take
longer than what is computed, and while Python makes them no other ascent goes on.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from nopg.bellman import compiled_rows
from nopg.bellman.nadaraya_watson import NadarayaWatson
from nopg.bellman.problem import Problem
from nopg.bellman.responsibilities import DeterministicResponsibilities
from nopg.bellman.solution import Estimator, Objective, Start
from nopg.compiled import MOST_THREADS, compiled_for, packed
from nopg.linalg.coarse import PRECISION, ROWS_EACH, STEPS, CompiledSystem, solve_library
from nopg.linalg.operators import AveragedRows, SparseRows
from nopg.linalg.solve import SolverConfig
from nopg.policies.adam import Adam
from nopg.policies.build import PerceptronPass
from nopg.policies.families import DeterministicPolicy, Policy
from nopg.threads import threads_for


class Measured(NamedTuple):
    """What an update found on its way."""

    objective: Objective
    matvecs: int  # products of both solves
    gradient_norm: float


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
    measured: Tensor  # (7,)

    @classmethod
    @torch.no_grad()
    def of(
        cls, estimator: Estimator, policy: Policy, adam: Adam, solver: SolverConfig
    ) -> Self | None:
        """Lay out updates of a policy; None where they are made by `Estimator.solve`."""
        problem, samples = estimator.problem, estimator.problem.samples
        queries, config = problem.queries, problem.config
        families: list[Any] = [estimator.at_next, estimator.at_initial]
        library = compiled_for(queries, "nopg.bellman", "update.c")
        by_row = compiled_rows.library_for(queries)
        made, rewards, cells = PerceptronPass.of(policy, queries), samples.rewards, problem.coarse
        is_plain = all(map(_is_plain, families)) and type(policy) is DeterministicPolicy
        if not library or not by_row or not cells or not made or not is_plain:
            return None
        if problem.ranks is not None or len(rewards) <= solver.dense_below:
            return None
        kept: list[Any] = []

        def struct(*fields: Any) -> Any:
            """What another structure points to."""
            kept.append((fields, np.frombuffer(packed(*fields), dtype=np.uint8)))
            return kept[-1][1]

        n, new = len(rewards), queries.new_empty
        x, residuals, starts = queries.new_zeros((3, 2, n))  # of q and mu
        taken, slopes = new((2, *made.outputs[0].shape))
        (m, d_a), listed, entries = (problem.next_rows.shape[0], taken.shape[1]), [], []
        for family, part in zip(families, (slice(m), slice(m, None)), strict=True):
            rows, model, p = family.rows, family.model, family.rows.pattern
            weights, (mass, lost), count = new(rows.n_entries), new((2, p.shape[0])), p.shape[0]
            where, worth = (weights, *p.ends, p.columns), 1 + len(weights) // compiled_rows.FEW
            actions = (taken[part], model.precisions, weights, mass, lost)
            listed += [count, worth, struct(count, 1, d_a, count, 0, rows.listing[0], *actions)]
            listed += [struct(count, d_a, *where, x[0], model.centred, slopes[part])]
            listed += [lost, slopes[part]]
            entries.append(where)
        group, mask = config.next_state_samples, samples.continuation_mask
        transition = AveragedRows(SparseRows(families[0].rows.pattern, entries[0][0]), group, mask)
        system = CompiledSystem(transition, config.gamma, solve_library(queries))
        eps0, core = torch.empty_like(rewards), torch.empty((len(cells.sizes),) * 2).to(PRECISION)
        outcomes, measured = torch.empty((2, 3)).double(), torch.empty(7).double()
        how, whole = (solver.budget, STEPS, solver.reachable(rewards)), system.fields(cells, core)
        both = [(i, *how, b, x[i], residuals[i], outcomes[i]) for i, b in ((0, rewards), (1, eps0))]
        room = torch.empty(system.room(whole, *(packed(*one) for one in both)), dtype=torch.uint8)
        structures = (
            struct(*made.fields(None, None, taken, None, None)),
            struct(*made.fields(slopes, None, None, None, None), *adam.changes),
            np.frombuffer(whole, dtype=np.uint8),
            *(struct(*one) for one in both),
        )
        functions = [made.library.nopg_perceptron, by_row.nopg_kernel_rows, by_row.nopg_covariances]
        functions += [system.library.nopg_coarse_core, system.library.nopg_solve_pair]
        sizes = (n, group, d_a, made.worth, 1 + len(core) // ROWS_EACH, system.worth)
        arrays = (rewards, system.scale, families[0].model.variances, eps0, new(m), *starts, *x)
        lowest, highest = problem.possible_returns
        fields: list[Any] = [ctypes.cast(one, ctypes.c_void_p).value for one in functions]
        fields += [*structures, *listed, *entries[1][1:], entries[1][0], room, *sizes]
        fields += [float(config.gamma), float(highest - lowest), *arrays, *residuals, outcomes]
        fields += [core, *adam.fields(), measured]
        kept += [fields, system, made]
        start, lost = Start(starts[0], starts[1], core), listed[4]
        return cls(packed(*fields), kept, library, problem, adam, start, lost, measured)

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
        *matvecs, value, truncated, left, most, norm = self.measured.tolist()
        self.problem.warn_if_capped(self.dropped, most)
        return Measured(Objective(value, truncated, left), int(sum(matvecs)), norm)


def _is_plain(family: Any) -> bool:
    is_one = type(family) is DeterministicResponsibilities and family.rows.pattern is not None
    return is_one and type(family.model) is NadarayaWatson
