"""`nopg.learn`: a policy from logged transitions with nothing to tune.

1. Two models of the system are fitted to the log, one of all the data and one of four fifths.
2. Candidates: plans in the first model, distilled into policies, and gradient ascent on the kernel
   estimate; or trajectory optimisation where states lie too far apart for these.
3. Both models are asked for each candidate's return, and the lower one counts: a policy that
   exploits an error of one does not fool the other.
4. All are refined by the gradient of their return in the first model, and the best is kept.

This is model-based policy search, not the paper's algorithm: that one is `nopg.NOPG`.
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from nopg.algorithms.build import action_space_of, as_dataset, build_policy
from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.search import candidates
from nopg.algorithms.search.checkpoint import SearchCheckpoint
from nopg.algorithms.search.clock import GAMMA, discount_of, without_time_limit
from nopg.algorithms.search.cost import cost_of_search
from nopg.algorithms.search.guided import N_ITERATIONS, trajectory_candidate
from nopg.algorithms.search.memory import AUTO, remembered, starting_states, trial_states
from nopg.algorithms.search.planning import is_sparse
from nopg.algorithms.search.selection import HIDDEN, Floor, Selection
from nopg.bellman.samples import initial_state_tensor
from nopg.compiled import compile_ahead
from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.rewards import RewardFunction, with_known_rewards
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from nopg.errors import ConfigError, DataError, NopgError, SupportWarning, require_count, warn
from nopg.evaluation.model import ModelEvaluator
from nopg.fitted.history import Candidate
from nopg.fitted.policy import LEARN, FittedPolicy
from nopg.policies.arrays import Array
from nopg.policies.families import Policy, parameters_digest
from nopg.randomness import Seed
from nopg.threads import SPARE, ahead, beside, n_workers, side_by_side

logger = logging.getLogger(__name__)

MAX_UNCERTAINTY = 0.75  # mean predictive uncertainty above which models guess
COMPILED = """dynamics/rollout likelihood dynamics/farthest dynamics/regression policies/perceptron
algorithms/search/values algorithms/search/distil algorithms/search/backward dynamics/curvature
dynamics/ascent bellman/rows linalg/solve bellman/update"""  # in the order of their need, about
BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}"
"""Steps differ in length, so there is no guess at what is left: it was hours off."""


def learn(
    data: Dataset,
    initial_states: Any = None,
    *,
    policy: str | None = None,
    gamma: float | None = None,
    risk: str | float = "mean",
    n_updates: int = 200,
    n_refining: int = 100,
    history: int | str = AUTO,
    reward: RewardFunction | None = None,
    start: FittedPolicy | None = None,
    checkpoint: str | Path | None = None,
    action_space: Any = None,
    seed: int = 0,
    progress: bool = True,
    **settings: Any,
) -> FittedPolicy:
    """Learn a policy with nothing to tune: learned models, planning, refinement.

    Args:
        data: Logged transitions; or a data frame with usual names of columns (`Dataset.load`).
        initial_states: Where the task starts, (B, d_s); by default the first state of each episode.
        policy: "deterministic", "stochastic" or "discrete"; by default what fits the actions: the
            first, or the last for labels.
        gamma: Discount factor in (0, 1); by default 0.99, or as far as the episodes reach where
            they earn otherwise after what 0.99 sees of them.
        risk: "mean" for the best mean return; or a share such as 0.1, for the best mean of the
            worst tenth of the rollouts, over starts and noise (the conditional value at risk). It
            steers refinement and choice, not the plans.
        n_updates: Updates of each gradient ascent on the kernel estimate.
        n_refining: Updates of the best candidates in the learned models; 0 for none.
        history: Past observations and actions that the policy acts on: as many as the data ask for
            ("auto"), so many steps of both, or 0 for none. See `Dataset.with_history`.
        reward: The reward as a function of (s, a, s'), where it is known: of tensors (n, d_o), (n,
            d_a) and (n, d_o) in float64, labels as one-hot rows, it returns (n,), made of
            operations of torch. It replaces the logged rewards, and no policy file has it.
        start: A policy that was learned before, to be refined with what is found; its models are
            where the new ones start. See `FittedPolicy.learn_more`.
        checkpoint: File that the search is saved to as it goes. Where it is there already a killed
            search goes on, to the same bits; where the search is done it is removed.
        action_space: Gymnasium space of the actions; by default that of the data.
        seed: Seed of every draw.
        progress: Say about how long it takes (`nopg.learning_cost`), show a bar and a verdict.
        settings: Any other setting of `NOPG`, except `bandwidths`.

    Returns:
        The policy; `policy.search` says what was tried. Ctrl-C ends the search and keeps the best
        policy so far: before there is one, what was done in the log, cloned.

    Example:
        >>> start, quick = [[0.0, 0.0]], {"n_updates": 2, "n_refining": 0}
        >>> policy = nopg.learn(data, start, **quick, progress=False)
        >>> action, _ = policy.predict([0.1, 0.0])
        >>> action.shape
        (1,)
    """
    compile_ahead(*(f"{name}.c" for name in COMPILED.split()))
    data = without_time_limit(as_dataset(data))
    if policy is None:
        policy = "discrete" if data.is_discrete else "deterministic"
    common = {"policy": policy, "action_space": action_space} | settings
    _require_known(data, common, n_updates, n_refining)
    worst_share = _worst_share(risk)
    bar = tqdm(
        total=len(candidates.PLANS) + n_refining,  # and what is searched beside plans
        disable=not progress,
        desc="learn",
        bar_format=BAR,
        postfix="looking at the log",
    )
    far = discount_of(data)
    gamma = common["gamma"] = far if gamma is None else gamma
    config = NOPG(seed=seed, **common).config
    space, known_reward = action_space_of(data, action_space), None
    if reward is not None:
        data, known_reward = with_known_rewards(data, regression_actions(data), reward)
    observed, data = data, remembered(data, history)
    # At a fast clock no plan gets anywhere, however many its anchors are.
    sparse = is_sparse(data, Seed(seed).numpy("places"), far > GAMMA)
    if sparse and "hidden" not in common:
        # What trajectories teach is lost in a single layer.
        common["hidden"] = HIDDEN
        config = replace(config, hidden=HIDDEN)
    fresh, spec = build_policy(config, data, space)
    like = torch.tensor(data.observations, dtype=torch.float64)
    places = initial_state_tensor(starting_states(data, initial_states), like).numpy()
    _require_start(start, data)
    tried: dict[str, Any] = {"n_updates": n_updates, "n_refining": n_refining}
    tried |= {"risk": risk, "history": history}
    kept = asdict(config) | tried | {"reward": reward is not None}
    kept |= {"start": None if start is None else parameters_digest(start.policy)}
    stored = SearchCheckpoint(checkpoint, data, places, kept)
    if progress:
        cost = cost_of_search(data, places, gamma, n_updates, n_refining, sparse)
        tqdm.write(str(cost), file=sys.stderr)
    n_further = candidates.N_ROUNDS + len(candidates.ASCENTS) * n_updates
    bar.total += 2 * N_ITERATIONS if sparse else n_further
    bar.set_postfix_str("models of the system")
    common |= {"action_space": space, "seed": seed}
    fitted = FittedPolicy(
        policy=fresh,
        action_space=space,
        estimator=config.estimator,
        seed=seed,
        algorithm=LEARN,
        settings=asdict(config) | tried,
        spec=spec,
        data=data,
        initial_states=places,
        observation_names=tuple(data.observation_names),
        observation_space=observed.observation_space,
    )
    with side_by_side(), bar:
        try:
            generator = Seed(seed).numpy("transition-model")
            before = None if start is None or not start.models else start.models[0]
            starts = trial_states(data, places)
            made = partial(candidates.prepared_ascents, data, starts, common, seed)
            is_spare = not sparse and stored.refinement is None and n_workers() >= SPARE
            prepared = ahead(made) if is_spare else made
            wide = build_policy(replace(config, hidden=HIDDEN), data, space)
            cloned = ahead(lambda: Floor.of(data, *wide, gamma) if risk == "mean" else None)
            models = fit_ensemble(data, generator, known_reward, before)
            _warn_of_starts(models[0], places)
            if (standardise := getattr(fresh, "standardise", None)) is not None:
                # Models know nothing of a switch that is on: what a policy makes of it is chance.
                standardise.ignore(models[0].bounds.is_switch)
            bar.set_postfix_str("clone of the best episodes")
            floor = cloned()
        except KeyboardInterrupt:
            logger.warning("Interrupted before there was a policy; the log is cloned.")
            return replace(fitted, policy=candidates.cloned_candidate(data, fresh).policy)
        selection = Selection(models, starts, gamma, worst_share)
        given = (selection, data, fresh, floor, start, sparse, prepared, n_updates, n_refining)
        evaluator = ModelEvaluator(data, gamma, Seed(seed), models)
        with beside(evaluator.prepare):
            _search(*given, seed, bar, stored)
        search = selection.choose()
        if floor is not None:
            search = selection.not_below(floor, evaluator, places)
        chosen = selection.found[search.chosen].policy
        if floor is not None and chosen is floor.clone:
            spec = floor.spec
        uncertainty = search.candidates[search.chosen].final.uncertainty
        if uncertainty > MAX_UNCERTAINTY:
            warn(
                "Predictions along the learned policy's path should rest on data, "
                f"their uncertainty there is {uncertainty:.2f} (1 is a guess); record "
                "transitions near that path before trusting the policy."
            )
        fitted = replace(fitted, policy=chosen, spec=spec, search=search, models=models)
        fitted.__dict__["model"] = evaluator  # it has replayed the log already
        stored.remove()
        bar.close()  # the verdict comes below it
        _sign_off(fitted, progress)
    return fitted


def _sign_off(policy: FittedPolicy, progress: bool) -> None:
    """Replay, and whether to run it in one line; the policy is there in any case."""
    try:
        replay = policy.check()
        logger.info("%s", replay)
        if not replay.ok:
            logger.warning(
                "The learned models do not predict rows that they have not seen. %s", replay.reason
            )
        line = str(policy.verdict()) if progress else ""
    except (NopgError, MemoryError, KeyboardInterrupt) as error:
        why = str(error) or type(error).__name__
        line = f"There is no verdict ({why}); policy.verdict() asks again."
    if progress:
        tqdm.write(line)


def _search(
    selection: Selection,
    data: Dataset,
    fresh: Policy,
    floor: Floor | None,
    start: FittedPolicy | None,
    sparse: bool,
    prepared: Callable[[], list[NOPG]],  # ascents
    n_updates: int,
    n_refining: int,
    seed: int,
    bar: "tqdm[Any]",
    checkpoint: SearchCheckpoint,
) -> None:
    """Find candidates, and refine them unless there is nothing left to gain."""
    gamma = selection.gamma

    def advance(text: str) -> None:
        bar.set_postfix_str(text, refresh=False)
        bar.update()

    def keep(found: candidates.FoundPolicy, expected: Candidate | None = None) -> None:
        selection.add(found, expected)
        checkpoint.add(found)

    try:
        for one in checkpoint.policies(fresh):
            selection.add(one)
            advance("where it stood")
        others: list[Callable[[], candidates.FoundPolicy]] = []
        if start is not None:
            others.append(lambda: candidates.earlier_candidate(start, data, fresh))
        if data.history is not None:
            others.append(lambda: candidates.cloned_candidate(data, fresh))
        elif floor is not None:
            others.append(lambda: candidates.cloned_candidate(floor.best, fresh))
        for make in others[len(selection.found) :]:
            keep(make())
        n_found = min(len(selection.found) - len(others), len(candidates.PLANS))
        planned = (selection.models[0], data, fresh, gamma, seed, selection.estimated, n_found)
        for one, expected in candidates.planned_candidates(*planned):
            keep(one, expected)
            advance(str(one.method))
        n_plans = len(others) + len(candidates.PLANS)
        is_planned, is_done = len(selection.found) == n_plans, selection.is_optimal()
        if not (is_done or sparse or checkpoint.refinement):
            is_done = selection.refined_is_optimal(n_plans, n_refining, advance)
        if not is_done:
            if is_planned and sparse:  # nor have kernels any neighbours there
                # Trajectories begin as the best policy so far has them.
                given = (selection.models, data, selection.starts, [selection.best], fresh, gamma)
                drawn = Seed(seed).numpy("disturbances")
                show = "trajectories, J={:.4g}".format
                keep(trajectory_candidate(*given, drawn, lambda value: advance(show(value))))
            elif is_planned:
                for one in candidates.ascent_candidates(prepared(), n_updates, advance):
                    selection.add(one)
                drawn, model = Seed(seed).numpy("replanned"), selection.models[0]
                for _ in range(candidates.N_ROUNDS):
                    along = (selection.best, fresh, selection.starts, gamma, drawn)
                    both = candidates.replanned_candidates(model, data, *along, selection.estimated)
                    selection.add(*max(both, key=lambda pair: pair[1].first.value))
                    advance(str(selection.found[-1].method))
                checkpoint.add(*selection.found[n_plans:])
            selection.refine_all(n_refining, advance, checkpoint)
    except KeyboardInterrupt:
        logger.warning("Interrupted; the best policy so far is kept.")
        if not selection.found:
            selection.add(candidates.cloned_candidate(data, fresh))
    bar.total = bar.n  # what was not needed is not missing
    bar.refresh()


def _require_known(data: Dataset, common: dict[str, Any], n_updates: int, n_refining: int) -> None:
    """Refuse what the search cannot do, before it begins."""
    if "bandwidths" in common:
        raise ConfigError(
            "`learn` chooses the bandwidths itself, got some; use NOPG(bandwidths=...)"
            ".fit(data) to give them."
        )
    if not isinstance(common["policy"], str):
        raise ConfigError(
            '`policy` must be "deterministic", "stochastic" or "discrete", since each candidate '
            f"starts from a policy of its own, got a {type(common['policy']).__name__}; train a "
            "module with NOPG(policy=...).fit(data)."
        )
    place = (common.get("device", "cpu"), common.get("dtype", "float64"))
    if place != ("cpu", "float64"):
        raise ConfigError(
            "`learn` works on the CPU in float64, got device={!r} and dtype={!r}; use "
            "NOPG(...).fit(data) for others.".format(*place)
        )
    require_count("n_updates", n_updates)
    require_count("n_refining", n_refining, 0)
    if bool((data.actions == data.actions[0]).all()):
        raise DataError(
            f"Actions must differ between transitions, all {len(data)} are "
            f"{data.actions[0].tolist()}; without other actions there is nothing to choose."
        )


def _worst_share(risk: str | float) -> float:
    """Share of the rollouts whose mean return is to be high, the worst of them."""
    if risk == "mean":
        return 1.0
    is_number = isinstance(risk, (int, float)) and not isinstance(risk, bool)
    if not is_number or not 0.0 < float(risk) <= 1.0:
        raise ConfigError(
            '`risk` must be "mean" or a share of the rollouts between 0 and 1, got '
            f"{risk!r}; 0.1 cares for the worst tenth of them."
        )
    return float(risk)


def _require_start(start: Any, data: Dataset) -> None:
    """Refuse an earlier policy that does not act on these columns."""
    if start is None:
        return
    if not isinstance(start, FittedPolicy):
        raise ConfigError(
            "`start` must be a policy that nopg.learn found, got a "
            f"{type(start).__name__}; load one with nopg.load."
        )
    names = data.observation_names
    names = names[: data.history.n_observed] if data.history else names  # less the past
    if start.observation_names != tuple(names):
        raise DataError(
            f"`start` must act on the columns {', '.join(names)}, it acts on "
            f"{', '.join(start.observation_names or ())}; choose the same ones."
        )


def _warn_of_starts(model: TransitionModel, starts: Array) -> None:
    """Say so if a start lies where no data are."""
    low, high = model.bounds.low.numpy(), model.bounds.high.numpy()
    outside = ((starts < low) | (starts > high)).any(axis=1)
    if outside.any():
        warn(
            f"Starts should lie near the data, {int(outside.sum())} of {len(starts)} "
            "lie beyond the range of the logged states: what is learned there is a "
            "guess; record data around the start.",
            SupportWarning,
        )
