"""Model-based evaluation: what a policy earns and visits in two learned models.

Values are means over rollouts in both, and over drawn gusts where there is noise. How wrong they
may be is asked of models drawn from the posterior, scaled by replay of held-out data, of models
without a part of the data each, and where rows are in no order of models with wider gaps. Out of
support the rewards to come may be any of those seen; where more lies there than an interval may
miss, or a path leaves for good, nothing is known (`docs/sign_off.md`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from nopg.data.dataset import Dataset
from nopg.discount import discount_horizon
from nopg.dynamics.ensemble import fit_ensemble, model_columns
from nopg.dynamics.left_out import gap_models, left_out_models, left_out_share
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.replays import PAIRS
from nopg.dynamics.rollouts import Steps, rollout_blocks, running_probability
from nopg.dynamics.transition_model import ArrayTransitionModel, PredictedStep, TransitionModel
from nopg.evaluation import model_paths
from nopg.evaluation.intervals import Estimate, Spread
from nopg.evaluation.model_paths import NEGLIGIBLE, SHORT, NoisyPaths, known_return, latest
from nopg.evaluation.replay import Replay, replay_held_out, replay_others
from nopg.evaluation.rollouts import Region
from nopg.policies.arrays import Actor, Array
from nopg.randomness import Seed
from nopg.threads import SPARE, ahead, n_workers, parallel_map, side_by_side

N_DRAWS = 8  # models drawn from the posterior of each of the two
FEW_STARTS, FEW_PATHS = 4, 2  # of rollouts in drawn models, and paths of each in noise
MANY_STARTS = 500  # starts that a mean is taken over; of more it is that of a sample
LITTLE = 5e-4  # standard error that does not matter, as a share of what returns can be


class Returns(NamedTuple):
    """Discounted returns from m states, or their mean as one, and what is open."""

    runs: Array  # (m, G), every path, what is out of support counted halfway
    deviations: Array  # (S, m), of drawn models; (S, 1) of their mean over states
    left_out: Array  # (K, m), in models without a part of the data each; or (K, 1)
    gaps: Array  # the same with wider gaps between the rows; none if these have order
    # How far rewards beyond those seen may be off, a last step more or less and what ends pay; of a
    # mean also what sharper ends make of it, and starts that were left out: (3, m), or to (5, 1).
    errors: Array
    unknown: float  # share of the discounted future that is out of support
    runaway: float = 0.0  # share of the paths that leave the data for good

    def reason(self, level: float) -> str:
        """Why nothing is known of the mean, in a sentence; none where something is."""
        return unknown_reason(self.unknown, self.runaway, level)


@dataclass(frozen=True)
class ModelEvaluator:
    """Two transition models of one data set, and what a policy earns in them."""

    data: Dataset
    gamma: float
    seed: Seed  # the policy's; with it the models are those of `nopg.learn`
    given: Sequence[TransitionModel] | None = None  # models, where they are fitted already
    in_gusts: bool = False  # whether paths may leave the data and come back

    @cached_property
    def models(self) -> Sequence[TransitionModel]:
        """The learned models."""
        return self.given or fit_ensemble(self.data, self.seed.numpy("transition-model"))

    @cached_property
    def replay(self) -> Replay:
        """How far such models hold on data that they were not fitted to."""
        return replay_held_out(self.data, self.models[0], self.gamma, self.seed.numpy("replay"))

    def prepare(self) -> None:
        """Make what no policy changes, so that it is there when one is evaluated."""
        _ = [*self.models]  # all wait for the second
        again = partial(getattr, self, "replay")
        replayed = ahead(again) if n_workers() >= SPARE else again
        if self.models[0].noise is None:  # in noise it depends on paths what is asked for
            names = ("_left_out", "_drawn", "_arrays", "_sharper")
            parallel_map(lambda name: [one.compiled for one in getattr(self, name)], names)
        replayed()
        _ = [one.compiled for one in self._gaps]

    def replay_of(self, episodes: Dataset) -> Replay:
        """The same on recordings of the user's, none of which were learned from."""
        rest = (episodes, self.gamma, self.seed.numpy("replay"), self.replay)
        return replay_others(self.models[0], self.data, *rest)

    @property
    def scale(self) -> float:
        """What deviations of drawn models are multiplied by."""
        of_returns = self.replay.return_scale
        return max(1.0, self.replay.scale if np.isnan(of_returns) else of_returns)

    @property
    def least_reward(self) -> float:
        """The lowest there can be; -inf unless half of the rows or more earn the lowest seen.

        A cost of time, or nothing until a goal is reached: no state can be worth less than that.
        """
        seen, _ = self.models[0].rewards
        return self.models[0].reward_limits[0] if np.median(self.data.rewards) == seen else -np.inf

    def values(self, actor: Actor, states: Array) -> Array:
        """Return from each state, (m,), what is not known counted halfway."""
        return np.asarray(self._for(actor, states)._runs(actor, states, None)[0].mean(axis=1))

    def expected_return(self, actor: Actor, starts: Array, level: float) -> Estimate:
        """Mean return from `starts`, (B, d_s), with its interval, (1,) each."""
        found = self.mean_return(actor, starts)
        value, spread = mean_and_spread(found, self.scale)
        noise = np.sqrt(np.square(found.runs.std(axis=1)).mean(keepdims=True))
        return self._estimate(value, noise, spread, found.reason(level), level)

    def value_intervals(self, actor: Actor, states: Array, level: float) -> Estimate:
        """Return from each of the states, (m, d_s), with its interval, (m,) each."""
        asked = self._for(actor, states)
        runs, unknown, blur, _ = asked._runs(actor, states, None)
        deviations, left_out, gaps, errors = asked._deviations(actor, states, None)
        noise = runs.std(axis=1)
        chance = _total(noise / np.sqrt(runs.shape[1]), blur, *errors)
        spread = Spread(deviations, self.scale, chance, left_out, gaps)
        why = unknown_reason(unknown, self._runaway(actor, states, unknown), level)
        return self._estimate(runs.mean(axis=1), noise, spread, why, level)

    @side_by_side()
    def mean_return(
        self, actor: Actor, starts: Array, lengths: Array | None = None, beyond: Array | None = None
    ) -> Returns:
        """Mean return from `starts`, (B, d_s), of `lengths` steps, (B,), if given.

        A step out of support and an end there earn `beyond`, (2,); by default any of those seen.
        """
        asked = self._for(actor, starts)
        some, many = (_spread(len(starts), k) for k in (FEW_STARTS, MANY_STARTS))
        if lengths is None and self.models[0].noise is None:  # every path is the same
            some = some[: 1 if (starts[some] == starts[0]).all() else None]
        few, most = (None if lengths is None else lengths[k] for k in (some, many))
        found = asked._deviations(actor, starts[some], few, beyond)
        runs, unknown, blur, guessed = asked._runs(actor, starts[many], most, beyond)
        drawn, left_out, gaps, errors = (part.mean(axis=1, keepdims=True) for part in found)
        guessed *= len(some) < len(many)  # out of support: the few know of their own guesses alone
        errors = np.concatenate([errors, [[blur.mean()], [guessed]]])
        if len(many) < len(starts):
            errors = np.concatenate([errors, [[runs.mean(axis=1).std() / np.sqrt(len(many))]]])
        runaway = 0.0 if lengths is not None else self._runaway(actor, starts[many], unknown)
        return Returns(runs, drawn, left_out, gaps, errors, unknown, runaway)

    def visit_probability(
        self, actor: Actor, starts: Array, inside: Region, horizon: int | None, level: float
    ) -> Estimate:
        """Probability of entering a region, or the task's end, with its interval.

        Without a horizon an entry at step t is weighed by gamma^t.
        """
        last = discount_horizon(self.gamma, NEGLIGIBLE) if horizon is None else latest(horizon)

        def ask(model: Steps, paths: NoisyPaths) -> tuple[Array, Array, Array]:
            return model_paths.entry_probability(model, actor, paths, inside, horizon, self.gamma)

        paths = NoisyPaths.of(self.models[0], starts, last)
        found = np.array([ask(model, paths) for model in self._arrays])  # (2, 3, P)
        certain, expected, possible = paths.means(found).mean(axis=2).T
        noise = found[:, 1].mean(axis=0).reshape(-1, paths.group).std(axis=1)  # of each start
        error = np.array([np.sqrt(np.square(noise).sum() / paths.group) / len(starts)])
        few = starts[_spread(len(starts), FEW_STARTS)]
        some = NoisyPaths.of(self.models[0], few, last, FEW_PATHS)
        centre = np.mean([ask(model, some)[1] for model in self._arrays])
        drawn = self._of_drawn(lambda model, many: ask(model, many)[1], some)
        deviations = drawn.mean(axis=1, keepdims=True) - centre
        left_out = np.array([[ask(model, some)[1].mean()] for model in self._left_out])
        spread = Spread(deviations, self.scale, error, self._as_of_all(left_out))
        value = expected.mean(keepdims=True)
        low, high = spread.ends(value, level)
        low = np.clip(low - value + certain.min(), 0.0, value)
        high = np.clip(high - value + possible.max(), value, 1.0)
        return Estimate(value, low, high, level, "model", None, spread.std)

    def rollouts(self, actor: Actor, starts: Array, n_steps: int) -> tuple[Array, Array]:
        """Predicted states after each of T steps, (T, P, d_s), and weights, (T, P).

        P counts every start (of many a part) in every model, and every path from it where the
        system is noisy. Weights are probabilities of still running and in support, over P.
        """
        states, weights = [], []
        starts = starts[_spread(len(starts), MANY_STARTS)]
        paths = NoisyPaths.of(self.models[0], starts, n_steps)
        rest = (paths.starts, n_steps, paths.draws)
        for model in self._arrays:
            blocks = zip(*rollout_blocks(model, actor, *rest), strict=True)
            _, _, *fields = map(np.concatenate, blocks)
            outcomes = PredictedStep(*fields)
            states.append(outcomes.next_states)
            weights.append(running_probability(outcomes)[1:])
        running = np.concatenate(weights, axis=1)
        return np.concatenate(states, axis=1), running / running.shape[1]

    def _worth(self, beyond: Array | None) -> Array:
        """What a step out of support earns, and an end there, in each drawn model, (S, 2)."""
        low, high = self.models[0].part_limits if beyond is None else (beyond, beyond)
        return np.asarray(high + (low - high) * (np.arange(N_DRAWS)[:, None] + 0.5) / N_DRAWS)

    def _runs(
        self, actor: Actor, states: Array, lengths: Array | None, beyond: Array | None = None
    ) -> tuple[Array, float, Array, float]:
        """Returns of every path from m states, (m, G), and the share out of support."""
        # And what other ends, which the data allow as well, make of the returns, (m,); and how far
        # what is guessed out of support may be off, on average.
        paths, until = self._paths(states, lengths, NEGLIGIBLE)

        def returns(models: tuple[ArrayTransitionModel, ...]) -> tuple[Array, Array]:
            rest = (actor, paths, self.gamma, NEGLIGIBLE, until)
            found = parallel_map(lambda model: known_return(model, *rest), models)
            earned, unknown = (np.mean(part, axis=0) for part in zip(*found, strict=True))
            return earned + self._worth(beyond).mean(axis=0) @ unknown, unknown  # (m G,)

        every, unknown = returns(self._arrays)
        other = returns(self._sharper)[0] if self._sharper else every
        total = 1.0 if until is None else 1.0 - float((self.gamma**until).mean())
        share = float(unknown[0].mean()) * (1.0 - self.gamma) / total
        guessed = float(self._worth(beyond).std(axis=0) @ unknown.mean(axis=1))
        return every.reshape(len(states), -1), share, paths.means(other - every), guessed

    def _runaway(self, actor: Actor, states: Array, unknown: float) -> float:
        """Share of the paths that leave the data for good, if any leave them at all."""
        if unknown == 0.0:
            return 0.0
        paths, _ = self._paths(states, None, NEGLIGIBLE)
        share = model_paths.runaway_share
        return float(np.mean([share(one, actor, paths, self.gamma) for one in self.models]))

    def _paths(
        self, states: Array, lengths: Array | None, negligible: float, group: int = 0
    ) -> tuple[NoisyPaths, Array | None]:
        """Paths from m states, and how many steps of each count, if not all."""
        last = discount_horizon(self.gamma, negligible) if lengths is None else int(lengths.max())
        paths = NoisyPaths.of(self.models[0], states, last, group)
        if self.in_gusts:
            paths = replace(paths, home=self.models[0].bounds)
        return paths, None if lengths is None else np.repeat(lengths, paths.group)

    def _deviations(
        self, actor: Actor, states: Array, lengths: Array | None, beyond: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Returns in drawn models less those in the two, (S, m)."""
        # And those in models without a part of the data each, (K, m), and with gaps. And what else
        # they may be off by, (3, m): rewards beyond those seen, a last step more or less, and what
        # ends pay. What is out of support earns one level of reward in each drawn model.
        paths, until = self._paths(states, lengths, SHORT, FEW_PATHS)

        def ask(model: Steps, some: NoisyPaths, until: Array | None) -> Any:
            return known_return(model, actor, some, self.gamma, SHORT, until)

        levels = self._worth(beyond)
        middle = levels.mean(axis=0)
        found = [ask(model, paths, until) for model in self._arrays]
        value = np.mean([earned + middle @ unknown for earned, unknown in found], 0)

        def earned_in(model: Steps, many: NoisyPaths) -> Array:
            earned, unknown = ask(model, many, None if until is None else np.tile(until, N_DRAWS))
            guessed = np.repeat(levels.T, len(value), axis=1) * unknown
            return np.asarray(earned + guessed.sum(axis=0))

        drawn = self._of_drawn(earned_in, paths)  # (S, m G)

        def earned_in_each(models: list[ArrayTransitionModel]) -> Array:
            found = parallel_map(lambda model: ask(model, paths, until), models)
            means = [paths.means(earned + middle @ left) for earned, left in found]
            return np.array(means).reshape(-1, len(states))

        rest = (paths, self.models[0].reward_limits, self.gamma, self._ends, until)
        others = model_paths.reward_beyond(self._arrays[0], actor, *rest)
        errors = np.array([paths.means(part) for part in others])
        # Of what a regression exceeds the rewards seen by, half; a function is right there, too.
        errors[0] = 0.5 * errors[0] if self.models[0].known_reward is None else 0.0
        without = self._as_of_all(earned_in_each(self._left_out))
        return paths.means(drawn - value), without, earned_in_each(self._gaps), errors

    def _of_drawn(self, ask: Callable[[Steps, NoisyPaths], Array], paths: NoisyPaths) -> Array:
        """Answers of every drawn model on the same paths, (S, P)."""
        # How large the noise is was learned from n errors, to one in sqrt(2 n).
        n, d_s = len(self.data), paths.starts.shape[1]
        normal = self.seed.numpy("noise-levels").standard_normal((N_DRAWS, d_s))
        many = paths.repeated(1.0 + normal / np.sqrt(2.0 * n), self.models[0].noise)
        found = parallel_map(lambda drawn: ask(drawn, many), self._drawn)
        return np.concatenate([one.reshape(N_DRAWS, -1) for one in found])

    def _estimate(
        self, value: Array, noise: Array, spread: Spread, unknown: str, level: float
    ) -> Estimate:
        """Ends within what is possible; none where nothing is known, for that reason."""
        least, most = self.models[0].value_limits(self.gamma)
        spread = replace(spread, errors=np.hypot(spread.errors, LITTLE * (most - least)))
        low, high = spread.ends(value, level)
        low = np.maximum(low, np.minimum(least, value))
        high = np.minimum(high, np.maximum(most, value))
        estimate = Estimate(value, low, high, level, "model", noise, spread.std)
        if unknown:
            return estimate.as_unknown(unknown)
        if ((high - low) >= most - least).any():
            why = "The learned models leave the return as open as the rewards do. "
            return estimate.as_unknown((why + self.replay.reason).strip())
        return estimate

    @cached_property
    def _open(self) -> Sequence[TransitionModel]:
        """The models, without bounds where gusts may carry paths out and back."""
        if not self.in_gusts:
            return self.models
        return tuple(replace(one, bounds=one.bounds.opened()) for one in self.models)

    @cached_property
    def _opened(self) -> "ModelEvaluator":
        return replace(self, given=self.models, in_gusts=True)

    @cached_property
    def _breaks(self) -> bool:
        return bool(self.models[0].bounds.are_beyond(model_columns(self.data)[3]).any())

    def _for(self, actor: Actor, states: Array) -> "ModelEvaluator":
        """Who answers: in noise, where paths would stay if it were calm, one without bounds."""
        # What is largest in a noisy log is a matter of luck: sooner or later a gust carries a path
        # beyond it, and back. Up to half a range further out the posterior says what it knows;
        # beyond that nothing is known while a path is there. Where the law of motion breaks at the
        # bounds, or paths leave them by themselves, what follows is unknown for good.
        if self.in_gusts or self.models[0].noise is None or self._breaks:
            return self
        calm = NoisyPaths(states, None, 1)
        _, left = known_return(self.models[0].arrays, actor, calm, self.gamma, SHORT)
        return self._opened if left[0].max() * (1.0 - self.gamma) < LITTLE else self

    @cached_property
    def _arrays(self) -> tuple[ArrayTransitionModel, ...]:
        return tuple(ArrayTransitionModel(model) for model in self._open)

    @cached_property
    def _sharper(self) -> tuple[ArrayTransitionModel, ...]:
        """The models with less blur about where and how tasks end; none without ends."""
        # A termination model blurs over as much as data are apart, and believes in no limit that
        # one or two ends suggest; the difference shows what that does to a return.
        pairs = [(one, e.sharper()) for one in self._open if (e := one.termination) is not None]
        return tuple(ArrayTransitionModel(replace(one, termination=e)) for one, e in pairs)

    def _as_of_all(self, left_out: Array) -> Array:
        """Answers without parts, (K, m), as if all rows had been in these."""
        middle = np.median(left_out, axis=0)
        return np.asarray(middle + left_out_share(len(self.data)) * (left_out - middle))

    @cached_property
    def _left_out(self) -> list[ArrayTransitionModel]:
        models = left_out_models(self._open[0], self.data, self.seed.numpy("left-out"))
        return [ArrayTransitionModel(model) for model in models]

    @cached_property
    def _ends(self) -> tuple[KDTree, Array, Array]:
        *_, rewards, after, ended = (x.numpy() for x in model_columns(self.data))
        unit, rows = np.maximum(after.std(axis=0), 1e-12), ended.nonzero()[0]
        return KDTree(after[rows] / unit), unit, rewards[rows]

    @cached_property
    def _gaps(self) -> list[ArrayTransitionModel]:
        # What noise leaves open of a function is more than a gap hides.
        if self.models[0].noise is not None or self.replay.kind != PAIRS:
            return []
        models = gap_models(self.models[0], self.data, self.seed.numpy("gaps"))
        return [ArrayTransitionModel(model) for model in models]

    @cached_property
    def _drawn(self) -> tuple[ArrayTransitionModel, ...]:
        rest = (model_columns(self.data), N_DRAWS, self.seed.numpy("drawn-models"))
        return tuple(drawn_models(model, *rest) for model in self._open)


def mean_and_spread(found: Returns, scale: float) -> tuple[Array, Spread]:
    """The mean over all states, (1,), and how far it may be off."""
    m, group = found.runs.shape
    errors = _total(np.sqrt(np.square(found.runs.std(axis=1)).sum() / group) / m, *found.errors)
    spread = Spread(found.deviations, scale, errors, found.left_out, found.gaps)
    return found.runs.mean(keepdims=True)[0], spread


def _total(*errors: Array) -> Array:
    """Of independent errors."""
    return np.asarray(np.sqrt(sum(np.square(error) for error in errors)))


def unknown_reason(share: float, runaway: float, level: float) -> str:
    """Why nothing is known of a return; none where its interval may be told."""
    if share > 1.0 - level:
        return (
            f"{share:.0%} of what would be earned lies where the log has no data; record "
            "some near the path that is taken."
        )
    if runaway > 0.0:
        return (
            f"One run in {max(1.0 / runaway, 1.0):.0f} leaves the data for good, and what that "
            "costs the log does not tell; record some further out."
        )
    return ""


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """At most so many of so many starts, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)
