"""Training: updates of one policy with progress, evaluators, stopping and resuming."""

import copy
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tqdm.auto import tqdm

from nopg.algorithms.nopg.ascent import AscentState, TrainingState, ascend_together, is_fusible
from nopg.algorithms.nopg.budget import Budget, out_of_memory
from nopg.algorithms.nopg.config import NOPGConfig, require_count
from nopg.algorithms.nopg.starts import Ground, path_returns
from nopg.errors import ConfigError
from nopg.fitted.history import History, Update
from nopg.fitted.policy import FittedPolicy
from nopg.policies.families import Policy
from nopg.randomness import Seed

logger = logging.getLogger(__name__)


class Training:
    """Updates of a policy, in place; `NOPG.training` makes one."""

    def __init__(
        self,
        fitted: FittedPolicy,  # its kernel rows are laid out
        config: NOPGConfig,
        n_updates: int,  # in all, those before `resume` included
        # Where an earlier training of the same stood; this one goes on to the same bits.
        resume: TrainingState | None = None,
        budget: Budget | None = None,  # for the sentence when memory ends
        ground: Ground | None = None,  # what the start was searched on
    ) -> None:
        self._fitted, self._config, self._n_updates = fitted, config, n_updates
        assert fitted.problem is not None  # laid out by `NOPG.prepare`
        self.problem, self._budget, self._ground = fitted.problem, budget, ground
        if ground is not None and ground.is_noisy:
            self.problem = fitted.problem.of_samples(ground.samples)
        self._ascent = AscentState()
        # Before a resumed state is taken over: what the first update started from.
        self._first = copy.deepcopy(fitted.policy)
        self.history = fitted.history = History()
        if resume is not None:
            if not self.can_resume:
                raise ConfigError(
                    "Training can be resumed on the plain path only, this policy "
                    'takes the fused one; train it anew, or with dtype="float64".'
                )
            self._restore(resume)

    @property
    def can_resume(self) -> bool:
        """Whether `state` exists: the fused GPU path keeps its own in graphs."""
        return not is_fusible(self.problem, self._fitted.policy)

    def run(
        self,
        *,
        evaluators: Mapping[str, Callable[[FittedPolicy], float]] | None = None,
        evaluate_every: int = 100,
        callback: Callable[[FittedPolicy, Update], Any] | None = None,
        progress: bool = True,
    ) -> History:
        """Train to the end; the arguments are those of `NOPG.fit`.

        Ctrl-C means "enough": the policy stays, `history.stopped` says so. A second is Python's.
        """
        require_count("n_updates", self._n_updates)
        require_count("evaluate_every", evaluate_every)
        history, fitted = self.history, self._fitted
        how = {"disable": not progress, "unit": "update", "desc": "NOPG"}
        bar = tqdm(total=self._n_updates, initial=len(history.updates), **how)
        try:
            for update in self._updates():
                is_last = update.step == self._n_updates
                if evaluators and (is_last or update.step % evaluate_every == 0):
                    results = {k: float(f(fitted)) for k, f in evaluators.items()}
                    update = replace(update, evaluations=results)
                history.updates.append(update)
                done = reversed(history.updates)
                shown = next((u.evaluations for u in done if u.evaluations), {})
                text = "".join(f", {name}={result:.4g}" for name, result in shown.items())
                bar.set_postfix_str(f"J={update.objective:.4g}{text}", refresh=False)
                bar.update()
                if callback is not None and callback(fitted, update) is False:
                    history.stopped = "callback"
                    break
            if history.stopped == "finished":  # what goes on later is left as it is
                keep_better(fitted, self._first, self._ground)
        except KeyboardInterrupt:
            history.stopped = "interrupted"
            logger.warning("Interrupted after %d updates; policy kept.", len(history))
        finally:
            bar.close()
        return history

    def state(self) -> TrainingState:
        """A copy of where training stands; to be called between updates."""
        fitted = self._fitted
        return TrainingState(
            policy={k: v.clone() for k, v in fitted.policy.state_dict().items()},
            ascent=self._ascent.to_plain(),
            draws=fitted.draws.get_state(),
            history=History(list(self.history.updates), self.history.stopped),
        )

    def _restore(self, state: TrainingState) -> None:
        fitted, like = self._fitted, self.problem.samples.rewards
        try:
            fitted.policy.load_state_dict(state.policy)
            self._ascent = AscentState.from_plain(state.ascent, like)
            fitted.draws.set_state(state.draws)
            if len(state.history) != self._ascent.step:
                raise ValueError(f"{len(state.history)} updates are not {state.step}")
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                "`resume` must be the state of a training with the same data and "
                f"settings, taking it over failed ({str(error).splitlines()[0]})."
            ) from None
        self.history = fitted.history = History(list(state.history.updates))

    def _updates(self) -> Iterator[Update]:
        """Updates of the policy; each makes what was solved before it stale."""
        fitted, config = self._fitted, self._config
        draws = Seed(config.seed).torch("policy-samples", config.device)
        given = (self.problem, [fitted.policy], config, self._n_updates, [draws])
        with out_of_memory(self._budget):
            for (update,) in ascend_together(*given, [self._ascent]):
                fitted.policy_changed()
                yield update


def keep_better(fitted: FittedPolicy, first: Policy, ground: Ground | None) -> None:
    """Go back to the first policy if the ascent has left it for something worse."""
    # J cannot tell, it rose: the mean path can.
    if ground is None:
        return
    before, after = path_returns([first, fitted.policy], fitted, ground)
    if before > after:
        fitted.policy.load_state_dict(first.state_dict())
        fitted.policy_changed()
        logger.info("The start is kept: %.4g against %.4g.", before, after)


def announce(text: str) -> None:
    """Show a few lines where the progress bar will be."""
    tqdm.write(text, file=sys.stderr)
