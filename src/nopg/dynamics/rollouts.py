"""Model rollouts: what policies do in a learned model, what they earn, and gradients.

The states are found by a plain loop. All Jacobians are then taken at once, a backward recursion of
small products gives how the return moves with each action, and one vector-Jacobian product through
the policy does the rest: no graph over time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.transition_model import ArrayTransitionModel, PredictedStep, TransitionModel
from nopg.policies.arrays import Actor, Array, ArrayPolicies
from nopg.policies.build import PerceptronPass
from nopg.policies.families import Policy

PullBack = Callable[[Array], tuple[Tensor, ...]]  # slopes by actions to slopes by the parameters
AT_REST = 1e-4  # share of the typical step below which a state is at rest
GONE = 1e-12  # probability of running at which a rollout has ended
BLOCK, MAX_BLOCK = 16, 512
REST_BLOCK = 64  # where it is asked whether rollouts rest
"""Steps that are taken before one asks about either, at first and at most."""
BATCH = 16_384  # steps whose Jacobians are taken at once: kernels take some hundred megabytes


class Steps(Protocol):
    """A model that takes steps in arrays, such as `ArrayTransitionModel`."""

    def step(
        self, states: Array, actions: Array, draws: Array | None = None
    ) -> PredictedStep[Array]:
        """What the model expects of one step of m states, with the noise of `draws`."""


class RolloutStep(NamedTuple):
    """One step of B rollouts."""

    states: Array  # (B, d_s)
    actions: Array  # (B, d_a)
    outcome: PredictedStep[Array]
    running: Array  # (B,), probability that the rollout has come to `states` in support

    @property
    def survivors(self) -> Array:
        """Probability that it goes on in support, (B,)."""
        return self.running * self.outcome.survives


class ModelRollout(NamedTuple):
    """B rollouts of T steps."""

    states: Array  # (T, B, d_s)
    actions: Array  # (T, B, d_a)
    outcomes: PredictedStep[Array]  # fields of (T, B, ...)
    returns: Array  # (B,), discounted


def running_probability(outcomes: PredictedStep[Array]) -> Array:
    """That of having come to each step of rollouts in support, (T + 1, B)."""
    first = np.ones_like(outcomes.rewards[:1])
    return np.cumprod(np.concatenate([first, outcomes.survives]), axis=0)


def discounted_return(outcomes: PredictedStep[Array], gamma: float, worst: float) -> Array:
    """What T steps of rollouts earn, (B,), and the `worst` value out of support."""
    earned = outcomes.rewards + gamma * worst * outcomes.leaves
    earned *= running_probability(outcomes)[:-1]
    return np.asarray(gamma ** np.arange(len(earned)) @ earned)


def rollout_blocks(
    model: Steps,
    actor: Actor,
    starts: Array,
    n_steps: int,
    draws: Array | None = None,
    rest: Array | None = None,  # steps (d_s,) so small that blocks end where all come to rest
) -> Iterator[tuple[Array, ...]]:
    """States, actions and the fields of predicted steps, some steps at a time.

    Of the arguments of `rollout_steps`; arrays of (t, B, ...). Compiled code takes more and more
    steps at a time, NumPy a few: who has seen enough loses little.
    """
    most = MAX_BLOCK if rest is None else REST_BLOCK
    compiled = model.compiled if isinstance(model, ArrayTransitionModel) else None
    states, t, count, running = starts, 0, BLOCK, np.ones(len(starts))
    while t < n_steps:
        count = min(count, n_steps - t)
        gusts = None if draws is None else draws[t : t + count]
        if compiled is not None and isinstance(actor, ArrayPolicies):
            block = compiled.rollout(actor, states, count, gusts, running)
            more = min(2 * count, most)
        else:
            block, more = _numpy_block(model, actor, states, count, gusts), count
        yield block
        if rest is not None and _come_to_rest(block[0], PredictedStep(*block[2:]), rest):
            return
        states, t, count = block[3][-1], t + count, more


def _come_to_rest(states: Array, outcomes: PredictedStep[Array], rest: Array) -> bool:
    """Whether the last of some steps, (t, B, ...), are small, and no larger than the first."""
    # Near an unstable equilibrium steps are small, too, but grow.
    first, last = (np.abs(outcomes.next_states[[0, -1]] - states[[0, -1]]) / rest).max(axis=2)
    leaving = outcomes.terminated[-1].max() + outcomes.out_of_support[-1].max()
    return bool(last.max() < 1.0 and (last <= np.maximum(first, 1e-8)).all() and leaving < 1e-9)


def _numpy_block(
    model: Steps, actor: Actor, states: Array, n_steps: int, draws: Array | None
) -> tuple[Array, ...]:
    steps: list[tuple[Array, ...]] = []
    for t in range(n_steps):
        actions = actor.act(states)
        outcome = model.step(states, actions, *(() if draws is None else (draws[t],)))
        steps.append((states, actions, *outcome))
        states = outcome.next_states
    return tuple(np.stack(field) for field in zip(*steps, strict=True))


def erring_steps(
    model: Steps, actor: Actor, starts: Array, given: Array
) -> tuple[Array, Array, PredictedStep[Array]]:
    """States, actions and outcomes of T steps: what is `given`, (T, B, d_a), or NaN to act."""
    compiled = model.compiled if isinstance(model, ArrayTransitionModel) else None
    if compiled is not None and isinstance(actor, ArrayPolicies):
        found = compiled.rollout(actor, starts, len(given), None, given=given)
        return found[0], found[1], PredictedStep(*found[2:])
    steps, states = [], starts
    for some in given:
        actions = np.where(np.isnan(some), actor.act(states), some)
        steps.append((states, actions, *model.step(states, actions)))
        states = steps[-1][3]
    found = tuple(map(np.stack, zip(*steps, strict=True)))
    return found[0], found[1], PredictedStep(*found[2:])


def rollout_steps(
    model: Steps,
    actor: Actor,
    starts: Array,
    n_steps: int,  # at most
    least: float = 0.0,  # ends where every rollout is less likely to be running
    draws: Array | None = None,  # standard normal, of the noise, (n_steps, B, d_s)
) -> Iterator[RolloutStep]:
    """Act and step from `starts`, (B, d_s), along the mean predictions or with noise.

    Rollouts do not branch: a state goes on, and what terminates or is out of support
    is subtracted from the probability that its rollout is still running.
    """
    running = np.ones(len(starts))
    for block in rollout_blocks(model, actor, starts, n_steps, draws):
        for states, actions, *fields in zip(*block, strict=True):
            one = RolloutStep(states, actions, PredictedStep(*fields), running)
            yield one
            running = one.survivors
            if running.max() < least:
                return


def model_rollout(
    model: TransitionModel,
    actor: Actor,
    starts: Array,  # (B, d_s)
    gamma: float,
    horizon: int,  # at most
    *,
    # Stop where every rollout rests, and count the last reward for ever after.
    until_rest: bool = False,
    draws: Array | None = None,  # standard normal, of the noise, (horizon, B, d_s)
    steps: ArrayTransitionModel | None = None,  # taken by these instead, drawn from the model
) -> ModelRollout:
    """Roll out `actor` from `starts`; out of support it earns the worst there is."""
    blocks: list[tuple[Array, ...]] = []
    steps, running = steps or model.arrays, np.ones(len(starts))
    at_rest = np.zeros(len(starts))
    for block in rollout_blocks(steps, actor, starts, horizon, draws):
        blocks.append(block)
        running = running * running_probability(PredictedStep(*block[2:]))[-1]
        last = [field[-1] for field in block]
        outcome = PredictedStep(*last[2:])
        moved = np.abs(outcome.next_states - last[0]) / model.bounds.typical_step.numpy()
        leaving = outcome.terminated.max() + outcome.out_of_support.max()
        if until_rest and moved.max() < AT_REST and leaving < 1e-9:
            at_rest = gamma ** sum(len(block[0]) for block in blocks) * running * outcome.rewards
            break
        if running.max() < GONE:
            break
    whole = [np.concatenate(field) for field in zip(*blocks, strict=True)]
    outcomes = PredictedStep(*whole[2:])
    returns = discounted_return(outcomes, gamma, model.value_limits(gamma)[0])
    return ModelRollout(whole[0], whole[1], outcomes, returns + at_rest / (1.0 - gamma))


def rollout_gradients(
    model: TransitionModel,
    policies: Sequence[Policy],
    starts: Array,
    gamma: float,
    horizon: int,
    draws: Array | None = None,
    worst_share: float = 1.0,
    credits: Sequence[float] | None = None,
) -> list[tuple[Tensor, ...]]:
    """The gradient of each policy's mean return in the model, in its parameters.

    `draws` are those of the noise from each start, (horizon, B, d_s), the same for all policies:
    given them a noisy path is as smooth in the policy as any other. Of the returns the mean of the
    worst share is meant, see `tail_weights`. Along some noisy paths gradients explode, and a mean
    of a few would follow these alone. So where `credits` are given no path counts for more than a
    usual one, and in those of a policy of credit c dU_{t+1}/ds is multiplied by c: an action
    answers for about 1 / (1 - c) steps.

    The actions are the policies' first outputs: means, or probabilities of labels, which stand for
    the mean effect of a randomised label.

    With U_t the return from step t on, p_t the probability that step t terminates, o_t that it is
    out of support and W the worst value,

        U_t = r_t + gamma (1 - p_t) ((1 - o_t) U_{t+1} + o_t W)

    is differentiated backwards in time:

        dU_t / da_t = dr/da + (dr/ds' + gamma V) ds'/da,  V = (1 - p)(1 - o) dU_{t+1}/ds
                      - ((1 - o) U_{t+1} + o W) dp/ds + (1 - p)(W - U_{t+1}) do/ds
        dU_t / ds_t = likewise by s, plus (dU_t / da_t) dpi/ds

    All policies are rolled out at once, since a step of a few states hardly costs more than of one.
    """
    every = np.tile(starts, (len(policies), 1))
    gusts = None if draws is None else np.tile(draws, (1, len(policies), 1))
    rollout = model_rollout(model, ArrayPolicies(policies), every, gamma, horizon, draws=gusts)
    n_steps, _, d_s = rollout.states.shape
    shares = rollout.states.reshape(n_steps, len(policies), -1, d_s)
    acted = [
        _policy_slopes(policy, shares[:, k].reshape(-1, d_s)) for k, policy in enumerate(policies)
    ]
    by_state = [each.reshape(n_steps, len(starts), -1, d_s) for each, _ in acted]
    credit = np.repeat(credits or [1.0] * len(policies), len(starts))[:, None]
    gradients = _action_gradients(model, rollout, np.hstack(by_state), gamma, gusts, credit)
    reached = running_probability(rollout.outcomes)[:-1]
    weights = tail_weights(rollout.returns.reshape(len(policies), -1), worst_share).ravel()
    gradients *= (reached * (gamma ** np.arange(n_steps))[:, None] * weights)[..., None]
    if credits is not None:
        # No path of a policy is to have a larger gradient than its median one.
        sizes = np.sqrt(np.square(gradients).sum(axis=(0, 2))).reshape(len(policies), -1)
        usual = np.array([[np.median(each[each > 0.0]) if each.any() else 0.0] for each in sizes])
        gradients *= np.minimum(1.0, usual / np.maximum(sizes, 1e-300)).reshape(-1, 1)
    gradients = gradients.reshape(n_steps, len(policies), len(starts), -1)
    d_a = gradients.shape[-1]
    return [pull(gradients[:, k].reshape(-1, d_a)) for k, (_, pull) in enumerate(acted)]


def tail_weights(returns: Array, worst_share: float) -> Array:
    """Weights under which returns (K, B) have the mean of the worst share of each row.

    That is the conditional value at risk: with a share of 0.1, what the worst tenth of the rollouts
    earns on average; with 1, the mean of all.
    """
    n = returns.shape[1]
    rank = returns.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    count = max(1.0, worst_share * n)
    return np.asarray(np.clip(count - rank, 0.0, 1.0) / count)


def _action_gradients(
    model: TransitionModel,
    rollout: ModelRollout,
    by_state: Array,
    gamma: float,
    draws: Array | None,
    credit: Array,
) -> Array:
    """dU_t / da_t along each rollout, (T, B, d_a); `by_state` is dpi/ds."""
    n_steps, n_paths, d_s = rollout.states.shape
    worst, compiled = model.value_limits(gamma)[0], model.arrays.compiled
    if compiled is not None:
        steps = (rollout.states, rollout.actions, *rollout.outcomes)
        noise = None if draws is None else draws[:n_steps]
        return compiled.action_gradients(steps, by_state, gamma, worst, credit[:, 0], noise)
    states, actions, *fields = (
        torch.from_numpy(x.reshape(n_steps * n_paths, *x.shape[2:]))
        for x in (rollout.states, rollout.actions, *rollout.outcomes)
    )
    gusts = None if draws is None else torch.from_numpy(draws[:n_steps].reshape(-1, d_s))
    parts = []
    for first in range(0, len(states), BATCH):
        rows = slice(first, first + BATCH)
        outcome = PredictedStep(*(field[rows] for field in fields))
        some = None if gusts is None else gusts[rows]
        parts.append(model.jacobians(states[rows], actions[rows], outcome, some))
    moving, projection, earning, final, ending, leaving = (
        torch.cat(field).numpy().reshape(n_steps, n_paths, *field[0].shape[1:])
        for field in zip(*parts, strict=True)
    )
    outcomes = rollout.outcomes
    stays = (1.0 - outcomes.terminated)[..., None]
    out, rewards = outcomes.out_of_support[..., None], outcomes.rewards[..., None]
    value, adjoint = np.zeros((n_paths, 1)), np.zeros((n_paths, d_s))
    gradients = np.empty_like(rollout.actions)
    for t in range(n_steps - 1, -1, -1):
        expected = (1.0 - out[t]) * value + out[t] * worst
        ahead = stays[t] * (1.0 - out[t]) * adjoint - expected * ending[t]
        ahead = ((gamma * ahead + final[t])[:, None] @ projection[t])[:, 0]
        ahead = ahead + gamma * stays[t] * (worst - value) * leaving[t]
        joint = earning[t] + (ahead[:, None] @ moving[t])[:, 0]
        gradients[t] = joint[:, d_s:]
        adjoint = (joint[:, :d_s] + (gradients[t][:, None] @ by_state[t])[:, 0]) * credit
        value = rewards[t] + gamma * stays[t] * expected
    return gradients


def _policy_slopes(policy: Policy, states: Array) -> tuple[Array, PullBack]:
    """Slopes of typical actions (m, d_a) by states, and what passes slopes by them on."""
    inputs = torch.from_numpy(states)
    made = PerceptronPass.of(policy, inputs, only_slopes=True)
    if made is not None:
        rest = [torch.zeros_like(output) for output in made.outputs[1 : made.n_learned]]
        return made.jacobian().numpy(), lambda by: made.vjp((torch.from_numpy(by), *rest))
    inputs.requires_grad_()
    actions = policy.outputs(inputs)[0]
    rows = [
        torch.autograd.grad(actions[:, d].sum(), inputs, retain_graph=True)[0]
        for d in range(actions.shape[1])
    ]
    parameters = [p for p in policy.parameters() if p.requires_grad]

    def pull_back(by_actions: Array) -> tuple[Tensor, ...]:
        # A sum, since torch imports its compiler to check the shape of a vector.
        total = (actions * torch.from_numpy(by_actions)).sum()
        return torch.autograd.grad(total, parameters, materialize_grads=True)

    return torch.stack(rows, dim=1).numpy(), pull_back
