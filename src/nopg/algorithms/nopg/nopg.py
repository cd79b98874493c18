"""NOPG: from logged transitions to a policy, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nopg.algorithms.nopg.config import NOPGConfig
from nopg.algorithms.nopg.loop import announce
from nopg.algorithms.nopg.setup import Setup, prepare, share
from nopg.algorithms.nopg.training import Training
from nopg.bellman.certificate import Objective
from nopg.bellman.equation import evaluate_at
from nopg.bellman.rows import Neighbours
from nopg.bellman.solution import BellmanSolution, Estimator
from nopg.data.dataset import Dataset
from nopg.errors import NotFittedError
from nopg.evaluation.intervals import Estimate, require_level
from nopg.fitted.history import History, Update
from nopg.fitted.predict import predicted_actions
from nopg.fitted.questions import Questions
from nopg.kernels.bandwidths import Bandwidths
from nopg.linalg.ranks import Ranks
from nopg.linalg.solve import SolverConfig
from nopg.policies.base import Policy
from nopg.randomness import Seed

if TYPE_CHECKING:
    from gymnasium.spaces import Space

    from nopg.fitted.search_result import Search


class NOPG(Questions):
    """Nonparametric off-policy policy gradient.

    Args:
        policy: "deterministic", "stochastic", "discrete", or a torch module from
            states to actions, which is then trained in place.
        gamma: Discount factor in [0, 1).
        bandwidths: "auto", `Bandwidths(...)`, `CrossValidated(...)` or `LeaveOneOut()`.
        action_space: Gymnasium space of the actions; by default that of the data, or
            the range the data cover.
        learning_rate: Adam's step size.
        policy_samples: Draws a state for stochastic policies (N_pi).
        next_state_samples: Draws a sample for the next-state integral (N_phi); 1
            takes the kernel mean.
        neighbours: Samples a row of P keeps: a number, "auto", or None for all.
        device: "cpu" or "cuda".
        dtype: "float64" or "float32".
        seed: Seed of every draw; the same seed gives the same bits.
        settings: Any other field of `NOPGConfig`, such as `hidden`, `schedule`,
            `stochastic` or `standardise`.

    Attributes:
        config: All settings.
        bandwidth_rule: What `bandwidths` was; `model.bandwidths` is what came of it.
        history: What happened in the last `fit`; None before.
        search: What `nopg.learn` tried before it kept this model; None otherwise.
        draws: Generator of the actions that `predict(deterministic=False)` draws.
    """

    def __init__(
        self,
        policy: str | nn.Module = "deterministic",
        gamma: float = 0.97,
        bandwidths: str | Bandwidths | Any = "auto",
        action_space: Space[Any] | None = None,
        learning_rate: float = 1e-2,
        policy_samples: int = 15,
        next_state_samples: int = 1,
        neighbours: Neighbours = "auto",
        device: str = "cpu",
        dtype: str = "float64",
        seed: int = 0,
        **settings: Any,
    ) -> None:
        self.config = NOPGConfig.of(
            policy=policy if isinstance(policy, str) else "custom",
            gamma=gamma,
            learning_rate=learning_rate,
            policy_samples=policy_samples,
            next_state_samples=next_state_samples,
            neighbours=neighbours,
            device=device,
            dtype=dtype,
            seed=seed,
            **settings,
        )
        self.history: History | None = None
        self.search: Search | None = None
        self.bandwidth_rule = bandwidths
        self._space = action_space
        self._module = None if isinstance(policy, str) else policy
        self._seeds = Seed(seed)
        self._setup: Setup | None = None
        self._solution: BellmanSolution | None = None
        self.draws = self._seeds.torch("actions", device)

    def fit(
        self,
        data: Dataset,
        initial_states: Any = None,
        n_updates: int = 1500,
        *,
        evaluators: Mapping[str, Callable[[NOPG], float]] | None = None,
        evaluate_every: int = 100,
        callback: Callable[[NOPG, Update], Any] | None = None,
        patience: int | None = None,
        progress: bool = True,
        ranks: Ranks | None = None,
    ) -> History:
        """Learn a policy from `data`.

        Args:
            data: Logged transitions.
            initial_states: Where the task starts, (B, d_s); by default the first
                state of each episode.
            n_updates: Policy updates.
            evaluators: Functions of the model, called every `evaluate_every` updates
                and after the last; results land in the history.
            evaluate_every: Updates between evaluations.
            callback: Called with the model and the update; returning False stops.
            patience: Stop when J has stopped rising for this many updates; None
                always runs to the end.
            progress: Show a bar with J.
            ranks: Processes that share the work, from `joined_ranks`; each calls
                `fit` with the same data and ends with the same policy.

        Returns:
            What happened, update by update. Ctrl-C ends training early and keeps the
            policy reached so far (`history.stopped == "interrupted"`).
        """
        self.search = None
        self.prepare(data, initial_states, ranks, announce if progress else None)
        return Training(self, n_updates).run(
            evaluators=evaluators,
            evaluate_every=evaluate_every,
            callback=callback,
            patience=patience,
            progress=progress,
        )

    def prepare(
        self,
        data: Dataset,
        initial_states: Any = None,
        ranks: Ranks | None = None,
        announce: Callable[[str], object] | None = None,
    ) -> None:
        """Do what `fit` does before its first update, and stop there.

        Bandwidths are chosen and neighbours listed; `objective`, `value` and
        `visitation` then speak of the untrained policy. What a large job will take
        is told to `announce` first; one that does not fit into memory is refused.
        """
        self._setup = prepare(
            self.config,
            self._module,
            self.bandwidth_rule,
            self._space,
            data,
            initial_states,
            ranks,
            announce,
        )
        self._solution = None

    def prepare_like(self, other: NOPG) -> None:
        """Share another model's data, bandwidths and lists; the policy is one's own."""
        self._setup = share(self.config, self._module, other.setup)
        self._solution = None

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        return_support: bool = False,
    ) -> Any:
        """Actions for one observation or a batch, as in stable-baselines3.

        Args:
            observation: One state (d_s,) or several (m, d_s).
            state: Handed back unchanged; other libraries' recurrent policies use it.
            episode_start: Ignored likewise.
            deterministic: The most typical action; otherwise a draw.
            return_support: Say as well how much data stand behind each action.

        Returns:
            The action(s), inside the action space, and `state`; and the `Support` of
            observation and action where asked for.
        """
        generator = None if deterministic else self.draws
        space = self.action_space
        actions = predicted_actions(self.policy, space, observation, generator)
        if not return_support:
            return actions, state
        together = actions if np.ndim(observation) > 1 else np.asarray(actions)[None]
        return actions, state, self.support(observation, together)

    def objective(self, interval: float | None = None) -> Objective:
        """The estimated return J of the present policy, with its certificate.

        Args:
            interval: How often the true return is to lie within `.interval`, such as
                0.95; None leaves that out.
        """
        estimate = self.solution.objective()
        if interval is None:
            return estimate
        found = self._ensemble.objective(require_level(interval))
        return estimate.within(float(found.low[0]), float(found.high[0]))

    def gradient(self) -> Tensor:
        """dJ / d theta of the present policy, flat, Eq. (10)."""
        parts = self.solution.gradient(self.policy)
        return torch.cat([part.reshape(-1) for part in parts])

    @overload
    def value(self, states: Any, interval: None = None) -> NDArray[np.float64]: ...

    @overload
    def value(self, states: Any, interval: float) -> Estimate: ...

    def value(
        self, states: Any, interval: float | None = None
    ) -> NDArray[np.float64] | Estimate:
        """V(s) = eps(s)' q at any states, (m,).

        Args:
            states: The states, (m, d_s).
            interval: How often the true value is to lie within the interval, such as
                0.95; the answer is then an `Estimate` with `value`, `low` and `high`.
        """
        if interval is None:
            return self._at(states, self.solution.q.value)
        return self._ensemble.values(states, require_level(interval))

    def visitation(self, states: Any) -> NDArray[np.float64]:
        """The paper's discounted visitation mu(s) = eps(s)' mu, (m,)."""
        return self._at(states, self.solution.mu.value)

    def save(self, path: str | Path, *, include_data: bool = True) -> None:
        """Write the model to one file, whole or not at all, without pickle.

        Args:
            path: Where to; `.nopg` by custom.
            include_data: Keep the transitions too, so that `value`, `visitation` and
                `objective` work after loading; without them only `predict` does.
        """
        from nopg.fitted.storage import save_model

        save_model(self, Path(path), include_data=include_data)

    def restore(self, setup: Setup) -> None:
        """Take over a setup read from a file; `nopg.load` is the way to do this."""
        self._setup, self._solution = setup, None

    def forget(self) -> None:
        """The policy has changed: what was solved for it before is stale."""
        self._solution = None

    @property
    def setup(self) -> Setup:
        """Policy, space, bandwidths and rows, as `fit` decided them."""
        if self._setup is None:
            raise NotFittedError(
                "This needs a fitted model, this one is not; call fit(data, "
                "initial_states) first."
            )
        return self._setup

    @property
    def policy(self) -> Policy:
        """The policy, a torch module."""
        return self.setup.policy

    @property
    def bandwidths(self) -> Bandwidths:
        """The bandwidths in use."""
        return self.setup.bandwidths

    @property
    def action_space(self) -> Space[Any]:
        """Where the policy's actions lie."""
        return self.setup.action_space

    @property
    def solution(self) -> BellmanSolution:
        """The Bellman equation of the present policy, solved to `final_rtol`."""
        setup = self.setup
        if setup.problem is None:
            raise NotFittedError(
                "Values need the data, this model was saved without them; save it with "
                "include_data=True."
            )
        if self._solution is None:
            generator = self._seeds.torch("final-samples", self.config.device)
            solver = SolverConfig(rtol=self.config.training.final_rtol)
            estimator = Estimator.of(setup.problem, setup.policy)
            self._solution = estimator.solve(setup.policy, generator, solver)
        return self._solution

    def _at(self, states: Any, values: Tensor) -> NDArray[np.float64]:
        problem = self.setup.problem
        assert problem is not None
        rows = evaluate_at(problem, self.policy, states, self._seeds)
        return np.asarray(rows.matvec(values).double().cpu().numpy())
