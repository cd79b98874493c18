"""FittedPolicy: what both algorithms return, and what one can ask of it."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.spaces import Space
from numpy.typing import NDArray

from nopg.bellman.problem import EstimatorConfig, Problem
from nopg.data.dataset import Dataset
from nopg.data.history import HistoryLayout
from nopg.data.io.metadata import space_to_json
from nopg.data.validation import as_states
from nopg.discount import discount_horizon
from nopg.errors import NotFittedError, require_choice, require_count
from nopg.evaluation.comparison import Comparison
from nopg.evaluation.intervals import Estimate, require_level
from nopg.evaluation.kernel import FINAL_RTOL, KernelEvaluator, build_problem
from nopg.evaluation.model import ModelEvaluator
from nopg.evaluation.replay import Replay
from nopg.evaluation.rollouts import Rollouts, membership
from nopg.evaluation.suggest import Suggestion, suggest
from nopg.evaluation.support import Support
from nopg.evaluation.verdict import Grounds, Verdict, verdict
from nopg.fitted.history import History, SearchResult
from nopg.fitted.predict import EpisodeBuffer, checked_observation, predicted_actions
from nopg.fitted.sign_off import alike, compared, grounds_of
from nopg.fitted.storage import bandwidths_to_json, write_policy_file
from nopg.kernels.bandwidths import Bandwidths
from nopg.policies.arrays import Actor, actor_of
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy
from nopg.randomness import Seed

if TYPE_CHECKING:
    from nopg.dynamics.transition_model import TransitionModel

KERNEL, MODEL = "kernel", "model"
LEARN = "learn"  # the algorithm whose policies are evaluated by learned models
LITTLE, LONGEST = 0.05, 1000  # discount or steps at which rollouts for support end


@dataclass(eq=False)
class FittedPolicy:
    """A policy, what it was learned from, and what it can be expected to do.

    `nopg.learn` and `nopg.NOPG(...).fit` return one; `nopg.load` reads one.

    Attributes:
        policy: The policy itself, a torch module.
        action_space: Gymnasium space of its actions.
        estimator: Discount factor and integrals of the kernel estimate.
        seed: Seed of every draw.
        algorithm: "NOPG" or "learn".
        settings: Everything it was made with, as plain values.
        bandwidth_rule: Bandwidths of the kernel estimate, or the rule for them.
        spec: How to build the policy again; None for a module of one's own.
        data: The transitions; None if it was saved without them.
        initial_states: Where the task starts, (B, d_s).
        observation_names: Names of an observation's columns, where they are known.
        observation_space: Gymnasium space of the observations, where it is known.
        history: Updates of the paper's algorithm; None after a search.
        search: What `nopg.learn` tried; None otherwise.
        memory: Which past observations and actions it acts on; None for none. Its states are then
            observations followed by that past, as in `data`.
        problem: Kernel rows of the data, where they are laid out already.
        models: Learned models of the system, where they are fitted already.
    """

    policy: Policy
    action_space: Space[Any]
    estimator: EstimatorConfig
    seed: int = 0
    algorithm: str = "NOPG"
    settings: Mapping[str, Any] = field(default_factory=dict)
    bandwidth_rule: object = "auto"
    spec: PolicySpec | None = None
    data: Dataset | None = None
    initial_states: NDArray[np.float64] | None = None
    observation_names: tuple[str, ...] | None = None
    observation_space: Space[Any] | None = None
    history: History | None = None
    search: SearchResult | None = None
    memory: HistoryLayout | None = None
    problem: Problem | None = field(default=None, repr=False)
    models: "Sequence[TransitionModel] | None" = field(default=None, repr=False)
    buffer: EpisodeBuffer | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.memory is None and self.data is not None:
            self.memory = self.data.history
        if self.memory is not None:
            self.buffer = EpisodeBuffer(self.memory)
            names = self.observation_names or ()
            self.observation_names = tuple(names[: self.memory.n_observed]) or None

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], Any]:
        """Actions for one observation or a batch, as in stable-baselines3.

        To a policy with `memory` hand the state it returns back with the next observation, and
        `episode_start` where an episode begins; or call `reset` before each episode of single
        observations. Whole states are answered as they stand.

        Args:
            observation: One observation (d_s,) or several (m, d_s).
            state: What `predict` returned for the step before; without memory just handed back.
            episode_start: Whether an episode starts here, a bool or (m,); for those with memory.
            deterministic: The most typical action; otherwise a draw.

        Returns:
            The action(s), inside the action space, and `state` for the next step.
        """
        generator, names = None if deterministic else self.draws, self.observation_names
        choose = partial(predicted_actions, self.policy, self.action_space, generator)
        # A state that has its past with it is answered as it stands.
        if self.buffer is not None and _width(observation) != self.buffer.layout.width:
            return self.buffer.act(observation, state, episode_start, names, choose)
        width = None if self.spec is None else self.spec.n_states
        if width is None and self.data is not None:
            width = self.data.observations.shape[1]
        return choose(observation, width, names), state

    def reset(self) -> None:
        """Start a new episode with the next `predict`, where no state is handed in."""
        if self.buffer is not None:
            self.buffer.reset()

    def observe(
        self, observation: Any, state: Any = None, episode_start: Any = False
    ) -> NDArray[np.float64]:
        """States as the policy sees them, (m, d_s): observations and their past.

        What to ask `value` and `support` about in the middle of an episode; nothing is remembered.

        Args:
            observation: One observation or several, as for `predict`.
            state: What `predict` returned for the step before; None for first ones.
            episode_start: As for `predict`.
        """
        width = None if self.memory is None else self.memory.n_observed
        observed = checked_observation(observation, width, self.observation_names)
        if self.memory is None:
            return np.atleast_2d(observed)
        return EpisodeBuffer(self.memory).recall(observed, state, episode_start)

    def expected_return(self, interval: float | None = 0.95, by: str | None = None) -> Estimate:
        """The discounted return from the initial states.

        Args:
            interval: How often the truth is to lie between the ends; None for the value alone.
            by: "kernel" or "model"; by default the evaluator that fits this policy.

        Returns:
            An `Estimate` of numbers: `value`, `low`, `high`; `noise` and `model`, what
            chance and what lack of data have in them; `known` and `reason`, and `by`.
        """
        level = None if interval is None else require_level(interval)
        if self._asked(by) == KERNEL:
            return self._informative(self.kernel.expected_return(level)).single()
        starts, actor = self._starts(), self.actor
        if level is None:
            return Estimate.without_ends(float(self.model.values(actor, starts).mean()), MODEL)
        return self.model.expected_return(actor, starts, level).single()

    def value(self, states: Any, interval: float | None = None, by: str | None = None) -> Any:
        """The discounted return from any states, (m,).

        Args:
            states: The states, (m, d_s); see `observe` for policies with memory, which take
                observations alone as the first of an episode.
            interval: As in `expected_return`; the answer is then an `Estimate`.
            by: "kernel" or "model"; by default the evaluator that fits this policy.
        """
        level = None if interval is None else require_level(interval)
        by, states = self._asked(by), self._states(states)
        if by == KERNEL:
            kernel = self.kernel.values(states, level)
            return kernel.value if level is None else self._informative(kernel)
        if level is None:
            return self.model.values(self.actor, states)
        return self.model.value_intervals(self.actor, states, level)

    def check(self, episodes: Dataset | None = None) -> Replay:
        """How far the learned models hold on data that they were not fitted to.

        Recorded actions go through a model, and what it predicts is held against what happened.

        Args:
            episodes: Recordings of the same system that were not learned from; by default models
                are fitted without a part of the data, and that part is replayed.
        """
        if episodes is None:
            return self.model.replay
        return self.model.replay_of(alike(episodes, self))

    def learn_more(self, data: Dataset, **settings: Any) -> "FittedPolicy":
        """A policy of these and new data, from this one and its models on.

        Args:
            data: New transitions of the same system, with the same columns.
            settings: Of `nopg.learn`, where others than before are wanted.
        """
        # By name: a policy knows nothing of the layers above it.
        more = importlib.import_module("nopg.algorithms.search.more")
        found: FittedPolicy = more.learn_more(self, data, **settings)
        return found

    def compare(self, other: Any = None, interval: float = 0.95) -> Comparison:
        """How much more this policy is expected to earn than another controller.

        Args:
            other: Recorded episodes, best ones not learned from; another fitted policy; a function
                from observations (m, d_s) to actions (m, d_a) or labels (m,); by default the data.
            interval: How often the truth is to lie between `low` and `high`.
        """
        return compared(self, other, require_level(interval))

    def support(self, states: Any = None, actions: Any = None) -> Support:
        """How much data stand behind states and actions.

        Args:
            states: States, (m, d_s); None for all that it is predicted to visit, by how often.
            actions: Actions taken there, (m, d_a) or labels (m,); by default those of the policy.
        """
        if states is not None:
            return self.kernel.support(self._states(states), actions)
        if self._asked(None) == KERNEL:
            return self.kernel.visited_support()
        places, weights = self.visited()
        return self.kernel.support(places, weights=weights)

    def verdict(self, avoid: Any = None, at_most: float = 0.05) -> Verdict:
        """Whether to run the policy: go, caution or stop, its reason, what to do.

        Args:
            avoid: A region that must not be entered, as for `visit_probability`.
            at_most: How probable that may be.
        """
        if avoid is None:
            return verdict(self.grounds)
        entered = self.visit_probability(avoid)
        return verdict(replace(self.grounds, violation=entered, at_most=at_most))

    @cached_property
    def grounds(self) -> Grounds:
        """What `verdict` is drawn from: estimate, comparison, replay, untried steps."""
        return grounds_of(self)

    def visited(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """States of rollouts with their discounted weights, (m, d_s) and (m,)."""
        return self.rollouts(min(LONGEST, discount_horizon(self.gamma, LITTLE))).visits(self.gamma)

    def visit_probability(
        self, region: Any, horizon: int | None = None, interval: float = 0.95, by: str | None = None
    ) -> Estimate:
        """How likely the policy enters a region from the initial states.

        Args:
            region: A function of observations (m, d_s) to booleans (m,); a pair (low, high) with
                infinities for open sides; a Gymnasium Box; or "terminated" for the end of the task.
            horizon: Steps within which; None weighs an entry after t steps by gamma^t.
            interval: How often the truth is to lie between `low` and `high`.
            by: "kernel" or "model"; by default the evaluator that fits this policy.
        """
        if horizon is not None:
            require_count("horizon", horizon)
        width = self.require_data().observations.shape[1]
        width = width if self.memory is None else self.memory.n_observed
        inside = membership(region, width)  # of observations; None for the task's end
        entered = None if inside is None else lambda states: inside(states[:, :width])
        asked = (entered, horizon, require_level(interval))
        if self._asked(by) == KERNEL:
            return self.kernel.visit_probability(*asked).single()
        return self.model.visit_probability(self.actor, self._starts(), *asked).single()

    def rollouts(self, n_steps: int = 100, by: str | None = None) -> Rollouts:
        """Where the policy is predicted to be after each of the next steps.

        Args:
            n_steps: Steps to look ahead.
            by: "kernel" or "model"; by default the evaluator that fits this policy.
        """
        if self._asked(by) == KERNEL:
            return self.kernel.rollouts(n_steps)
        require_count("n_steps", n_steps)
        starts = self._starts()
        states, weights = self.model.rollouts(self.actor, starts, n_steps)
        return Rollouts(states, weights, starts, MODEL)

    def suggest(self, n: int = 20) -> Suggestion:
        """Steps to record next: those whose outcome would narrow the return most.

        Args:
            n: How many steps; fewer are named where nothing is left to be learned.

        Returns:
            A `Suggestion`: states and actions, its `table`, and `save` for a CSV file.
        """
        model, starts = self.model.models[0], self._starts()
        return suggest(model, self.policy, starts, self.require_data(), self.gamma, n)

    def save(self, path: str | Path, *, include_data: bool = True) -> None:
        """Write the policy to one file, whole or not at all, without pickle.

        Args:
            path: Where to; `.nopg` by custom.
            include_data: Keep the transitions too: without them only `predict` works after loading.
        """
        # No rule has to choose them for a file alone.
        is_known = isinstance(self.bandwidth_rule, Bandwidths) or "kernel" in vars(self)
        metadata = {
            "algorithm": self.algorithm,
            "seed": self.seed,
            "settings": dict(self.settings),
            "estimator": asdict(self.estimator),
            "policy": None if self.spec is None else asdict(self.spec),
            "bandwidths": bandwidths_to_json(self.bandwidths) if is_known else None,
            "action_space": space_to_json(self.action_space),
            "observation_space": space_to_json(self.observation_space),
            "observation_names": self.observation_names,
            "search": None if self.search is None else asdict(self.search),
        }
        if self.memory is not None:
            metadata["memory"] = asdict(self.memory)
        data = self.data if include_data else None
        write_policy_file(Path(path), metadata, self.policy.state_dict(), data, self.initial_states)

    @property
    def gamma(self) -> float:
        """Discount factor."""
        return self.estimator.gamma

    @property
    def bandwidths(self) -> Bandwidths:
        """Bandwidths of the kernel estimate; chosen when first asked for."""
        if isinstance(self.bandwidth_rule, Bandwidths):
            return self.bandwidth_rule
        return self.kernel.problem.bandwidths

    @property
    def evaluator(self) -> str:
        """The evaluator that fits this policy: "kernel" or "model"."""
        return MODEL if self.algorithm == LEARN else KERNEL

    @property
    def actor(self) -> Actor:
        """The policy in arrays, as it acts."""
        return actor_of(self.policy)

    @cached_property
    def draws(self) -> torch.Generator:
        """Generator of the actions that `predict(deterministic=False)` draws."""
        device = next(self.policy.parameters(), torch.empty(0)).device
        return Seed(self.seed).torch("actions", device)

    @cached_property
    def kernel(self) -> KernelEvaluator:
        """Evaluation by kernel regression; its rows are laid out when first asked."""
        data, seed = self.require_data(), Seed(self.seed)
        if self.problem is None:
            rule, config = self.bandwidth_rule, self.estimator
            self.problem = build_problem(self.policy, data, self._starts(), rule, config, seed)
        rtol = float(self.settings.get("final_rtol", FINAL_RTOL))
        return KernelEvaluator(self.problem, self.policy, data, seed, rtol)

    @cached_property
    def model(self) -> ModelEvaluator:
        """Evaluation by learned models; they are fitted when first asked."""
        return ModelEvaluator(self.require_data(), self.gamma, Seed(self.seed), self.models)

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: all but solutions, which are found again."""
        return {k: v for k, v in self.__dict__.items() if k not in ("kernel", "problem")}

    def policy_changed(self) -> None:
        """Forget what was solved for earlier parameters of the policy."""
        self.__dict__.pop("grounds", None)
        if "kernel" in self.__dict__:
            self.kernel.policy_changed()

    def _informative(self, found: Estimate) -> Estimate:
        """A kernel estimate of returns, without ends that say nothing."""
        return found.informative(self.kernel.problem.possible_returns)

    def _asked(self, by: str | None) -> str:
        by = self.evaluator if by is None else by
        require_choice("by", by, (KERNEL, MODEL))
        return by

    def require_data(self) -> Dataset:
        """The transitions, if the policy was saved with them."""
        if self.data is None:
            raise NotFittedError("Estimates need the data; save the policy with include_data=True.")
        return self.data

    def _states(self, states: Any) -> NDArray[np.float64]:
        """States a user asks about, (m, d_s), if they are as wide as the data's."""
        names, memory = self.require_data().observation_names, self.memory
        if memory is not None and _width(states) == memory.n_observed:
            return memory.complete(as_states("states", states, memory.n_observed, names))
        return as_states("states", states, len(names), names)

    def _starts(self) -> NDArray[np.float64]:
        self.require_data()
        assert self.initial_states is not None  # kept with the data
        return np.array(self.initial_states, dtype=np.float64)

    def __repr__(self) -> str:
        rows = "without data" if self.data is None else f"{len(self.data):,} transitions"
        found = type(self.policy).__name__
        return f"FittedPolicy({self.algorithm}, {found}, gamma={self.gamma}, {rows})"


def _width(states: Any) -> int | None:
    """Columns of states, or numbers of one; None of rows of different lengths."""
    try:
        return next(reversed(np.shape(states)), None)
    except ValueError:
        return None
