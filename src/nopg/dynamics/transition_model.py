"""A learned model of the system: next state, reward and termination of a step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.data.history import HistoryLayout
from nopg.dynamics.bounds import RewardBounds, StateBounds
from nopg.dynamics.compiled import (
    LANES,
    CompiledModel,
    PathFeedback,
    ProcessArrays,
    compiled_library,
    filled_up,
    process_fields,
)
from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.hyperparameters import FREE, Angle, HyperparameterLimits, telling_angles
from nopg.dynamics.noise import N_ROWS, ProcessNoise
from nopg.dynamics.rewards import KnownReward, Potential
from nopg.dynamics.stiction import Stiction
from nopg.dynamics.terminations import TerminationModel, continuing_rewards
from nopg.policies.arrays import Array

IMPACT = 4.0  # usual steps off a prediction, from which on an episode ended in an impact

T = TypeVar("T", Tensor, NDArray[np.float64])


class PredictedStep(NamedTuple, Generic[T]):
    """One predicted step of a batch, in tensors or in arrays."""

    reached: T  # (m, d_s), where the regression leads
    next_states: T  # (m, d_s), the same within the state bounds
    rewards: T  # (m,), expected, a termination included
    terminated: T  # (m,), the probability that the episode terminates
    out_of_support: T  # (m,), that of having left the data, if it does not
    continuing_rewards: T  # (m,), the reward if the episode goes on

    @property
    def leaves(self) -> T:
        """Probability of going on out of support, (m,)."""
        return (1.0 - self.terminated) * self.out_of_support

    @property
    def survives(self) -> T:
        """Probability of going on in support, (m,)."""
        return 1.0 - self.terminated - self.leaves


class StepJacobians(NamedTuple):
    """How a predicted step moves with the state and the action before it."""

    reached: Tensor  # (m, d_s, d_s + d_a)
    next_states: Tensor  # (m, d_s, d_s), by the state reached
    rewards: Tensor  # (m, d_s + d_a)
    final_rewards: Tensor  # (m, d_s), of the rewards by the *next* state
    terminated: Tensor  # (m, d_s), likewise
    out_of_support: Tensor  # (m, d_s), by the state reached


@dataclass(frozen=True)
class TransitionModel:
    """Gaussian processes of (s' - s, r) on (s, a), with bounds and terminations.

    Out of support, beyond the bounds of the data, what a rollout would have earned counts as the
    worst the data allow.
    """

    process: GaussianProcess
    bounds: StateBounds  # where the data have been
    rewards: tuple[float, float]  # smallest and largest seen
    reward_bounds: RewardBounds  # between which the regression is believed
    termination: TerminationModel | None  # None if no episode terminated
    noise: ProcessNoise | None = None  # None if the system acts the same way twice
    history: HistoryLayout | None = None  # past columns: they need no regression
    known_reward: KnownReward | None = None  # None if it is regressed
    stiction: Stiction | None = None  # None if the mean moves everywhere
    potential: Potential | None = None  # None if rewards are regressed as they are

    @classmethod
    def fit(
        cls,
        states: Tensor,
        actions: Tensor,
        rewards: Tensor,
        next_states: Tensor,
        terminations: Tensor,
        *,
        generator: np.random.Generator,
        like: "TransitionModel | None" = None,
        initial: GaussianProcess | None = None,
        limits: HyperparameterLimits = FREE,
        history: HistoryLayout | None = None,
        known_reward: KnownReward | None = None,
        angles: tuple[Angle, ...] | None = None,
        potential: Potential | bool | None = True,
    ) -> "TransitionModel":
        """Learn from n transitions, all float64; labels as one-hot actions.

        `like` is a model of more data of the same system: its bounds, noise, known reward, angles
        and what hardly moves hold here too, and its hyperparameters are a good start; without one,
        those of `initial` are. If nobody else says which angles rewards depend on, the data do; and
        whether they are differences of a potential, if that is True.
        """
        inputs = torch.cat([states, actions], dim=1)
        n_present = states.shape[1] - (0 if history is None else history.n_kept)
        known_reward = known_reward if like is None else like.known_reward
        continuing = continuing_rewards(inputs, rewards, terminations)
        if known_reward is not None:  # nothing is left to regress
            continuing = torch.zeros_like(rewards)
        if like is None:
            bounds, is_saturated = StateBounds.of(states, actions, next_states, n_present)
            seen = (float(rewards.min()), float(rewards.max()))
            believed = RewardBounds.of(continuing)
        else:
            bounds, seen, believed = like.bounds, like.rewards, like.reward_bounds
            is_saturated = bounds.are_left_out(next_states)
        potential = potential if like is None else like.potential
        is_asked_for = potential is True and known_reward is None  # nobody has looked for one
        potential = potential if isinstance(potential, Potential) else None
        if is_asked_for:
            is_left = is_saturated | bounds.are_switched(states) | terminations.bool()
            rows = [x[~is_left].numpy() for x in (states, actions, rewards, next_states)]
            potential = Potential.fit(rows, np.random.default_rng(0), n_present)
        if potential is not None:
            left = rewards - torch.from_numpy(potential.gained(states, next_states))
            continuing = continuing_rewards(inputs, left, terminations)
        targets = torch.cat([(next_states - states)[:, :n_present], continuing[:, None]], dim=1)
        # What is paid where motion is stopped is learned as all rewards are; but where a switch is
        # on, as where legs touch the ground, another law holds, and says nothing about this one.
        inside = ~(bounds.are_beyond(next_states) | bounds.are_switched(states))
        if like is not None:
            angles = like.process.angles
        elif angles is None:
            angles = telling_angles(inputs[inside], continuing[inside], bounds.angles)
        process = GaussianProcess.fit(
            inputs[inside],
            targets[inside],
            generator,
            initial if like is None else like.process,
            # A rare reward may be what it is all about.
            with_outliers=(n_present,),
            limits=limits._replace(is_wide=history is not None),
            is_free=~is_saturated[inside],
            angles=angles,
        )
        noise = None if like is None else like.noise
        if like is None:
            x, y = inputs[~is_saturated], targets[~is_saturated]
            every = -(-len(x) // N_ROWS)  # rounded up
            x, y = x[::every], y[::every]
            errors = process.noise_errors(x, y)[:, :n_present]
            noise = ProcessNoise.fit(x, errors, y[:, :n_present].std(dim=0, correction=0))
        given = (process, bounds, seen, believed, None, noise, history, known_reward)
        found = cls(*given, potential=potential)
        columns = (states, actions, rewards, next_states, terminations)
        ends = (found._followed(columns), rewards, terminations)
        before = None if like is None else like.termination
        usual = bounds.impact_step(next_states, terminations)
        model = TerminationModel.fit(*ends, generator, before, typical_step=usual)
        found = replace(found, termination=model)
        if like is None or like.stiction is None:
            return found
        return replace(found, stiction=Stiction.of(columns[:4], n_present, like.stiction.size))

    @property
    def reward_limits(self) -> tuple[float, float]:
        """Lowest and highest reward per step; nothing is earned after an end."""
        low, high = self.rewards
        return (low, high) if self.termination is None else (min(low, 0.0), max(high, 0.0))

    @property
    def part_limits(self) -> Array:
        """Lowest and highest reward of a step, and of an end, which is paid once, (2, 2)."""
        (low, high), usual = self.reward_limits, self.reward_bounds
        if self.termination is None or self.known_reward is not None:
            return np.array([[low, 0.0], [high, 0.0]])
        return np.array([[min(usual.seen, 0.0), low], [max(usual.high, 0.0), high]])

    def value_limits(self, gamma: float) -> tuple[float, float]:
        """The least and the most a rollout can still earn: one reward for ever, or an end."""
        (low, high), ends = self.part_limits.T.tolist()
        least, most = low / (1.0 - gamma), high / (1.0 - gamma)
        return (min(least, ends[0]), max(most, ends[1])) if any(ends) else (least, most)

    def step(
        self, states: Tensor, actions: Tensor, draws: Tensor | None = None
    ) -> PredictedStep[Tensor]:
        """`ArrayTransitionModel.step` of tensors."""
        gusts = None if draws is None else draws.numpy()
        found = self.arrays.step(states.numpy(), actions.numpy(), gusts)
        return PredictedStep(*map(torch.from_numpy, found))

    @cached_property
    def arrays(self) -> "ArrayTransitionModel":
        """The same in arrays, laid out once."""
        return ArrayTransitionModel(self)

    def jacobians(
        self,
        states: Tensor,
        actions: Tensor,
        step: PredictedStep[Tensor],
        draws: Tensor | None = None,
        *,
        is_exact: bool = False,  # in double precision, to be differentiated once more
    ) -> StepJacobians:
        """Derivatives of `step(states, actions, draws)`, which gave `step`."""
        inputs, made = torch.cat([states, actions], dim=1), self.arrays.compiled
        slopes = None
        if made is not None and not is_exact:
            slopes = torch.from_numpy(made.slopes(states.numpy(), actions.numpy()))
        process = self.process.jacobian(inputs, slopes)
        d_s = process.shape[1] - 1  # of the present
        reached = process[:, :d_s].clone()
        if self.stiction is not None:
            reached *= torch.from_numpy(self.stiction.moves(inputs.numpy()))[..., None]
        if self.noise is not None and draws is not None:
            reached += self.noise.jacobian(inputs, draws[:, :d_s])
        reached[:, :, :d_s] += torch.eye(d_s).to(states)
        if self.history is not None:
            copied = torch.from_numpy(self.history.copied)
            past = torch.eye(process.shape[2]).to(states)[copied].repeat(len(states), 1, 1)
            reached = torch.cat([reached, self.history.changed(reached, past)], dim=1)
        projection = self.bounds.projection_jacobian(step.reached)
        leaving = self.bounds.out_of_support_gradient(step.reached)
        is_moved = self.reward_bounds.are_inside(step.continuing_rewards)
        rewards = (is_moved * (1.0 - step.terminated))[:, None] * process[:, d_s]
        ending, final = torch.zeros_like(states), torch.zeros_like(states)
        if self.termination is not None:
            # Where no neighbour is terminal the gradient is 0.
            is_open = step.terminated > 1e-15
            ending[is_open, :d_s], final[is_open, :d_s] = self.termination.gradients(
                step.next_states[is_open, :d_s]
            )
            final = final - step.continuing_rewards[:, None] * ending
        if self.potential is not None:
            counts = (is_moved * (1.0 - step.terminated))[:, None]
            rewards[:, : states.shape[1]] -= counts * self.potential.slopes(states)
            final = final + counts * self.potential.slopes(step.next_states)
        if self.known_reward is not None:
            rewards, final = self.known_reward.gradients(states, actions, step.next_states)
        return StepJacobians(reached, projection, rewards, final, ending, leaving)

    def without_each(
        self, columns: Sequence[Tensor], parts: NDArray[np.int64]
    ) -> list["TransitionModel"]:
        """This model of `columns`, as for `fit`, without each part of their rows.

        Hyperparameters, bounds, noise and stiction stay.
        """
        states, actions, rewards, following, ended = columns
        targets, inputs = self.targets(columns), torch.cat([states, actions], dim=1)
        d_s = targets.shape[1] - 1  # of the present
        if self.known_reward is None:
            targets[:, d_s] = continuing_rewards(inputs, targets[:, d_s], ended)
        keeps = [torch.from_numpy(parts != name) for name in np.unique(parts)]
        inside = ~(self.bounds.are_beyond(following) | self.bounds.are_switched(states))
        free = ~self.bounds.are_left_out(following)[inside]
        processes = self.process.without_each(
            inputs[inside], targets[inside], [keep[inside] for keep in keeps], [d_s], free
        )
        found, reached = [], self._followed(columns)
        usual = self.bounds.impact_step(following, ended)
        for keep, process in zip(keeps, processes, strict=True):
            seen = (reached[keep], rewards[keep], ended[keep])
            # Where a task ends is known even if it was seen to end only once.
            rest = (np.random.default_rng(0), self.termination)
            ends = TerminationModel.fit(*seen, *rest, typical_step=usual)
            ends = ends or self.termination
            found.append(replace(self, process=process, termination=ends))
        return found

    def _followed(self, columns: Sequence[Tensor]) -> Tensor:
        """Next states of a log, of impacts where free motion alone would have led, (n, d)."""
        # The model knows nothing else: it never is where an impact has ended an episode.
        states, actions, _, next_states, terminations = columns
        found = next_states.clone()
        if self.bounds.impact_step(next_states, terminations) is not None:
            is_on = self.bounds.are_switched(states) | self.bounds.are_switched(next_states)
            asked = torch.nonzero(is_on | terminations.bool())[:, 0]
            free = self.step(self.bounds.switched_off(states[asked]), actions[asked]).next_states
            # Some impacts come before any switch.
            jump = (next_states[asked] - free).abs() > IMPACT * self.bounds.typical_step
            is_hit = is_on[asked] | jump.any(dim=1)
            found[asked[is_hit]] = free[is_hit]
        return found[:, : self.process.linear.shape[1] - 1]

    def targets(self, columns: Sequence[Tensor]) -> Tensor:
        """What the regression is of in rows of a log, (n, d + 1); a known reward is 0.

        `columns` are states, actions, rewards and next states, terminations left out.
        """
        states, _, rewards, following = columns[:4]
        if self.known_reward is not None:
            rewards = torch.zeros_like(rewards)
        if self.potential is not None:
            rewards = rewards - torch.from_numpy(self.potential.gained(states, following))
        d = self.process.linear.shape[1] - 1  # of the present
        return torch.cat([(following - states)[:, :d], rewards[:, None]], dim=1)

    def uncertainty(self, states: Tensor, actions: Tensor) -> Tensor:
        """Largest predictive uncertainty for lack of data among the targets, (m,).

        The standard deviation of each mean over its prior one: 0 is known, 1 a guess. What is lost
        in noise need not be known better than the noise allows.
        """
        std = self.process.std(torch.cat([states, actions], dim=1))
        prior = torch.hypot(self.process.amplitude, self.process.noise)
        return (std / prior.clamp_min(1e-300)).amax(dim=1)


def regression_actions(data: Dataset) -> Tensor:
    """Actions as a regression takes them, (n, d_a): labels become one-hot rows."""
    actions = torch.tensor(data.actions)
    if data.is_discrete:
        actions = torch.nn.functional.one_hot(actions, data.n_actions)
    return actions.double()


class ArrayTransitionModel:
    """Steps of a model, of its mean or of draws.

    A rollout takes one after another, a handful of states at a time, and there calls cost more than
    arithmetic. What does not change is multiplied out beforehand: few products are left.
    """

    def __init__(self, model: TransitionModel, process: ProcessArrays | None = None) -> None:
        self._model, self.noise = model, model.noise
        self._arrays = process or mean_arrays(model.process)
        self._process = _ArrayProcess(self._arrays)
        bounds = self._bounds = model.bounds
        self._low, self._high = bounds.low.numpy(), bounds.high.numpy()
        # What saturates stays in support: no distance counts there.
        self._below, self._above = (
            ~stops.numpy() / bounds.typical_step.numpy()
            for stops in (bounds.saturation.is_low, bounds.saturation.is_high)
        )
        self._copied = None if model.history is None else model.history.copied
        ends = model.termination
        self._termination = None if ends is None else _ArrayTermination(ends)

    def step(
        self, states: Array, actions: Array, draws: Array | None = None
    ) -> PredictedStep[Array]:
        """What the model expects of one step of m states, with the noise of `draws`."""
        if self.compiled is None:
            return self.numpy_step(states, actions, draws)
        gusts = None if draws is None else draws[None]
        made = self.compiled.rollout(actions[None], states, 1, gusts)
        return PredictedStep(*(field[0] for field in made[2:]))

    def numpy_step(
        self, states: Array, actions: Array, draws: Array | None = None
    ) -> PredictedStep[Array]:
        """The same without compiled code."""
        inputs = np.concatenate([states, actions], axis=1)
        predicted = self._process(inputs)
        d_s = predicted.shape[1] - 1  # of the present
        moved = predicted[:, :d_s]
        if self._model.stiction is not None:
            moved = moved * self._model.stiction.moves(inputs)
        reached = states[:, :d_s] + moved
        if self.noise is not None and draws is not None:
            gusts = torch.from_numpy(draws[:, :d_s])
            reached += self.noise.disturb(torch.from_numpy(inputs), gusts).numpy()
        if (history := self._model.history) is not None:
            past = history.changed(reached, inputs[:, self._copied])
            reached = np.concatenate([reached, past], axis=1)
        after, out = self._projected(reached)
        if (known := self._model.known_reward) is None:
            low, high, _ = self._model.reward_bounds
            rewards = predicted[:, d_s]
            if (potential := self._model.potential) is not None:
                rewards = rewards + potential.gained(states, after)
            rewards = np.minimum(np.maximum(rewards, low), high)
        else:
            rewards = known.of_arrays(states, actions, after)
        if self._termination is None:
            return PredictedStep(reached, after, rewards, np.zeros(len(rewards)), out, rewards)
        terminated, final = self._termination(after[:, :d_s])
        expected = (1.0 - terminated) * rewards + final if known is None else rewards
        return PredictedStep(reached, after, expected, terminated, out, rewards)

    def follow(
        self, states: Array, actions: Array | PathFeedback, draws: Array | None = None
    ) -> PredictedStep[Array]:
        """What T actions, (T, B, d_a), or feedback lead to from states (B, d_s), (T, B, ...).

        `draws` are standard normal, of the noise, (T, B, d_s).
        """
        n_steps = len(actions[0] if isinstance(actions, PathFeedback) else actions)
        if self.compiled is not None:
            # What was recorded went on, whatever the model says.
            running = np.ones(len(states)) if isinstance(actions, PathFeedback) else None
            made = self.compiled.rollout(actions, states, n_steps, draws, running)
            return PredictedStep(*made[2:])
        steps = []
        for t in range(n_steps):
            action = actions.at(t, states) if isinstance(actions, PathFeedback) else actions[t]
            steps.append(self.step(states, action, None if draws is None else draws[t]))
            states = steps[-1].next_states
        return PredictedStep(*(np.stack(field) for field in zip(*steps, strict=True)))

    @cached_property
    def compiled(self) -> CompiledModel | None:
        """The same in compiled code; None where that cannot be had."""
        model, bounds = self._model, self._model.bounds
        is_plain = model.known_reward is None and model.stiction is None
        if not is_plain or compiled_library() is None:
            return None
        fields = process_fields(self._arrays)
        d_s, d, d_p = len(self._low), fields["d_z"] - len(fields["turned"]), fields["q"] - 1
        fields |= {"d_s": d_s, "d_p": d_p, "d_a": d - d_s, "d": d}
        if (noise := self.noise) is not None:
            fields |= {"noise_centre": noise.centre, "noise_factor": 1.0 / noise.spread}
            fields |= {"log_std": noise.weights, "mixing": noise.factor}
            fields |= {"log_low": noise.limits[0], "log_high": noise.limits[1]}
        if (past := model.history) is not None:
            fields |= {"copied": self._copied, "n_copied": past.n_kept, "n_changes": past.n_changes}
        stops = bounds.saturation
        fields |= {"low": self._low, "high": self._high, "below": self._below, "above": self._above}
        fields |= {"stops": torch.stack([stops.is_low, stops.is_high]), "has_stops": stops.exists}
        fields |= {"is_set": stops.is_set, "set_to": stops.set_to}
        fields |= {"angles": bounds.angles or None, "n_angles": len(bounds.angles)}
        fields |= {"reward_low": model.reward_bounds.low, "reward_high": model.reward_bounds.high}
        if self._termination is not None:
            fields |= self._termination.compiled_fields()
        if model.potential is not None:
            fields |= model.potential.compiled_fields()
        return CompiledModel(**fields)

    def _projected(self, reached: Array) -> tuple[Array, Array]:
        """States within bounds, and the probability that no data tell what follows."""
        # 1 - exp(-1/2 sum_d (distance beyond the bounds / typical step)_d^2): slopes lead back.
        after = np.minimum(np.maximum(reached, self._low), self._high)
        beyond, out = reached - after, np.zeros(len(reached))
        if beyond.any():  # rarely
            if self._bounds.saturation.exists:
                after = self._bounds.clip(torch.from_numpy(reached)).numpy()
            beyond *= np.where(beyond < 0.0, self._below, self._above)
            out = -np.expm1(-0.5 * (beyond * beyond).sum(axis=1))
        return self._bounds.project_angles(after), out


def mean_arrays(process: GaussianProcess) -> ProcessArrays:
    """All that makes up the mean of a process."""
    c, d = process.inverse_scales.shape
    linear = (process.centre.numpy(), 1.0 / process.spread.numpy(), process.linear.numpy()[None])
    points, scales = process.inducing.numpy(), process.inverse_scales.numpy()
    kernels = (points, scales, process.exponent.numpy())
    weights = [process.weights[i : i + 1, : process.n_kernels(i)].numpy() for i in range(c)]
    waves = (np.zeros((c, d, 0)), np.zeros((c, 0)), np.zeros((1, c, 0)))
    some, missed = process.curved.tolist(), process.missed.numpy()
    return ProcessArrays(*linear, some, *kernels, weights, *waves, process.angles, missed)


class _ArrayProcess:
    """Functions of a Gaussian process: kernels and waves of (z^2, z, 1), and a linear part."""

    def __init__(self, given: ProcessArrays) -> None:
        (n_draws, _, q), d, m = given.linear.shape, len(given.centre), len(given.points)
        waves = np.zeros((2 * d + 1, given.phases.size))
        waves[d : 2 * d] = given.frequencies.swapaxes(0, 1).reshape(d, -1)
        waves[-1] = given.phases.ravel()
        kernels = [slice(i * m, i * m + w.shape[1]) for i, w in enumerate(given.weights)]
        inner = np.hstack([*(given.exponent[:, some] for some in kernels), waves])
        outer, first = np.zeros((n_draws, inner.shape[1], q)), 0
        parts = (*given.weights, *given.wave_weights.swapaxes(0, 1))
        for part, target in zip(parts, (*given.curved, *given.curved), strict=True):
            outer[:, first : first + part.shape[1], target] = part
            first += part.shape[1]
        is_used = np.asarray(outer.any(axis=(0, 2)))
        self._given, self._n_kernels = given, is_used[: -waves.shape[1] or None].sum()
        self._inner = np.ascontiguousarray(inner[:, is_used])
        self._outer = np.ascontiguousarray(outer[:, is_used])
        self._linear = np.zeros((n_draws, 2 * d + 1, q))
        self._linear[:, d : 2 * d], self._linear[:, -1] = given.linear[:, 1:], given.linear[:, 0]

    def __call__(self, inputs: Array) -> Array:
        """Of each input, (m, q); a batch is shared among them in equal parts, in order."""
        n_draws, _, q = self._linear.shape
        features = self._given.features(inputs)
        found = features @ self._inner
        _exp(found[:, : self._n_kernels])
        if self._n_kernels < found.shape[1]:
            torch.from_numpy(found[:, self._n_kernels :]).cos_()
        shape = (n_draws, len(inputs) // n_draws)
        predicted: Array = found.reshape(*shape, found.shape[1]) @ self._outer
        predicted += features.reshape(*shape, features.shape[1]) @ self._linear
        return predicted.reshape(len(inputs), q)


class _ArrayTermination:
    """`TerminationModel.predict`."""

    def __init__(self, model: TerminationModel) -> None:
        points, d = model.points.numpy(), model.points.shape[1]
        self._factor = 1.0 / (model.unit.numpy() * model.width)
        scaled = points / model.width
        # |s|^2 is the same for every point: it does not change their shares.
        self._exponent = np.empty((d + 1, len(points)))
        self._exponent[:d] = scaled.T
        self._exponent[d] = -0.5 * (scaled * scaled).sum(axis=1)
        if model.log_counts is not None:
            self._exponent[d] += model.log_counts.numpy()
        self._limits = model.limits
        self._values = np.stack([model.is_terminal.numpy(), model.rewards.numpy()], axis=1)

    def compiled_fields(self) -> dict[str, Any]:
        """The same as compiled code takes it; what is filled up has no weight."""
        # Ends first, and all in the order of trees: what lies far off is passed over together.
        from scipy.spatial import cKDTree

        points, is_end = self._exponent[:-1].T, self._values.any(axis=1)
        rows = [np.flatnonzero(kind) for kind in (is_end, ~is_end) if kind.any()]
        order = np.concatenate([some[cKDTree(points[some], LANES).indices] for some in rows])
        ended, rewards = map(filled_up, self._values[order].T)
        offsets = filled_up(self._exponent[-1, order], -1e300)
        sizes = {"n_points": len(offsets), "n_ending": -(-is_end.sum() // LANES) * LANES}
        fields: dict[str, Any] = {"end_factor": self._factor, "n_limits": len(self._limits)}
        names = ("limit_columns", "limit_slopes", "limit_offsets", "limit_rewards")
        fields |= dict(zip(names, zip(*self._limits, strict=True), strict=False))
        fields |= {"end_points": filled_up(points[order].T), "end_offsets": offsets}
        return sizes | fields | {"ended": ended, "end_rewards": rewards}

    def __call__(self, states: Array) -> tuple[Array, Array]:
        scores = (states * self._factor) @ self._exponent[:-1] + self._exponent[-1]
        weights = _exp(scores - scores.max(axis=1, keepdims=True))
        shares = (weights @ self._values) / weights.sum(axis=1, keepdims=True)
        for limit in self._limits:
            shares += limit.crossed(states)[:, None] * (np.array([1.0, limit.reward]) - shares)
        return shares[:, 0], shares[:, 1]


def _exp(x: Array) -> Array:
    """e^x in place; torch's does not slow down where the result is nearly 0."""
    torch.from_numpy(x).exp_()
    return x
