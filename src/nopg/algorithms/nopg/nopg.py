"""NOPG: the paper's algorithm, from logged transitions to a policy."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from gymnasium.spaces import Space
from numpy.typing import NDArray
from torch import nn
from tqdm.auto import tqdm

from nopg.algorithms.build import action_space_of, as_dataset, build_policy
from nopg.algorithms.nopg.ascent import TrainingState
from nopg.algorithms.nopg.budget import estimate_budget, out_of_memory
from nopg.algorithms.nopg.config import N_AFTER_SEARCH, N_UPDATES, NOPGConfig, require_count
from nopg.algorithms.nopg.starts import KINDS, N_SHORT, Ground, find_start
from nopg.algorithms.nopg.training import Training, announce
from nopg.bellman.problem import MATCHED, Problem
from nopg.bellman.samples import Samples, initial_state_tensor
from nopg.bellman.sharded import joined_parts
from nopg.data.dataset import Dataset
from nopg.errors import NotFittedError, SupportWarning, warn
from nopg.fitted.history import Update
from nopg.fitted.policy import FittedPolicy
from nopg.kernels.bandwidths import Bandwidths, select_bandwidths
from nopg.linalg.ranks import Ranks
from nopg.policies.families import Policy
from nopg.randomness import Seed

FAR = 5.0  # bandwidths from which a sample says nothing about a state: its kernel is 4e-6


class NOPG:
    """Nonparametric off-policy policy gradient.

    Args:
        policy: "deterministic", "stochastic", "discrete", or a torch module, trained in place.
        gamma: Discount factor in [0, 1).
        bandwidths: "auto", `Bandwidths(...)`, `CrossValidated(...)` or `LeaveOneOut()`.
        action_space: Gymnasium space of the actions; by default that of the data, or their range.
        seed: Seed of every draw; the same seed gives the same bits.
        settings: Other fields of `NOPGConfig`, `EstimatorConfig` or `TrainingConfig`: `hidden`,
            `learning_rate`, `neighbours` (samples a row of P keeps), `policy_samples` (N_pi),
            `next_state_samples` (N_phi), `device` ("cpu", "cuda"), `dtype` ("float64", "float32").

    Attributes:
        config: All settings.
        bandwidth_rule: What `bandwidths` was.

    Example:
        >>> algorithm = nopg.NOPG(gamma=0.9, hidden=(8,), search_start=False)
        >>> policy = algorithm.fit(data, [[0.0, 0.0]], n_updates=2, progress=False)
        >>> len(policy.history)
        2
    """

    def __init__(
        self,
        policy: str | nn.Module = NOPGConfig.policy,
        gamma: float = NOPGConfig.gamma,
        bandwidths: str | Bandwidths | Any = "auto",
        action_space: Space[Any] | None = None,
        seed: int = NOPGConfig.seed,
        **settings: Any,
    ) -> None:
        kind = policy if isinstance(policy, str) else "custom"
        self.config = NOPGConfig.of(policy=kind, gamma=gamma, seed=seed, **settings)
        self.bandwidth_rule, self._space = bandwidths, action_space
        self._module = None if isinstance(policy, str) else policy
        self._fitted: FittedPolicy | None = None
        self._budget: Any = None
        self.ground: Ground | None = None

    def fit(
        self,
        data: Dataset,
        initial_states: Any = None,
        n_updates: int | None = None,
        *,
        evaluators: Mapping[str, Callable[[FittedPolicy], float]] | None = None,
        evaluate_every: int = 100,
        callback: Callable[[FittedPolicy, Update], Any] | None = None,
        progress: bool = True,
        ranks: Ranks | None = None,
    ) -> FittedPolicy:
        """Learn a policy from `data`.

        Args:
            data: Logged transitions.
            initial_states: Where the task starts, (B, d_s); by default episodes' first states.
            n_updates: Policy updates; by default 150 after a search for a start, else 200.
            evaluators: Functions of the policy, called now and then; results land in the history.
            evaluate_every: Updates between evaluations; one more follows the last update.
            callback: Called with the policy and the update; returning False stops.
            progress: Show a bar with J.
            ranks: Processes that share the work, from `joined_ranks`; each calls `fit` with the
                same data, or with its part of them, and ends with the same policy.

        Returns:
            The fitted policy; `history` says what happened, update by update. Ctrl-C after the
            first ends training and keeps the policy so far (`history.stopped == "interrupted"`).
        """
        fitted = self.prepare(data, initial_states, ranks, announce if progress else None)
        n_updates = self.length(n_updates)
        self.find_start(n_updates, progress=progress)
        how: dict[str, Any] = {"evaluate_every": evaluate_every, "progress": progress}
        self.training(n_updates).run(evaluators=evaluators, callback=callback, **how)
        return fitted

    def prepare(
        self,
        data: Dataset,
        initial_states: Any = None,
        ranks: Ranks | None = None,
        announce: Callable[[str], object] | None = None,
    ) -> FittedPolicy:
        """Do what `fit` does before its first update, and stop there.

        Bandwidths are chosen and neighbours listed; the policy returned is untrained. What a large
        job will take is told to `announce` first; one that does not fit into memory is refused.
        """
        config, seeds = self.config, Seed(self.config.seed)
        if ranks is not None and ranks.shares_data:  # a rank may have none
            data = data if data is None else as_dataset(data)
            samples, data = joined_parts(data, ranks, config.torch_dtype, config.device, config)
        else:
            data = as_dataset(data)
            samples = Samples.of(data, config.torch_dtype, config.device)
        starts = data.first_states() if initial_states is None else initial_states
        initial = initial_state_tensor(starts, samples.states)
        space = action_space_of(data, self._space)
        policy, spec = build_policy(config, data, space, self._module)
        bandwidths = select_bandwidths(self.bandwidth_rule, data, seeds.numpy("bandwidths"))
        budget = estimate_budget(policy, samples, initial, bandwidths, config, ranks)
        if budget.is_large and announce is not None:
            announce(str(budget))
        if ranks is not None:
            ranks.copy_from_first(policy.state_dict().values())
        with out_of_memory(budget):
            draws = seeds.torch("next-states", config.device)
            problem = Problem.build(samples, initial, bandwidths, config.estimator, draws, ranks)
        _warn_of_far_starts(problem)
        made: dict[str, Any] = {"settings": asdict(config), "spec": spec, "data": data}
        made |= {"problem": problem, "initial_states": initial.double().cpu().numpy()}
        made["bandwidth_rule"] = problem.bandwidths  # one for both columns of a circle
        made |= {name: getattr(data, name) for name in ("observation_names", "observation_space")}
        fitted = FittedPolicy(policy, space, config.estimator, config.seed, **made)
        self._fitted, self._budget, self.ground = fitted, budget, None
        if config.search_start and config.rows == MATCHED and self._module is None:
            self.ground = Ground.of(data, problem.bandwidths, config.gamma, seeds)
            if self.ground.is_noisy and len(data) < len(samples.rewards):
                warn(f"In noise updates rest on a sample of what ranks share, {len(data)} rows.")
        return fitted

    def length(self, n_updates: int | None) -> int:
        """Updates of a prepared policy: those asked for, fewer where a start is searched."""
        usual = N_UPDATES if self.ground is None else N_AFTER_SEARCH
        return usual if n_updates is None else n_updates

    def find_start(self, n_updates: int = N_AFTER_SEARCH, *, progress: bool = True) -> None:
        """Let a few short ascents look for where the prepared policy should start.

        They use rows of several kinds, and the policy whose mean path earns most is taken (see
        `starts`). Nothing happens with the paper's rows, with a module of your own, which starts as
        it is, or with `search_start=False`. None takes more than twice `n_updates`.
        """
        require_count("n_updates", n_updates)
        fitted, config, ground = self.fitted, self.config, self.ground
        if ground is None:
            return
        data, space = fitted.require_data(), fitted.action_space

        def fresh(number: int) -> Policy:
            other = replace(config, seed=config.seed + number, device="cpu", dtype="float64")
            return build_policy(other, data, space)[0]

        n_short = min(N_SHORT, 2 * n_updates)
        bar = tqdm(total=len(KINDS) * n_short, disable=not progress, desc="starts")
        with bar, out_of_memory(self._budget):
            best = find_start(fitted, ground, fresh, config, n_short, bar.update)
        fitted.policy.load_state_dict(best.state_dict())
        fitted.policy_changed()

    def prepare_like(self, other: "NOPG") -> FittedPolicy:
        """Share another's data, bandwidths and lists; the policy is one's own."""
        base, config = other.fitted, self.config
        assert base.data is not None
        policy, spec = build_policy(config, base.data, base.action_space, self._module)
        fitted = replace(
            base, policy=policy, spec=spec, seed=config.seed, settings=asdict(config), history=None
        )
        self._fitted, self._budget, self.ground = fitted, other._budget, other.ground
        return fitted

    def training(self, n_updates: int, resume: TrainingState | None = None) -> Training:
        """The updates of a prepared policy, to be run; those before `resume` are among them."""
        return Training(self.fitted, self.config, n_updates, resume, self._budget, self.ground)

    @property
    def fitted(self) -> FittedPolicy:
        """The policy of the last `fit` or `prepare`."""
        if self._fitted is None:
            raise NotFittedError("This needs a fitted policy, there is none yet; call fit first.")
        return self._fitted

    @property
    def predict(self) -> Callable[..., tuple[NDArray[Any], Any]]:
        """`FittedPolicy.predict` of the policy of the last `fit`."""
        return self.fitted.predict


def _warn_of_far_starts(problem: Problem) -> None:
    """Say so if an initial state lies far from every sample, whatever the action."""
    rows = problem.initial_rows
    distance = (-2.0 * rows.gather([block.log_psi.amax(dim=1) for block in rows.blocks])).sqrt()
    worst = float(distance.max())
    if worst > FAR:
        n_far, n = int((distance > FAR).sum()), len(distance)
        warn(
            f"Initial states should lie near the data, {n_far} of {n} are more than {FAR:g} "
            f"bandwidths from every sample (the farthest {worst:.1f}): what is learned there rests "
            "on the nearest alone; record data around the start, or pass wider `bandwidths`.",
            SupportWarning,
        )
