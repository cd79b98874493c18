"""Refinement: gradient ascent on the return in learned models, from good policies.

Kernel rows blur what they estimate, so the policy that is best for them is a little off. Learned
models are sharper near the states a policy really visits, but their gradient only helps a policy
that already does roughly the right thing. So this comes last.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from nopg.discount import discount_horizon
from nopg.dynamics.compiled_ascent import CompiledAscent
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.rollouts import ModelRollout, model_rollout, rollout_gradients, tail_weights
from nopg.dynamics.transition_model import TransitionModel
from nopg.fitted.history import ModelEstimate
from nopg.policies.adam import Adam, cosine_decay, eps_for
from nopg.policies.arrays import Array, ArrayPolicies
from nopg.policies.families import Policy, parameters_digest
from nopg.threads import parallel_map

Models = Sequence[TransitionModel]
Policies = Sequence[Policy]

LEARNING_RATE, NOISY_LEARNING_RATE = 5e-3, 2e-2
"""Adam's first step size; half of that of the search, which has farther to go. In noise
gradients are rough, and only what lasts over many long steps is learned."""
CREDITS = (1.0, 0.95)
"""Where the system is noisy each policy ascends twice: an action answers for all that
follows, or for about twenty steps, where gradients of more are lost in noise."""
PATIENCE = 25  # updates without a gain after which refining ends, but in noise
GAIN = 1e-3  # smallest gain that counts, as a share of |J|
N_KEPT, FIRST_ROUND = 3, 0.3
"""All policies are refined for this share of the updates, then so many of the best:
where a policy starts says little about where it can get."""
CHECK_EVERY, NOISY_CHECK_EVERY = 5, 10  # updates between estimates by all models
SEARCH_WEIGHT = 0.005  # weight gamma^T at which rollouts end while searching
FINAL_WEIGHT = 1e-8  # where the last choice is made: what fails late is to be seen
N_STARTS = 5
"""Starts that gradients and first estimates are averaged over. With others in every update systems
of twenty columns gain a twentieth, and an acrobot loses an eighth."""
N_PATHS, N_FINAL_PATHS = 24, 96  # in noise, over all starts; for the last choice
N_NEW_PATHS = 8
"""Paths of each update where the system is noisy, with new gusts every time: what is
learned from many gusts, a few at a time, does not hold for these alone."""
NOISY_FINAL_WEIGHT = 1e-3  # in noise: what fails late fails early on another path
N_UNCERTAINTIES = 64  # steps of a policy whose uncertainty is averaged: rollouts cost less
NOTED = ("best", "best_parameters", "last_gain", "is_done")  # of an ascent, for the next updates


def model_estimates(
    models: Models,
    policies: Policies,
    starts: Array,
    gamma: float,
    negligible: float = SEARCH_WEIGHT,
    worst_share: float = 1.0,
) -> list[ModelEstimate]:
    """Roll out each policy in each model from each of `starts`; the lowest counts.

    Policies act as they will: for labels, the likeliest one. Rollouts end at a weight gamma^T of
    `negligible`, or at rest. Their worst share is averaged.
    """

    def estimates(model: TransitionModel) -> list[ModelEstimate]:
        rollout, returns = _rollout(model, policies, starts, gamma, negligible, worst_share)
        uncertainties = _uncertainties(model, rollout, len(policies), gamma)
        return list(map(ModelEstimate, returns.tolist(), uncertainties.tolist()))

    found = zip(*parallel_map(estimates, models), strict=True)
    return [min(each, key=lambda one: one.value) for each in found]


def model_returns(
    models: Models, policies: Policies, starts: Array, gamma: float, worst_share: float = 1.0
) -> list[float]:
    """The values of `model_estimates` alone, which cost less."""
    options = (policies, starts, gamma, SEARCH_WEIGHT, worst_share)
    found = parallel_map(lambda model: _rollout(model, *options)[1], models)
    return [float(value) for value in np.min(found, axis=0)]


def attainable_return(model: TransitionModel, gamma: float, weight: float = SEARCH_WEIGHT) -> float:
    """The most that rollouts can earn, less what regressions err by."""
    most = model.reward_limits[1] * (1.0 - gamma ** discount_horizon(gamma, weight)) / (1.0 - gamma)
    return most - 1e-4 * abs(most)


class _Ascent:
    """A policy, and the best it has been."""

    def __init__(self, policy: Policy, best: float, most: float, credit: float, eps: float) -> None:
        self.policy, self.best, self.attainable, self.credit = policy, best, most, credit
        self.adam = Adam([p for p in policy.parameters() if p.requires_grad], eps)
        self.best_parameters = _copied(policy)
        self.last_gain, self.is_done = 0, best >= most

    def state(self) -> dict[str, Any]:
        """All that the next updates depend on."""
        parts = {"policy": self.policy.state_dict(), "adam": self.adam.state_dict()}
        return copy.deepcopy(parts) | {name: getattr(self, name) for name in NOTED}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.policy.load_state_dict(state["policy"])
        self.adam.load_state_dict(state["adam"])
        for name in NOTED:
            setattr(self, name, state[name])

    def record(self, value: float, step: int, is_noisy: bool) -> None:
        """Note the lowest return in the models after so many updates."""
        if value > self.best + GAIN * abs(self.best):
            self.last_gain = step
        if value > self.best:
            self.best = value
            self.best_parameters = _copied(self.policy)
        is_stuck = step - self.last_gain > PATIENCE and not is_noisy
        self.is_done = self.best >= self.attainable or is_stuck


def _copied(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in policy.state_dict().items()}


def refine(
    models: Models,  # the gradient is that of the first
    policies: Policies,  # perceptrons of one shape
    starts: Array,  # where the task starts, (B, d_s)
    gamma: float,
    n_updates: int,  # of each, at most
    advance: Callable[[float], None] = lambda best: None,  # with the best value so far
    worst_share: float = 1.0,  # of the rollouts whose mean return counts
    begun: Mapping[str, Any] | None = None,  # where an earlier refining stood
    save: Callable[[int, Sequence[Any]], None] = lambda step, ascents: None,  # every few updates
) -> list[float]:
    """Improve `policies` in place by the gradient of their return in the first model.

    Every few updates they are rolled out in all models, and the parameters of the highest lowest
    return are kept: what exploits an error of the first model does not fool the others, and no
    policy gets worse in their view. What comes is the lowest return of each.
    """
    every, starts = starts, search_starts(models[0], starts)
    first = [0.0] * len(policies)
    if begun is None:
        first = model_returns(models, policies, starts, gamma, worst_share)
    most = attainable_return(models[0], gamma)
    is_noisy = models[0].noise is not None
    check_every = NOISY_CHECK_EVERY if is_noisy else CHECK_EVERY
    eps = eps_for(torch.tensor(models[0].rewards))
    ascents = [
        _Ascent(policy if credit == 1.0 else copy.deepcopy(policy), value, most, credit, eps)
        for credit in CREDITS[: 2 if is_noisy else 1]
        for policy, value in zip(policies, first, strict=True)
    ]
    digests = [parameters_digest(policy) for policy in policies]
    for i, one in enumerate(ascents):  # plans may agree
        one.is_done |= digests[i % len(digests)] in digests[: i % len(digests)]
    n_done, team, compiled = 0, ascents[:0], None
    if begun is not None:
        n_done = int(begun["step"])
        for one, state in zip(ascents, begun["ascents"], strict=True):
            one.restore(state)
    try:
        for step in range(n_done + 1, n_updates + 1):
            active = [one for one in ascents if not one.is_done]
            if not active:
                break
            progress = (step - 1) / n_updates
            some, draws = _new_paths(models[0], every, gamma, step, worst_share)
            if active != team:
                team, compiled = active, _compiled(models[0], active, starts, gamma, worst_share)
            _update(models[0], active, some, draws, gamma, progress, worst_share, compiled)
            if step % check_every == 0 or step == n_updates:
                policies_now = [one.policy for one in active]
                found = model_returns(models, policies_now, starts, gamma, worst_share)
                for one, value in zip(active, found, strict=True):
                    one.record(value, step, is_noisy)
            if step == math.ceil(FIRST_ROUND * n_updates):
                for one in sorted(ascents, key=lambda one: -one.best)[N_KEPT:]:
                    one.is_done = True
            if step % check_every == 0:
                save(step, ascents)
            advance(max(one.best for one in ascents))
    finally:  # an interrupt, too, leaves the best
        n = len(policies)
        best = [max(ascents[i::n], key=lambda one: one.best) for i in range(n)]
        for policy, one in zip(policies, best, strict=True):
            policy.load_state_dict(one.best_parameters)
    return [one.best for one in best]


def _update(
    model: TransitionModel,
    ascents: Sequence[_Ascent],
    starts: Array,
    draws: Array | None,
    gamma: float,
    progress: float,
    worst_share: float,
    compiled: CompiledAscent | None,
) -> None:
    """One update of each policy, with a step size that falls along a cosine."""
    rate = LEARNING_RATE if draws is None else NOISY_LEARNING_RATE
    rate *= cosine_decay(progress, 1.0)
    if compiled is not None:
        for one, norm in zip(ascents, compiled.run(rate), strict=True):
            one.is_done = not (math.isfinite(norm) and norm > 0.0)
        return
    policies = [one.policy for one in ascents]
    credits = None if draws is None else [one.credit for one in ascents]
    options = (discount_horizon(gamma), draws, worst_share, credits)
    gradients = rollout_gradients(model, policies, starts, gamma, *options)
    for one, gradient in zip(ascents, gradients, strict=True):
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradient))
        if math.isfinite(norm) and norm > 0.0:
            one.adam.step(gradient, rate)
        elif draws is None:  # other gusts may do
            one.is_done = True


def _compiled(
    model: TransitionModel, ascents: Sequence[_Ascent], starts: Array, gamma: float, share: float
) -> CompiledAscent | None:
    """Updates of these, laid out once, if they can be."""
    if share < 1.0:
        return None
    policies, adams = [one.policy for one in ascents], [one.adam for one in ascents]
    return CompiledAscent.of(model, policies, adams, starts, gamma, discount_horizon(gamma))


def _rollout(
    model: TransitionModel,
    policies: Policies,
    starts: Array,
    gamma: float,
    negligible: float,
    worst_share: float,
) -> tuple[ModelRollout, Array]:
    """Every policy from every start, policy by policy, and their mean returns, (K,)."""
    actor = ArrayPolicies(policies, is_decided=True)
    every = np.tile(starts, (len(policies), 1))
    horizon = discount_horizon(gamma, negligible)
    gusts = _draws(model, starts, horizon)
    draws = None if gusts is None else np.tile(gusts, (1, len(policies), 1))
    rollout = model_rollout(model, actor, every, gamma, horizon, until_rest=True, draws=draws)
    returns = rollout.returns.reshape(len(policies), -1)
    return rollout, (tail_weights(returns, worst_share) * returns).sum(axis=1)


def search_starts(model: TransitionModel, starts: Array, n_paths: int = N_PATHS) -> Array:
    """Where rollouts of a search start: a few starts, or all in turn in noise."""
    return starts[:N_STARTS] if model.noise is None else starts[np.arange(n_paths) % len(starts)]


def _new_paths(
    model: TransitionModel, starts: Array, gamma: float, step: int, worst_share: float
) -> tuple[Array, Array | None]:
    """Where the paths of an update start, and gusts of its own: none without noise."""
    if model.noise is None:
        return search_starts(model, starts), None
    # The worst share of a few paths is hardly one of them.
    n_paths = N_NEW_PATHS if worst_share == 1.0 else N_PATHS
    some = starts[(np.arange(n_paths) + n_paths * step) % len(starts)]
    return some, _draws(model, some, discount_horizon(gamma), step)


def _draws(model: TransitionModel, starts: Array, horizon: int, stream: int = 0) -> Array | None:
    """Common random numbers: the same gusts for every policy and model, or none."""
    # Estimates have stream 0: what an update gained on its own gusts must hold there.
    if model.noise is None:
        return None
    n_paths, d_s = starts.shape
    return noise_draws(horizon, n_paths, d_s, np.random.default_rng(stream), model.noise)


def _uncertainties(model: TransitionModel, rollout: ModelRollout, n: int, gamma: float) -> Array:
    """Discounted mean uncertainty along the rollouts of each of n policies, (n,)."""
    n_steps = min(len(rollout.states), discount_horizon(gamma))
    n_starts = rollout.states.shape[1] // n
    # Spread over times and, at each of these, over other paths.
    some = np.linspace(0, n_steps * n_starts - 1, N_UNCERTAINTIES).astype(int)
    times, paths = np.divmod(np.unique(some), n_starts)
    each = times[:, None], paths[:, None] + n_starts * np.arange(n)
    states, actions = (
        torch.from_numpy(x[each].reshape(-1, x.shape[2])) for x in (rollout.states, rollout.actions)
    )
    found = model.uncertainty(states, actions).numpy().reshape(len(times), n)
    return np.asarray(np.average(found, axis=0, weights=gamma**times))
