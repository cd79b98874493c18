"""Where an ascent starts: a few short ones, compared by something that is not J.

Gradient ascent finds the nearest hill of J. The blur of the paper's rows helps to see far, matched
rows are right about what is near. So one short ascent is made on the paper's rows and one on
several kinds in turn, on a part of the data; the long one starts from the policy whose mean path
earns most. J cannot choose: each was raised on it. Where it promises more than the best mean path
earns, the search goes on from other policies, in the end along mean paths (`path_gradient`), as for
labels in any case: a row finds only samples of its own label, and spreads the more. In noise paths
are drawn, with the same gusts for all, and samples get other actions (`transported`).
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.algorithms.nopg.config import NOPGConfig
from nopg.bellman.path_gradient import PathGradient
from nopg.bellman.paths import MeanPaths, transported
from nopg.bellman.problem import MATCHED, NADARAYA_WATSON, EstimatorConfig, Problem
from nopg.bellman.samples import Samples
from nopg.bellman.solution import Estimator, Start
from nopg.data.dataset import Dataset
from nopg.fitted.policy import FittedPolicy
from nopg.kernels.bandwidths import Bandwidths
from nopg.linalg.solve import SolverConfig
from nopg.policies.adam import Adam, cosine_decay, eps_for
from nopg.policies.families import CategoricalPolicy, Policy
from nopg.randomness import Seed

REFRESH = 8  # updates that one coarse inverse serves
Kind = tuple[str, float]  # a row model and a factor on the bandwidths
Advance = Callable[[], object]  # called after every update
PLAIN, NEAR, WIDE = (NADARAYA_WATSON, 1.0), (MATCHED, 1.0), (MATCHED, 2.0)
KINDS: tuple[tuple[Kind, ...], ...] = ((PLAIN,), (PLAIN, NEAR, WIDE))
"""What each short ascent uses, one kind after the other from update to update."""
ROUNDS, MARGIN = 3, 1e-2
"""How often they are made at most: once, unless the best mean path earns less a step than J says of
its policy, by this share. Paths are followed farther: what has arrived should last."""
N_SHORT, SNAPSHOTS = 200, 4
"""Most updates of each, and how many of its policies are compared: on a flat J it walks on."""
WINDOW, SETTLED = 24, 1e-2
"""An ascent ends early when so many updates, some of each kind, brought less of its rise."""
N_ALONG = 40  # updates along mean paths
CREDIT = 0.95  # of every other of these in noise: gradients of more than twenty steps are lost
N_ROWS = 800  # samples each rests on, a random part of more
LASTING = 3.0  # times farther paths are followed than the discount looks: balances drift slowly
N_STARTS, N_GUSTS = 6, 48  # initial states they begin at; paths drawn in noise
N_ELSEWHERE, WEIGHT = 20, 0.2
"""States of the data that a short ascent counts beside the initial ones, and their
weight: where J is flat from the start, they are what tells good from better."""
LEARNING_RATE, LABEL_RATE = 1e-2, 5e-2
"""Adam's first step size; likewise for labels, whose probabilities have far to go."""
N_DRAWS = 4  # times that samples are drawn anew in noise: what rests on one draw falls with it
RTOL = 1e-2  # relative residual of the solves


class Ground(NamedTuple):
    """What ascents rest on, and what their policies are compared by."""

    data: Samples  # as they are
    samples: Samples  # the same, in noise with other actions
    paths: MeanPaths  # through the data

    @classmethod
    def of(cls, data: Dataset, h: Bandwidths, gamma: float, seed: Seed) -> "Ground":
        """The ground of one data set."""
        samples = Samples.of(data, torch.float64, "cpu")
        found = cls(samples, samples, MeanPaths.through(data, h, gamma, seed))
        # Labels have nothing between them that a row could mix.
        if found.paths.regression.is_noisy and not samples.n_actions:
            return found._replace(samples=found.drawn(seed.numpy("other-actions")))
        return found

    @property
    def is_noisy(self) -> bool:
        """Whether samples were moved to other actions."""
        return self.samples is not self.data

    def drawn(self, generator: np.random.Generator) -> Samples:
        """Samples with other actions; of few data each several times."""
        n = len(self.data.rewards)
        several = torch.arange(n).repeat(max(1, N_ROWS // n))
        return transported(self.data.subset(several), self.paths, generator)


def find_start(
    fitted: FittedPolicy,  # whose policy the first ascent starts from; it stays
    ground: Ground,
    fresh: Callable[[int], Policy],  # an untrained one by number, for the others
    config: NOPGConfig,  # of the long ascent
    n_updates: int,  # of each short one
    advance: Advance,
) -> Policy:
    """The best of a few short ascents, and of a few more where J overrates it."""
    initial, bandwidths = torch.as_tensor(fitted.initial_states), fitted.bandwidths
    d = len(bandwidths.state) + len(bandwidths.action)
    n, seed = len(ground.data.rewards), Seed(config.seed)
    generator = seed.numpy("starts")
    rated: list[tuple[float, Policy]] = []
    found: list[Policy] = []
    value, promised, best = -math.inf, -math.inf, fitted.policy
    for number, kinds in enumerate(KINDS * ROUNDS):
        one = fresh(number) if number else copy.deepcopy(fitted.policy).double().cpu()
        part = ground.samples if number % len(KINDS) else ground.data
        rows = torch.as_tensor(generator.permutation(len(part.rewards))[:N_ROWS])
        part = part.subset(rows.sort().values)
        # State bandwidths for fewer samples, by the rate at which they fall with n.
        h = bandwidths.scaled(max(1.0, n / len(rows)) ** (1.0 / (d + 4)))
        # Initial states, as often as it takes, and states of the data with `WEIGHT`.
        other = part.states[torch.as_tensor(generator.permutation(len(rows))[:N_ELSEWHERE])]
        wanted = len(other) * (1.0 - WEIGHT) / WEIGHT
        begun = torch.cat([initial.repeat(max(1, round(wanted / len(initial))), 1), other])
        problems = [_problem(part, begun, h, config.estimator, kind, seed) for kind in kinds]
        found += [copy.deepcopy(one)] if ground.is_noisy else []  # all may end worse than begun
        found += _ascend(one, problems, seed, n_updates, advance)
        if (number + 1) % len(KINDS):
            continue
        rated += zip(path_returns(found, fitted, ground), found, strict=True)
        found, (value, best) = [], max(rated, key=lambda pair: pair[0])
        if ground.is_noisy and number < len(KINDS):
            continue  # J has more spread than the system and promises too little
        plain = _problem(part, initial, h, config.estimator, NEAR, seed)
        asked = (best, seed.torch("policy-samples"), SolverConfig(rtol=RTOL))
        promised = float(Estimator.of(plain, best).solve(*asked).objective())
        promised *= 1.0 - fitted.gamma
        promised -= MARGIN * abs(promised)
        if value >= promised:
            break
    is_noisy, n_along = ground.paths.regression.is_noisy, min(N_ALONG, n_updates)
    is_followed = is_noisy or ground.data.n_actions or value < promised
    for number in range(ROUNDS if is_followed else 0):
        gusts = (generator, 1.0 if number % 2 else CREDIT) if is_noisy else ()
        along = PathGradient(ground.paths, _starts(initial, is_noisy), *gusts)
        found = _ascend_along(best, along, ground.data.rewards, n_along, advance)
        rated += zip(path_returns(found, fitted, ground), found, strict=True)
        value, best = max(rated, key=lambda pair: pair[0])
        if value >= promised and not is_noisy:
            break
    found = [best]
    for _ in range(N_DRAWS if ground.is_noisy else 0):
        part, on = ground.drawn(generator), copy.deepcopy(found[-1])
        last = [_problem(part, initial, bandwidths, config.estimator, NEAR, seed)]
        found.append(_ascend(on, last, seed, -(-n_updates // N_DRAWS), advance)[-1])
    if found[1:]:
        rated += zip(path_returns(found[1:], fitted, ground), found[1:], strict=True)
    return max(rated, key=lambda pair: pair[0])[1]


def path_returns(policies: Sequence[Policy], fitted: FittedPolicy, ground: Ground) -> list[float]:
    """What each policy's paths through the data of `fitted` earn, a step."""
    paths, initial = ground.paths, torch.as_tensor(fitted.initial_states)
    is_noisy, least = paths.regression.is_noisy, (1.0 - paths.gamma) / LASTING
    gusts = Seed(fitted.seed).numpy("gusts") if is_noisy else None
    found = replace(paths, gamma=1.0 - least).returns(policies, _starts(initial, is_noisy), gusts)
    return list((least * found.mean(axis=1)).tolist())


def _starts(initial: Tensor, is_noisy: bool) -> Tensor:
    """Where paths begin; those that are drawn begin at each initial state several times."""
    often = -(-N_GUSTS // len(initial)) if is_noisy else 1
    return initial.repeat(often, 1)[: N_GUSTS if is_noisy else N_STARTS]


def _ascend_along(
    policy: Policy, gradient: PathGradient, rewards: Tensor, n_updates: int, advance: Advance
) -> list[Policy]:
    """Copies of a policy on its way up along its mean paths, the best of them first."""
    policy, kept = copy.deepcopy(policy), []
    parameters = [p for p in policy.parameters() if p.requires_grad]
    adam, best, most = Adam(parameters, eps_for(rewards)), policy, -math.inf
    first = LABEL_RATE if isinstance(policy, CategoricalPolicy) else LEARNING_RATE
    for step in range(n_updates):
        value, slope = gradient.of(policy)
        if value > most:
            best, most = copy.deepcopy(policy), value
        adam.step(slope, first * cosine_decay(step, n_updates))
        advance()
        if (n_updates - 1 - step) % -(-n_updates // 2) == 0:
            kept.append(copy.deepcopy(policy))
    return [best, *kept]


def _problem(
    part: Samples, initial: Tensor, h: Bandwidths, like: EstimatorConfig, kind: Kind, seed: Seed
) -> Problem:
    rows, scale = kind
    # Short lists for both: a start need not be exact.
    config = replace(like, rows=rows, neighbours=64, next_state_samples=1)
    built = Problem.build(part, initial, h, config, seed.torch("next-states"))
    return built if scale == 1.0 else built.rescaled(scale)


def _ascend(
    policy: Policy, problems: Sequence[Problem], seed: Seed, n_updates: int, advance: Advance
) -> list[Policy]:
    """Updates in place, each on the next of the problems; copies on the way."""
    parameters = [p for p in policy.parameters() if p.requires_grad]
    adam = Adam(parameters, eps_for(problems[0].samples.rewards))
    solver, generator = SolverConfig(rtol=RTOL), seed.torch("policy-samples")
    estimators = [Estimator.of(problem, policy) for problem in problems]
    starts: list[Start | None] = [None] * len(estimators)
    first = LABEL_RATE if isinstance(policy, CategoricalPolicy) else LEARNING_RATE
    kept, heights = [], []
    for step in range(n_updates):
        turn, i = divmod(step, len(estimators))
        solution = estimators[i].solve(policy, generator, solver, starts[i])
        heights.append(float(solution.eps0 @ solution.q.value))
        start = solution.following()
        starts[i] = start if (turn + 1) % REFRESH else replace(start, core=None)
        adam.step(solution.gradient(policy), first * cosine_decay(step, n_updates))
        advance()
        lately = heights[-1] - heights[max(0, step - WINDOW)]
        is_settled = step >= WINDOW and lately <= SETTLED * (heights[-1] - heights[i])
        if is_settled or (n_updates - 1 - step) % -(-n_updates // SNAPSHOTS) == 0:
            kept.append(copy.deepcopy(policy))
        if is_settled:
            break
    return kept
