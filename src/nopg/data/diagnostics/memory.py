"""Does the past explain what state and action do not: a delay, a hidden state?

If the state tells all, no past explains what a Gaussian process of the present calls noise. On rows
held out it is regressed on one past action at a time (a delay), and on all of the last k steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nopg.data.diagnostics.checks import Diagnostic, diagnostic
from nopg.data.diagnostics.residuals import Residuals, Sequences, residuals
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray, counted
from nopg.threads import side_by_side

_LONGEST = 16  # most steps looked back; a quarter of an episode if that is less
_LEAST_NOISE = 0.002  # share of variance below which nothing is to be explained
_LEAST_SHARE, _LEAST_T, _PARTS = 0.1, 2.5, 12  # of noise, its t value, over parts
_LEAST_GAIN = 0.005  # of a step's variance, from which on a longer state pays
_ALIKE = 0.9  # share of what all the past explains from which on it is a delay
_WORSE = 1.1  # what fewer steps may leave, over the best


@dataclass(frozen=True)
class Memory:
    """What the past explains of each step beyond the present state and action."""

    action_steps: int  # steps after which an action acts; 0 if it acts at once
    observation_steps: int  # past steps that stand in for what is hidden; or 0
    explained: float  # share that the past explains of what is left, held out
    sentence: str  # the same in words
    is_tested: bool = True  # false for rows without a past

    @property
    def history(self) -> int:
        """Past steps that a policy should see."""
        return max(self.action_steps, self.observation_steps)


_NOTHING = Memory(0, 0, 0.0, "State and action explain what can be explained.")


@side_by_side()  # threads that share small products take ten times as long, and round otherwise
def find_memory(table: TransitionTable) -> Memory:
    """Test whether actions act late or states hide something, in rows of episodes."""
    sequences = Sequences.of(table)
    lengths = np.bincount(sequences.stretches)[sequences.stretches]  # of each row's
    if (longest := min(_LONGEST, int(np.median(lengths)) // 4)) < 1:
        why = "without episodes" if table.episodes is None else "in so short episodes"
        sentence = f"Delays and hidden states cannot be seen in rows {why}."
        return Memory(0, 0, 0.0, sentence, is_tested=False)
    found = [
        _look_back(left, sequences, longest, table.observation_names[left.column])
        for left in residuals(sequences, longest, _LEAST_NOISE)
    ]
    late = max(found, key=lambda memory: memory.action_steps, default=_NOTHING)
    hidden = max(found, key=lambda memory: memory.observation_steps, default=_NOTHING)
    if not (claims := [memory for memory in dict.fromkeys((late, hidden)) if memory.history]):
        return max(found, key=lambda memory: memory.explained, default=_NOTHING)
    explained = max(memory.explained for memory in claims)
    said = " ".join(memory.sentence for memory in claims)
    return Memory(late.action_steps, hidden.observation_steps, explained, said)


def memory_diagnostics(table: TransitionTable) -> Iterator[Diagnostic]:
    """What `find_memory` found, and what to do about it."""
    memory = find_memory(table)
    found, k = memory.sentence, memory.history
    if not memory.is_tested:
        yield diagnostic("untested_past", found=found)
    elif k:
        name = "delay" if memory.action_steps else "hidden_state"
        yield diagnostic(name, found=found, k=k, steps=counted(k, "step"))
    elif memory.explained:
        yield diagnostic("sensor_noise", found=found)


def _look_back(left: Residuals, sequences: Sequences, longest: int, name: str) -> Memory:
    """What the past explains of one column."""
    present = sequences.states[left.rows], sequences.actions[left.rows]
    without = min(left.left(*present), left.errors**2, key=np.mean)
    past: list[FloatArray] = []
    by_length = []
    for lag in range(1, longest + 1):
        past += [sequences.states[left.rows - lag], sequences.actions[left.rows - lag]]
        by_length.append(left.left(*present, *past))
    leftover = np.array([errors.mean() for errors in by_length])  # (longest,)
    best = int(leftover.argmin())
    gain = float(without.mean() - leftover[best])
    share = gain / without.mean()
    if gain < _LEAST_GAIN or share < _LEAST_SHARE or _t_value(without - by_length[best]) < _LEAST_T:
        return _NOTHING
    steps = int(np.argmax(leftover <= _WORSE * leftover[best])) + 1
    of = f"of what state and action leave of the change in {name}."
    delays, of_actions = _delays(left, sequences, longest, present, without)
    # Where a shorter past is enough, an old action only stands for what it led to.
    if delays and of_actions >= _ALIKE * share and steps >= max(delays) - 1:
        ago = counted(max(delays), "step")
        said = f"Actions act late: the one {ago} before explains {of_actions:.0%} {of}"
        return Memory(max(delays), 0, of_actions, said)
    if share <= 0.5 and _is_alternating(left):
        said = "alternates from step to step, as noise of a sensor does"
        return Memory(0, 0, share, f"{share:.0%} of the noise in {name} {said}.")
    share = float(1.0 - leftover[steps - 1] / without.mean())
    last = "step explains" if steps == 1 else f"{steps} steps explain"
    said = f"The state does not tell all: the last {last} {share:.0%} {of}"
    return Memory(0, steps, share, said)


def _delays(
    left: Residuals, log: Sequences, most: int, present: tuple[FloatArray, ...], without: FloatArray
) -> tuple[list[int], float]:
    """The lag of each action that acts late, and what these explain together."""
    lags = range(1, most + 1)
    chosen: list[int] = []
    columns: list[FloatArray] = []
    of_actions = 0.0
    # One action after the other, so that two can have delays of their own.
    for action in range(log.actions.shape[1]):
        trials = [log.actions[left.rows - lag, action, None] for lag in lags]
        errors = [left.left(*present, *columns, one).mean() for one in trials]
        if (share := float(1.0 - min(errors) / without.mean())) > of_actions + 0.5 * _LEAST_SHARE:
            of_actions = share
            chosen.append(lags[int(np.argmin(errors))])
            columns.append(trials[int(np.argmin(errors))])
    return chosen, of_actions


def _t_value(gains: FloatArray) -> float:
    """The mean gain over its standard error, from parts of the log as units."""
    means = np.array([part.mean() for part in np.array_split(gains, _PARTS)])
    spread = means.std(ddof=1) / len(means) ** 0.5
    return float(means.mean() / spread) if spread > 0 else 0.0


def _is_alternating(left: Residuals) -> bool:
    """Whether errors change sign from row to row: s' - s has a sensor's noise twice."""
    follows = np.diff(left.rows) == 1
    before, after = left.errors[:-1][follows], left.errors[1:][follows]
    return len(after) > 30 and float(np.corrcoef(before, after)[0, 1]) < -0.25
