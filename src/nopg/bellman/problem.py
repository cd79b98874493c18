"""The nonparametric Bellman equation of a data set, before any policy is chosen.

What no policy changes is prepared once: state kernels, lists, next states, rewards, live rows.
"""

import hashlib
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Generator, Tensor

from nopg.bellman import compiled_rows
from nopg.bellman import responsibilities as families
from nopg.bellman.matched import MatchedRows
from nopg.bellman.nadaraya_watson import NadarayaWatson
from nopg.bellman.rows import Neighbours, QueryRows, RowModel, query_rows
from nopg.bellman.samples import Samples, on_circles, state_offsets
from nopg.compiled import compiled_for
from nopg.errors import ConfigError, require_choice, require_count, warn
from nopg.kernels.bandwidths import Bandwidths
from nopg.kernels.neighbours import log_label_similarity, passed_block
from nopg.linalg.coarse import CoarseCells, solve_library
from nopg.linalg.ranks import Ranks
from nopg.policies.families import CategoricalPolicy, GaussianPolicy, Policy

WORTHWHILE = 257  # samples from which solves get a coarse inverse
MATCHED, NADARAYA_WATSON = "matched", "nadaraya-watson"  # the row models by name
NEAREST = 64  # samples of a matched row by default: it looks for its mean among them


@dataclass(frozen=True, kw_only=True)
class EstimatorConfig:
    """How the integrals of the paper are taken and how rows are shortened."""

    gamma: float = 0.97  # discount factor, in [0, 1)
    rows: str = MATCHED  # their mean is their query; "nadaraya-watson" for the paper's
    policy_samples: int = 15  # actions per state for a policy's integral, N_pi
    next_state_samples: int = 1  # draws for the next-state integral, N_phi; 1: the kernel mean
    # "quadrature" averages normalised rows (Definition 2) over nodes without noise, "paper" over
    # draws; "kernel-average" averages kernels, as the authors' release; "analytic" integrates them.
    stochastic: str = "quadrature"
    # Samples a row keeps: a number, None for all; "auto": by `tolerance`, for matched rows 64.
    neighbours: Neighbours = "auto"
    tolerance: float = 1e-6  # for "auto": share of a row's mass that may be dropped, at any action
    max_neighbours: int = 1024  # for "auto"; the certificate reports what this costs

    def __post_init__(self) -> None:
        if not 0.0 <= self.gamma < 1.0:
            raise ConfigError(f"`gamma` must lie in [0, 1), got {self.gamma}; 0.97 sees 100 steps.")
        for name in ("policy_samples", "next_state_samples", "max_neighbours"):
            require_count(name, getattr(self, name))
        orders = ("quadrature", "paper", "kernel-average", "analytic")
        require_choice("rows", self.rows, (MATCHED, NADARAYA_WATSON))
        require_choice("stochastic", self.stochastic, orders)
        if self.rows == MATCHED and self.stochastic in orders[2:]:
            raise ConfigError(
                f'stochastic="{self.stochastic}" needs the paper\'s kernels, the rows '
                'are "matched"; pass rows="nadaraya-watson" too.'
            )
        if not 0.0 < self.tolerance < 1.0:
            raise ConfigError(f"`tolerance` must lie in (0, 1), got {self.tolerance}; try 1e-6.")


@dataclass(frozen=True)
class Problem:
    """Kernel rows at the next states and at the initial states."""

    samples: Samples
    bandwidths: Bandwidths
    config: EstimatorConfig
    queries: Tensor  # N_phi next states a sample, then the initial ones, (n N_phi + B, d_s)
    next_rows: QueryRows
    initial_rows: QueryRows
    ranks: Ranks | None = None  # processes that hold a range of the next states each
    coarse: CoarseCells | None = None  # of next states; None with few samples, on a GPU, on ranks

    @classmethod
    def build(
        cls,
        samples: Samples,  # the data
        initial_states: Tensor,  # draws from mu_0, (B, d_s)
        bandwidths: Bandwidths,  # kernel bandwidths
        config: EstimatorConfig,  # how integrals are taken
        generator: Generator,  # of next-state draws, made once: lists stay valid, and J is smooth
        ranks: Ranks | None = None,  # to share with; all bring the same data, or their part
    ) -> Self:
        """Draw the next states, list the neighbours, keep what never changes."""
        if config.rows == MATCHED:
            bandwidths = on_circles(bandwidths, samples.arcs)
        drawn = _next_states(samples, bandwidths, config.next_state_samples, generator)
        ranks = samples.ranks or ranks
        if ranks is not None:
            same = _fingerprint(samples, initial_states, bandwidths, config)
            ranks.require_same(same, "data and settings", drawn.device)
            if samples.ranks is None:
                drawn = drawn[ranks.part(len(samples.rewards), config.next_state_samples)]
        is_large = len(samples.rewards) >= WORTHWHILE
        with ThreadPoolExecutor() as pool:  # C is compiled meanwhile
            pool.submit(compiled_rows.library_for, drawn)
            pool.submit(compiled_for, drawn, "nopg.policies", "perceptron.c")
            if is_large:
                pool.submit(solve_library, drawn)
                pool.submit(compiled_for, drawn, "nopg.bellman", "update.c")
            next_rows = list_rows(drawn, samples, bandwidths, config)
            initial_rows = list_rows(initial_states, samples, bandwidths, config)
        queries, coarse = torch.cat([drawn, initial_states]), None
        if is_large and ranks is None and not drawn.is_cuda:
            # Rows at next states are alike within what they reach.
            reach = next_rows.reach(samples.states)
            points = samples.next_states / torch.where(reach > 0.0, reach, 1.0)
            coarse = CoarseCells.of(points, next_rows.n_entries)
        return cls(samples, bandwidths, config, queries, next_rows, initial_rows, ranks, coarse)

    def of_samples(self, s: Samples) -> Self:
        """The same with other samples, whose actions are no labels."""
        like, initial = self.samples.states, self.initial_rows.queries
        states, actions, rewards = (x.to(like) for x in (s.states, s.actions, s.rewards))
        samples = Samples(states, actions, rewards, s.next_states.to(like), s.continuation.to(like))
        given = (samples, initial, self.bandwidths, self.config)
        every = self.ranks and replace(self.ranks, sizes=())  # each has all of these
        return self.build(*given, Generator(like.device), every)

    def rows_at(self, states: Tensor) -> QueryRows:
        """Rows at any other states, listed by the same rule."""
        return list_rows(states, self.samples, self.bandwidths, self.config)

    @cached_property
    def possible_returns(self) -> tuple[float, float]:
        """What the lowest and the highest reward seen, earned for ever, come to."""
        r, horizon = self.samples.rewards, 1.0 / (1.0 - self.config.gamma)
        low, high = float(r.min()), float(r.max())
        if self.samples.continuation_mask is not None:  # a task may end at once
            return min(low * horizon, low), max(high * horizon, high)
        return low * horizon, high * horizon

    def warn_if_capped(self, dropped: Tensor, most: float) -> None:
        """Say so when lists end at `max_neighbours` and that drops, (m,), too much."""
        config, longest = self.config, self.next_rows.blocks[-1]
        is_capped = longest.log_psi.shape[1] == config.max_neighbours
        if config.neighbours != "auto" or not is_capped or most <= config.tolerance:
            return
        # Lists of one rank are its own, what they dropped is known of all.
        if self.ranks is None and dropped[longest.rows].max() <= config.tolerance:
            return
        warn(
            f"Rows of P may drop {config.tolerance:.0e} of their mass (`tolerance`), "
            f"some that keep {config.max_neighbours} samples (`max_neighbours`) drop "
            "more; raise either, or see from the certificate of J whether it matters."
        )

    def rescaled(self, factor: float) -> Self:
        """The same data and lists with every bandwidth times `factor`."""
        # The kernel between labels is not a matter of distance and stays as it is.
        return replace(
            self,
            bandwidths=self.bandwidths.scaled(factor, 1.0 if self.samples.n_actions else factor),
            next_rows=self.next_rows.rescaled(factor),
            initial_rows=self.initial_rows.rescaled(factor),
        )

    def responsibilities(self, policy: Policy, rows: QueryRows) -> families.Responsibilities:
        """What turns this kind of policy into rows, at the queries of `rows`."""
        s, is_label = self.samples, isinstance(policy, CategoricalPolicy)
        if is_label != bool(s.n_actions):
            kinds = ("continuous", "discrete")
            raise ConfigError(
                f"Policy and data must have the same kind of action, got a {kinds[is_label]} "
                f"policy and {kinds[bool(s.n_actions)]} actions; integer actions are labels and "
                'need policy="discrete", actions.astype(float) makes them continuous.'
            )
        model = self.row_model(rows)
        if s.n_actions:
            return families.CategoricalResponsibilities(model, s.n_actions)
        if not isinstance(policy, GaussianPolicy):
            return families.DeterministicResponsibilities(model)
        order, count = self.config.stochastic, self.config.policy_samples
        if order == "analytic":
            assert isinstance(model, NadarayaWatson)  # by `EstimatorConfig`
            return families.AnalyticResponsibilities(model)
        nodes = families.independent_draws(count)
        if order == "quadrature":
            nodes = families.quadrature(count, s.action_width)
        return families.IntegratedResponsibilities(model, nodes, order == "kernel-average")

    def row_model(self, rows: QueryRows) -> RowModel:
        """What makes weights of `rows`, by the settings."""
        s, h = self.samples, self.bandwidths
        similarity, widths = None, s.states.new_tensor(h.action)
        if s.n_actions:
            similarity = log_label_similarity(s.n_actions, h.action[0]).to(s.states)
            widths = widths[:0]
        if self.config.rows == NADARAYA_WATSON:
            return NadarayaWatson(rows, widths**2, similarity)
        offsets = state_offsets(rows, s, s.states.new_tensor(h.state))
        return MatchedRows(rows, offsets, widths, similarity)


def _next_states(s: Samples, bandwidths: Bandwidths, count: int, draws: Generator) -> Tensor:
    """Draws from phi_i = N(s'_i, h^2), or their mean s'_i when one is asked for."""
    if count == 1:
        return s.next_states
    h = s.states.new_tensor(bandwidths.next_state)
    n, d_s = s.next_states.shape
    noise = torch.randn((n, count, d_s), dtype=h.dtype, device=h.device, generator=draws)
    return (s.next_states[:, None, :] + h * noise).reshape(n * count, d_s)


def list_rows(
    queries: Tensor, samples: Samples, bandwidths: Bandwidths, config: EstimatorConfig
) -> QueryRows:
    """The samples each query state listens to, by the rule of `config`."""
    h, neighbours = samples.states.new_tensor(bandwidths.state), config.neighbours
    if config.rows == MATCHED and neighbours == "auto":
        neighbours = NEAREST
    if samples.ranks is not None:
        n, drawn = len(samples.rewards), config.next_state_samples
        if not isinstance(neighbours, int) or not 0 < 2 * neighbours < n or drawn > 1:
            raise ConfigError(
                f"Ranks that share data must list under half of all {n} samples, but some, at one "
                f"next state each, got {neighbours=} and next_state_samples={drawn}; pass others."
            )
        block = passed_block(queries, samples.ranks.passed_round(samples.states), h, neighbours, n)
        return QueryRows((block,), samples.actions, queries, (len(queries), n))
    margin = _action_span(samples, bandwidths) - math.log(config.tolerance)
    given = (queries, samples.states, samples.actions, h, neighbours)
    return query_rows(*given, log_margin=margin, most=config.max_neighbours)


def _fingerprint(samples: Samples, initial: Tensor, h: Bandwidths, config: EstimatorConfig) -> str:
    """A text that differs when anything the rows are made of, or would be, differs."""
    digest = hashlib.sha256(repr((h, config)).encode())
    held = vars(samples).values() if samples.ranks is None else ()
    for tensor in (*(x for x in held if isinstance(x, Tensor)), initial):
        digest.update(repr(tuple(tensor.shape)).encode())
        digest.update(tensor.contiguous().cpu().numpy().tobytes())
    return digest.hexdigest()


def _action_span(samples: Samples, bandwidths: Bandwidths) -> float:
    """How much, in log kernel, the action can set two samples apart."""
    # A sample that loses by more than this plus the margin in the state kernel loses for every
    # action in the data's range. Alone that kernel is totally wrong if that of actions is narrow.
    if samples.n_actions:
        return float(-log_label_similarity(samples.n_actions, bandwidths.action[0]).min())
    span = samples.actions.amax(dim=0) - samples.actions.amin(dim=0)
    return float(0.5 * (span / samples.states.new_tensor(bandwidths.action)).square().sum())
