"""The training loop around the updates: progress, evaluators, callback, stopping."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tqdm.auto import tqdm

from nopg.errors import ConfigError
from nopg.fitted.history import History, Update

logger = logging.getLogger(__name__)

FLAT = 1e-4
"""With `patience`: a rise of J below this share of its range so far counts as none."""


def run(
    updates: Iterator[Update],
    history: History,
    *,
    n_updates: int,
    evaluators: Mapping[str, Callable[[], float]],
    evaluate_every: int,
    callback: Callable[[Update], Any] | None,
    patience: int | None,
    progress: bool,
) -> None:
    """Draw updates until they end or something stops them; record each one.

    `history` may hold the updates of an earlier training that goes on here.

    Ctrl-C is taken as "enough": the policy keeps its present parameters and
    `history.stopped` says so. A second Ctrl-C is Python's own.
    """
    for name, count in (("n_updates", n_updates), ("evaluate_every", evaluate_every)):
        if not isinstance(count, int) or count < 1:
            raise ConfigError(f"`{name}` must be a whole number from 1, got {count!r}.")
    bar = tqdm(
        total=n_updates,
        initial=len(history),
        disable=not progress,
        unit="update",
        desc="NOPG",
    )
    try:
        # A training that is taken up again may have been at its end already.
        if patience is not None and _is_flat(history, patience):
            history.stopped = "converged"
            return
        for update in updates:
            is_due = update.step % evaluate_every == 0 or update.step == n_updates
            if evaluators and is_due:
                results = {name: float(f()) for name, f in evaluators.items()}
                update = update.with_evaluations(results)
            history.updates.append(update)
            _show(bar, history)
            if callback is not None and callback(update) is False:
                history.stopped = "callback"
                return
            if patience is not None and _is_flat(history, patience):
                history.stopped = "converged"
                return
    except KeyboardInterrupt:
        history.stopped = "interrupted"
        logger.warning("Interrupted after %d updates; policy kept.", len(history))
    finally:
        bar.close()


def announce(text: str) -> None:
    """Show a few lines where the progress bar will be."""
    tqdm.write(text, file=sys.stderr)


def _show(bar: Any, history: History) -> None:
    update = history.updates[-1]
    text = f"J={update.objective:.4g}"
    evaluated = next((u for u in reversed(history.updates) if u.evaluations), None)
    if evaluated is not None:
        results = evaluated.evaluations.items()
        text += "".join(f", {name}={result:.4g}" for name, result in results)
    bar.set_postfix_str(text, refresh=False)
    bar.update()


def _is_flat(history: History, patience: int) -> bool:
    objectives = history["objective"]
    if len(objectives) <= patience:
        return False
    before, after = max(objectives[:-patience]), max(objectives[-patience:])
    # Relative to |J| too: with tiny steps even noise is a large part of the range.
    scale = max(max(objectives) - min(objectives), 1e-3 * abs(after))
    return bool(after - before <= FLAT * scale)
