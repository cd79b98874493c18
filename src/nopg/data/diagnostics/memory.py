"""Does the past explain what state and action do not: a delay, a hidden state?

A Gaussian process predicts each step from the present on rows held out. What it
must call noise is then regressed on the past, again on rows held out: on one past
action at a time for a delay, on all of the last k steps for a hidden state. If the
state tells all, no past can explain noise, however feedback ties past and present
together; and where data are few the process speaks of lack of data, not of noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nopg.data.diagnostics.checks import Diagnostic
from nopg.data.diagnostics.residuals import Residuals, Sequences, residuals
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray, counted

_LONGEST = 16
"""Most steps looked back; a quarter of an episode if that is less."""
_LEAST_NOISE = 0.002
"""Share of a step's variance below which there is nothing to explain."""
_LEAST_SHARE, _LEAST_T = 0.1, 3.0
"""What the past must explain of the noise, and its t value over the episodes."""
_ALIKE = 0.9
"""One past action that explains this much of what all the past does is a delay."""
_WORSE = 1.1
"""Fewer steps are enough if they leave at most this much more than the best."""


@dataclass(frozen=True)
class Memory:
    """What the past explains of each step beyond the present state and action."""

    action_steps: int
    """Steps after which an action acts; 0 if it acts at once."""
    observation_steps: int
    """Past steps that stand in for what the state does not show; 0 if none do."""
    explained: float
    """Share of what state and action leave that the past explains, held out."""
    sentence: str
    """The same in words."""
    is_tested: bool = True
    """False where rows have no past: no episodes, or too short ones."""

    @property
    def history(self) -> int:
        """Past steps that a policy should see."""
        return max(self.action_steps, self.observation_steps)


def find_memory(table: TransitionTable, seed: int = 0) -> Memory:
    """Test whether actions act late or states hide something.

    Args:
        table: The transitions, in episodes.
        seed: Draws the rows that are looked at, if there are many.
    """
    if table.episodes is None:
        return _untested("the rows have no episodes")
    sequences = Sequences.of(table)
    typical = int(np.median(sequences.lengths[sequences.stretches]))
    longest = min(_LONGEST, typical // 4)
    if longest < 1:
        return _untested("the episodes are shorter than four steps")
    generator = np.random.default_rng(seed)
    found = [
        _look_back(left, sequences, longest, table.observation_names[left.column])
        for left in residuals(sequences, longest, _LEAST_NOISE, generator)
    ]
    return _together(found)


def memory_diagnostics(table: TransitionTable) -> Iterator[Diagnostic]:
    """What `find_memory` found, and what to do about it."""
    memory = find_memory(table)
    if not memory.is_tested:
        yield Diagnostic(
            "untested_past",
            "note",
            memory.sentence,
            "If the system has any, nobody will know; record uninterrupted episodes.",
        )
    elif memory.history:
        k = memory.history
        yield Diagnostic(
            "delay" if memory.action_steps else "hidden_state",
            "warning",
            memory.sentence,
            "A policy that sees the present alone cannot know it, and what is learnt "
            f"loses return in silence; nopg.learn(data, history={k}) shows it the last "
            f"{counted(k, 'step')}, data.with_history({k}) makes the columns.",
        )
    elif memory.explained:
        yield Diagnostic(
            "sensor_noise",
            "note",
            memory.sentence,
            "Values are learnt as measured, errors included; a filter before the log "
            "and before the policy is the remedy, more rows are a help.",
        )


def _together(found: list[Memory]) -> Memory:
    """The longest delay and the longest hidden state of all columns."""
    late = max(found, key=lambda memory: memory.action_steps, default=_nothing())
    hidden = max(found, key=lambda memory: memory.observation_steps, default=late)
    claims = [late] if late.action_steps else []
    claims += [hidden] if hidden.observation_steps else []
    if not claims:
        return max(found, key=lambda memory: memory.explained, default=_nothing())
    return Memory(
        late.action_steps,
        hidden.observation_steps,
        max(memory.explained for memory in claims),
        " ".join(memory.sentence for memory in claims),
    )


def _untested(why: str) -> Memory:
    sentence = f"Delays and hidden states cannot be looked for: {why}."
    return Memory(0, 0, 0.0, sentence, is_tested=False)


def _nothing() -> Memory:
    return _none("State and action explain what can be explained of the steps.")


def _none(sentence: str, explained: float = 0.0) -> Memory:
    return Memory(0, 0, explained, sentence)


def _look_back(
    left: Residuals, sequences: Sequences, longest: int, name: str
) -> Memory:
    """What the past explains of one column."""
    present = sequences.states[left.rows], sequences.actions[left.rows]
    without = min(left.left(*present), left.errors**2, key=np.mean)
    past: list[FloatArray] = []
    by_length = []
    for lag in range(1, longest + 1):
        rows = left.rows - lag
        past += [sequences.states[rows], sequences.actions[rows]]
        by_length.append(left.left(*present, *past))
    leftover = np.array([errors.mean() for errors in by_length])  # (longest,)
    best = int(leftover.argmin())
    share = float(1.0 - leftover[best] / without.mean())
    if share < _LEAST_SHARE or _t_value(without - by_length[best], left) < _LEAST_T:
        return _nothing()
    steps = int(np.argmax(leftover <= _WORSE * leftover[best])) + 1
    delays, of_actions = _delays(left, sequences, longest, present, without)
    # Where a shorter past is enough, an old action only stands for what it led to.
    if delays and of_actions >= _ALIKE * share and steps >= max(delays) - 1:
        return _delayed(max(delays), of_actions, name)
    if share <= 0.5 and _is_alternating(left):
        return _none(
            f"The noise in {name} alternates from step to step, as noise of a sensor "
            f"does; past observations explain {share:.0%} of it.",
            share,
        )
    share = 1.0 - leftover[steps - 1] / without.mean()
    last = "step explains" if steps == 1 else f"{steps} steps explain"
    return Memory(
        0,
        steps,
        float(share),
        f"The state does not tell all: the last {last} {share:.0%} of what state and "
        f"action leave of the change in {name}.",
    )


def _delays(
    left: Residuals,
    sequences: Sequences,
    longest: int,
    present: tuple[FloatArray, FloatArray],
    without: FloatArray,
) -> tuple[list[int], float]:
    """The lag of each action that acts late, and what these explain together."""
    lags = range(1, longest + 1)
    chosen: list[int] = []
    columns: list[FloatArray] = []
    of_actions = 0.0
    # One action after the other, so that two can have delays of their own.
    for action in range(sequences.actions.shape[1]):
        trials = [sequences.actions[left.rows - lag, action, None] for lag in lags]
        errors = [left.left(*present, *columns, one).mean() for one in trials]
        share = 1.0 - min(errors) / without.mean()
        if share > of_actions + 0.5 * _LEAST_SHARE:
            of_actions = share
            chosen.append(lags[int(np.argmin(errors))])
            columns.append(trials[int(np.argmin(errors))])
    return chosen, of_actions


def _delayed(steps: int, share: float, name: str) -> Memory:
    return Memory(
        steps,
        0,
        float(share),
        f"Actions act late: the one {counted(steps, 'step')} before explains "
        f"{share:.0%} of what state and action leave of the change in {name}.",
    )


def _t_value(gains: FloatArray, left: Residuals) -> float:
    """The mean gain over the deviation of the folds' means."""
    means = np.array(
        [gains[left.folds == fold].mean() for fold in np.unique(left.folds)]
    )
    spread = means.std(ddof=1) / len(means) ** 0.5
    return float(means.mean() / spread) if spread > 0 else 0.0


def _is_alternating(left: Residuals) -> bool:
    """Whether errors change sign from row to row: s' - s has a sensor's noise twice."""
    follows = np.diff(left.rows) == 1
    before, after = left.errors[:-1][follows], left.errors[1:][follows]
    return len(after) > 30 and float(np.corrcoef(before, after)[0, 1]) < -0.25
