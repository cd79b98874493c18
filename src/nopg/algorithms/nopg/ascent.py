"""Algorithm 1: gradient ascent on J, one update at a time, and where it stands."""

import copy
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nopg.algorithms.nopg.config import TrainingConfig
from nopg.bellman.compiled_update import CompiledUpdate
from nopg.bellman.problem import Problem
from nopg.bellman.solution import Estimator, Start
from nopg.errors import ConfigError
from nopg.fitted.history import History, Update
from nopg.linalg.coarse import CoarseCells
from nopg.linalg.solve import SolverConfig
from nopg.policies.adam import Adam, eps_for
from nopg.policies.families import DeterministicPolicy, Policy


class AscentState:
    """What an ascent carries from one update to the next, beside the policy."""

    # Adam's moments, the generator, the last q and mu, from which the solvers start: with them it
    # goes on to the same bits. `ascend` brings it up to date before each yield.

    def __init__(self) -> None:
        self.step, self.seconds = 0, 0.0  # updates done, and the time they took
        self.start: Start | None = None  # where the next solves start
        # Least products of an update since the coarse inverse was made, and what was spent beyond.
        self.fewest, self.excess = math.inf, 0.0
        self._kept: tuple[Adam, torch.Generator] | None = None
        self._restored: Mapping[str, Any] | None = None

    def is_old(self, spent: int, cells: CoarseCells | None) -> bool:
        """Whether the coarse inverse has cost as much as a new one would."""
        self.fewest = min(spent, self.fewest)
        self.excess += spent - self.fewest
        if cells is None or self.excess <= cells.cost:
            return False
        self.fewest, self.excess = math.inf, 0.0
        return True

    def attach(self, adam: Adam, generator: torch.Generator) -> None:
        """Watch these two from now on; if this state was restored, set them to it."""
        self._kept, stored = (adam, generator), self._restored
        if stored is None:
            return
        try:
            adam.load_state_dict(dict(stored["optimiser"]))
            generator.set_state(stored["generator"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                "An ascent must go on from the state of one with the same policy, "
                f"taking it over failed ({type(error).__name__}: {error})."
            ) from None
        self._restored = None

    def to_plain(self) -> dict[str, Any]:
        """A copy as nested dictionaries of tensors and numbers."""
        if self._restored is not None:  # and no update since
            return dict(self._restored)
        assert self._kept is not None
        adam, generator = self._kept
        vectors = {} if self.start is None else vars(self.start)  # of which some may be missing
        start = {k: v.clone() for k, v in vectors.items() if v is not None} or None
        plain = {name: getattr(self, name) for name in ("step", "seconds", "fewest", "excess")}
        plain |= {"optimiser": copy.deepcopy(adam.state_dict()), "generator": generator.get_state()}
        return plain | {"start": start}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], like: Tensor) -> "AscentState":
        """The state that `to_plain` described, its vectors in the dtype of `like`."""
        state = cls()
        state.step, state.seconds = int(plain["step"]), float(plain["seconds"])
        stored = plain["start"]
        state.fewest, state.excess = float(plain["fewest"]), float(plain["excess"])
        if stored is not None:
            state.start = Start(**{k: v.to(like) for k, v in stored.items()})
            shapes = state.start.q.shape, state.start.mu.shape
            if shapes != (like.shape, like.shape):
                raise ValueError(f"q and mu have shapes {shapes}, not {like.shape}")
        state._restored = plain
        return state


@dataclass(frozen=True)
class TrainingState:
    """All of training at one moment, between two updates."""

    policy: dict[str, Tensor]  # its parameters and buffers
    ascent: dict[str, Any]  # what `AscentState.to_plain` gave
    draws: Tensor  # of the generator behind `predict(deterministic=False)`
    history: History  # the updates so far

    @property
    def step(self) -> int:
        """Updates done."""
        return int(self.ascent["step"])


def ascend(
    estimator: Estimator,
    policy: Policy,
    config: TrainingConfig,
    n_updates: int,  # the schedule is spread over them
    generator: torch.Generator,  # of a stochastic policy's draws
    state: AscentState | None = None,  # of an earlier ascent of this policy, to go on with
) -> Iterator[Update]:
    """Improve `policy` in place, yielding after each update."""
    parameters = [p for p in policy.parameters() if p.requires_grad]
    if not parameters:
        raise ConfigError(
            "The policy must have parameters to learn, it has none that require a "
            "gradient; give it a trainable layer."
        )
    adam = Adam(parameters, eps_for(estimator.problem.samples.rewards))
    solver = SolverConfig(rtol=config.rtol)
    state = AscentState() if state is None else state
    state.attach(adam, generator)
    compiled = CompiledUpdate.of(estimator, policy, adam, solver)
    began, made, problem = time.perf_counter() - state.seconds, None, estimator.problem
    for step in range(state.step, n_updates):
        rate, fallbacks = config.rate(step, n_updates), 0
        found = None if compiled is None else compiled.run(state.start, rate)
        if compiled is not None and found is not None:
            (objective, matvecs, norm), start = found, compiled.start
        else:
            solution = estimator.solve(policy, generator, solver, state.start, made)
            made, start, objective = solution.made, solution.following(), solution.objective()
            gradients = solution.gradient(policy)
            norm = math.hypot(*[g.item() for g in torch._foreach_norm(gradients)])
            matvecs = solution.q.matvecs + solution.mu.matvecs
            fallbacks = solution.q.fallbacks + solution.mu.fallbacks
            adam.step(gradients, rate)
        state.start = replace(start, core=None) if state.is_old(matvecs, problem.coarse) else start
        state.step, state.seconds = step + 1, time.perf_counter() - began
        measured = (float(objective), objective.certificate, norm, rate, matvecs, fallbacks)
        yield Update(state.step, *measured, state.seconds)


def ascend_together(
    problem: Problem,  # the data
    policies: Sequence[Policy],  # of one architecture; trained in place
    config: TrainingConfig,  # step sizes and accuracy
    n_updates: int,  # updates of each; the schedule is spread over them
    generators: Sequence[torch.Generator],  # source of each policy's draws
    # Where each one's ascent begins, see `ascend`; the fused path has none.
    states: Sequence[AscentState] | None = None,
) -> Iterator[Sequence[Update]]:
    """Updates of policies over one problem: fused where that is possible."""
    if is_fusible(problem, policies[0]):
        from nopg.algorithms.nopg.fused import FusedTrainer

        yield from FusedTrainer(problem, policies, config, n_updates).updates()
        return
    begun: Sequence[AscentState | None] = states or [None] * len(policies)
    ascents = [
        ascend(Estimator.of(problem, policy), policy, config, n_updates, draws, state)
        for policy, draws, state in zip(policies, generators, begun, strict=True)
    ]
    yield from zip(*ascents, strict=True)


def is_fusible(problem: Problem, policy: Policy) -> bool:
    """Whether training may take the fused path: on a GPU, in single precision."""
    is_single = problem.queries.is_cuda and problem.queries.dtype == torch.float32
    if not is_single or problem.ranks is not None:
        return False
    from nopg.bellman.fused import supports

    return supports(problem) and isinstance(policy, DeterministicPolicy)
