"""The training of one prepared model, which can be stopped and taken up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from nopg.algorithms.nopg.budget import out_of_memory
from nopg.algorithms.nopg.fused import ascend_together, is_fusible
from nopg.algorithms.nopg.loop import run
from nopg.algorithms.nopg.states import AscentState, TrainingState
from nopg.errors import ConfigError
from nopg.fitted.history import History, Update
from nopg.randomness import Seed

if TYPE_CHECKING:
    from nopg.algorithms.nopg.nopg import NOPG


class Training:
    """Updates of a model's policy, in place.

    Args:
        model: A prepared model; see `NOPG.prepare`.
        n_updates: Updates in all, those before `resume` included.
        resume: Where an earlier training of the same data and settings stood; this
            one goes on to the same bits.

    Raises:
        ConfigError: If `resume` is of another model, or the fused GPU path, which
            keeps no state, would have to go on from it.
    """

    def __init__(
        self, model: NOPG, n_updates: int = 1500, resume: TrainingState | None = None
    ) -> None:
        problem = model.setup.problem
        assert problem is not None
        self._model, self._problem, self._n_updates = model, problem, n_updates
        self._climb = AscentState()
        model.history = History()
        if resume is not None:
            if not self.can_resume:
                raise ConfigError(
                    "Training can be taken up again on the plain path only, this model "
                    'takes the fused one; train it anew, or with dtype="float64".'
                )
            self._restore(resume)

    @property
    def history(self) -> History:
        """The updates so far, those before `resume` included."""
        assert self._model.history is not None
        return self._model.history

    @property
    def can_resume(self) -> bool:
        """Whether `state` exists: the fused GPU path keeps its own in graphs."""
        return not is_fusible(self._problem, self._model.policy)

    def run(
        self,
        *,
        evaluators: Mapping[str, Callable[[NOPG], float]] | None = None,
        evaluate_every: int = 100,
        callback: Callable[[NOPG, Update], Any] | None = None,
        patience: int | None = None,
        progress: bool = True,
    ) -> History:
        """Train to the end; the arguments are those of `NOPG.fit`."""
        model = self._model
        with out_of_memory(model.setup.budget):
            run(
                self._updates(),
                self.history,
                n_updates=self._n_updates,
                evaluators={
                    k: partial(f, model) for k, f in (evaluators or {}).items()
                },
                evaluate_every=evaluate_every,
                callback=None if callback is None else partial(callback, model),
                patience=patience,
                progress=progress,
            )
        return self.history

    def state(self) -> TrainingState:
        """A copy of where training stands; to be called between updates."""
        model = self._model
        return TrainingState(
            policy={k: v.clone() for k, v in model.policy.state_dict().items()},
            ascend=self._climb.to_plain(),
            draws=model.draws.get_state(),
            history=History(list(self.history.updates), self.history.stopped),
        )

    def _restore(self, state: TrainingState) -> None:
        model, n = self._model, len(self._problem.samples.rewards)
        try:
            model.policy.load_state_dict(state.policy)
            like = self._problem.samples.rewards
            self._climb = AscentState.from_plain(state.ascend, like)
            model.draws.set_state(state.draws)
            if self._climb.start is not None and len(self._climb.start[0]) != n:
                raise ValueError(
                    f"q is of {len(self._climb.start[0])} samples, not {n}"
                )
            if len(state.history) != self._climb.step:
                raise ValueError(f"{len(state.history)} updates are not {state.step}")
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                "`resume` must be the state of a training with the same data and "
                f"settings, taking it over failed ({str(error).splitlines()[0]})."
            ) from None
        model.history = History(list(state.history.updates))

    def _updates(self) -> Iterator[Update]:
        """Updates of the policy; each makes what was solved before it stale."""
        model, problem = self._model, self._problem
        draws = Seed(model.config.seed).torch("policy-samples", model.config.device)
        updates = ascend_together(
            problem,
            [model.policy],
            model.config.training,
            self._n_updates,
            [draws],
            [self._climb],
        )
        for (update,) in updates:
            model.forget()
            yield update
