"""How a search finds candidates: planning in the learned model, and gradient ascent."""

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.search.distillation import distil
from nopg.algorithms.search.planning import (
    ALONG,
    N_ANCHORS,
    ActionOutcomes,
    DistillationTargets,
    actions_to_try,
    states_along,
)
from nopg.bellman.problem import NADARAYA_WATSON
from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from nopg.errors import SupportWarning, unsaid
from nopg.fitted.history import ASCENT, CLONING, EARLIER, PLANNING, CandidateMethod, Update
from nopg.fitted.policy import FittedPolicy
from nopg.kernels.bandwidths import LeaveOneOut
from nopg.policies.arrays import Array, actor_of
from nopg.policies.families import Policy
from nopg.randomness import Seed
from nopg.threads import Out, as_they_come

PLANS = (
    CandidateMethod(PLANNING),
    CandidateMethod(PLANNING, short_horizon=True),
    CandidateMethod(PLANNING, action_repeat=4),
    CandidateMethod(PLANNING, action_repeat=8),
    CandidateMethod(PLANNING, action_repeat=8, short_horizon=True),
)
REPLANS, N_ROUNDS = tuple(replace(one, along_paths=True) for one in PLANS[1:3]), 2
"""Plans along the paths of the best policy, of which the best is kept; and how often."""
ASCENTS = (CandidateMethod(ASCENT), CandidateMethod(ASCENT))
"""Two ascents, from policies of different seeds."""
N_ASCENT_ROWS, N_ASCENT_STARTS = 2000, 200
"""Samples an ascent rests on, and starts of its return; refinement uses all of them."""
SHORT_LISTS = {
    "rows": NADARAYA_WATSON,
    "stochastic": "paper",
    "tolerance": 1e-3,
    "max_neighbours": 192,
}
"""Plain rows and short lists: an ascent only has to find a start for refinement, and
blur helps it to see far."""
UNSAID = (SupportWarning, "Rows of P may drop")
"""`learn` speaks of its starts itself, and lists are short on purpose."""


@dataclass(frozen=True)
class FoundPolicy:
    """A policy and how it was found."""

    method: CandidateMethod
    policy: Policy


def planned_candidates(
    model: TransitionModel,
    data: Dataset,  # what it was learned from
    policy: Policy,  # an untrained one; each plan is distilled into a copy
    gamma: float,  # of the task
    seed: int,
    estimated: Callable[[FoundPolicy], Out],
    n_found: int = 0,  # how many are there already, and left out
) -> Iterator[tuple[FoundPolicy, Out]]:
    """Fitted value iteration in the learned model, distilled into policies, and what is said of it.

    `estimated` is asked side by side.
    """
    if n_found == len(PLANS):
        return iter(())
    tried = actions_to_try(regression_actions(data).numpy(), Seed(seed).numpy("planned-actions"))
    generator = Seed(seed).numpy("places")
    states = _some(np.asarray(data.observations, dtype=np.float64), N_ANCHORS, generator)
    present = states
    if data.history is not None:
        model, present = _of_present(model, data, generator), states[:, : data.history.n_observed]
    outcomes = ActionOutcomes.of(model, present, tried, generator)
    return _planned(outcomes, PLANS[n_found:], policy, gamma, states, estimated)


def _of_present(
    model: TransitionModel, data: Dataset, generator: np.random.Generator
) -> TransitionModel:
    """A model of the present columns alone: of what the past tells, gusts are left."""
    # Among states that hold their past anchors are too far apart to plan. What is best without it
    # is where refinement, with it, goes on from.
    assert data.history is not None
    d, (states, actions, rewards, after, ended) = data.history.n_observed, model_columns(data)
    columns = (states[:, :d], actions, rewards, after[:, :d], ended)
    return TransitionModel.fit(*columns, generator=generator, known_reward=model.known_reward)


def replanned_candidates(
    model: TransitionModel,
    data: Dataset,
    found: Policy,  # whose paths are planned along
    fresh: Policy,
    starts: Array,  # where the task starts, (B, d_s)
    gamma: float,
    generator: np.random.Generator,
    estimated: Callable[[FoundPolicy], Out],
) -> list[tuple[FoundPolicy, Out]]:
    """The same with most anchors along the paths of a policy: plans are sharper there."""
    tried = actions_to_try(regression_actions(data).numpy(), generator)
    n_anchors = N_ANCHORS if model.noise is not None else 2 * N_ANCHORS  # gusts cost as well
    along = states_along(model, actor_of(found), starts, tried, gamma, generator)
    along = _some(along, int(ALONG * n_anchors), generator)
    logged = np.asarray(data.observations, dtype=np.float64)
    states = np.concatenate([along, _some(logged, n_anchors - len(along), generator)])
    outcomes = ActionOutcomes.of(model, states, tried, generator)
    return list(_planned(outcomes, REPLANS, fresh, gamma, states, estimated))


def _some(states: Array, n: int, generator: np.random.Generator) -> Array:
    return np.asarray(states[generator.permutation(len(states))[:n]])


def _planned(
    outcomes: ActionOutcomes,
    methods: Sequence[CandidateMethod],
    fresh: Policy,
    gamma: float,
    states: Array,  # the anchors, with their past if states have one
    estimated: Callable[[FoundPolicy], Out],
) -> Iterator[tuple[FoundPolicy, Out]]:
    def planned(method: CandidateMethod) -> tuple[FoundPolicy, Out]:
        student = copy.deepcopy(fresh)
        targets = outcomes.value_iteration(method.gamma(gamma), method.action_repeat)
        distil(student, targets._replace(states=states))
        found = FoundPolicy(method, student)
        return found, estimated(found)

    return as_they_come(planned, methods)


def cloned_candidate(data: Dataset, policy: Policy, most: int = 0) -> FoundPolicy:
    """Behaviour cloning: a policy that does what was done in the log."""
    # Among states that hold their past kernels are too far apart for ascents to get anywhere near
    # the data. Who made the log was there, and refinement goes on from there.
    actions, student = regression_actions(data).numpy(), copy.deepcopy(policy)
    states = np.array(data.observations, dtype=np.float64)
    distil(student, DistillationTargets(states, actions, np.ones(len(data)), 1), most)
    return FoundPolicy(CandidateMethod(CLONING), student)


def earlier_candidate(earlier: FittedPolicy, data: Dataset, fresh: Policy) -> FoundPolicy:
    """A policy that was learned before; one of another shape is cloned."""
    method, found = CandidateMethod(EARLIER), copy.deepcopy(fresh)
    state = earlier.policy.state_dict()
    shapes = {name: tensor.shape for name, tensor in found.state_dict().items()}
    if shapes == {name: tensor.shape for name, tensor in state.items()}:
        found.load_state_dict(state)
        return FoundPolicy(method, found)
    states = np.array(data.observations, dtype=np.float64)
    acted = actor_of(earlier.policy).act(states)
    distil(found, DistillationTargets(states, acted, np.ones(len(data)), 1), True)
    return FoundPolicy(method, found)


def prepared_ascents(
    data: Dataset,
    starts: Array,  # where the task starts, (B, d_s)
    settings: Mapping[str, Any],  # of `NOPG`
    seed: int,
) -> list[NOPG]:
    """Bandwidths and rows of all ascents, and a fresh policy for each."""
    if len(data) > N_ASCENT_ROWS:
        rows = Seed(seed).numpy("climbed-rows").permutation(len(data))[:N_ASCENT_ROWS]
        data = data.subset(np.sort(rows))
    starts = starts[:: -(-len(starts) // N_ASCENT_STARTS)]
    settings = {**settings, **SHORT_LISTS, "bandwidths": LeaveOneOut()}
    ascents = [NOPG(**{**settings, "seed": seed + i}) for i in range(len(ASCENTS))]
    with unsaid(*UNSAID):
        for one in ascents[:1]:
            one.prepare(data, starts)
        for one in ascents[1:]:
            one.prepare_like(ascents[0])
    return ascents


def ascent_candidates(
    ascents: Sequence[NOPG],
    n_updates: int,  # of each
    advance: Callable[[str], None],  # told every update, with a text for the bar
) -> Iterator[FoundPolicy]:
    """Gradient ascent on the kernel estimate of the return, Eq. (10).

    At Ctrl-C a KeyboardInterrupt comes after the policies reached so far.
    """
    is_enough = threading.Event()

    def show(_: FittedPolicy, update: Update) -> bool:
        advance(f"gradient ascent, J={update.objective:.4g}")
        return not is_enough.is_set()

    def ascend(training: Any) -> None:
        is_wanted = not is_enough.is_set()
        if is_wanted and training.run(callback=show, progress=False).stopped == "interrupted":
            is_enough.set()

    is_interrupted, trainings = False, [one.training(n_updates) for one in ascents]
    try:
        with unsaid(*UNSAID):
            list(as_they_come(ascend, trainings, is_enough))
    except KeyboardInterrupt:
        is_interrupted = True
    for method, one, training in zip(ASCENTS, ascents, trainings, strict=True):
        if training.history.updates:
            yield FoundPolicy(method, one.fitted.policy)
        is_interrupted |= training.history.stopped == "interrupted"
    if is_interrupted:
        raise KeyboardInterrupt
