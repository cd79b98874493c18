"""What stands out in a log: jumps, repeats, outliers, actions never tried, rewards."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Space

from nopg.data.coverage import FAR, without_far
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray, IntArray, counted


@dataclass(frozen=True)
class Diagnostic:
    """One thing about the data that matters for learning."""

    name: str  # a short fixed name, for programs
    what: str  # what was found, with its numbers
    meaning: str  # what it means for learning and what to do
    level: Literal["note", "warning"] = "warning"  # a warning asks for a decision


@cache
def _sentences() -> dict[str, Any]:
    text = files("nopg.data.diagnostics").joinpath("sentences.toml")
    return tomllib.loads(text.read_text(encoding="utf-8"))


def diagnostic(name: str, is_note: bool | None = None, /, **found: Any) -> Diagnostic:
    """The sentences of that name with what was found; `is_note` overrules its level."""
    said = _sentences()[name]
    level = said.get("level", "warning")
    if is_note is not None:
        level = "note" if is_note else "warning"
    what, meaning = (said[part].format(**found) for part in ("what", "meaning"))
    return Diagnostic(name, what, meaning, level)


def all_diagnostics(
    table: TransitionTable, space: Space[Any] | None, weights: FloatArray
) -> list[Diagnostic]:
    """Whatever stands out at first sight; `weights`, (m,), are of rows around rows."""
    found = [*_duplicates(table), *_states(table), *_rewards(table)]
    if table.episodes is not None:
        found += [*_jumps(table, table.episodes), *_time_limit(table, table.episodes)]
    if table.is_discrete:
        counts = np.bincount(table.actions, minlength=table.n_actions)
        if untried := [str(label) for label in np.nonzero(counts == 0)[0]]:
            found.append(diagnostic("untried_actions", labels=", ".join(untried[:10])))
    else:
        actions = table.actions.astype(np.float64)
        low = getattr(space, "low", actions.min(axis=0)).tolist()
        high = getattr(space, "high", actions.max(axis=0)).tolist()
        for name, *each in zip(table.action_names, actions.T, low, high, strict=True):
            found += _action(name, *each)
    alone = float((weights < 1.0).mean())
    return [*found, diagnostic("isolated_rows", share=alone)] if alone > 0.5 else found


def _jumps(table: TransitionTable, episodes: IntArray) -> Iterator[Diagnostic]:
    order = np.argsort(episodes, kind="stable")
    # Where the task or the recording ended, the next row is a new start.
    goes_on = ~(table.terminations | table.truncations)[order[:-1]]
    goes_on &= episodes[order[:-1]] == episodes[order[1:]]
    now, then = order[:-1][goes_on], order[1:][goes_on]
    std = table.observations.std(axis=0)
    scale = np.where(std > 0, std, 1.0)
    reached = table.next_observations[now] / scale
    gap = np.abs(reached - table.observations[then] / scale).max(axis=1, initial=0.0)
    if (n_jumps := int((gap > 1e-6).sum())) == 0:
        return
    yield diagnostic("jumps", n=n_jumps, total=len(gap), most=gap.max())
    moved = np.abs(reached - table.observations[now] / scale).max(axis=1, initial=0.0)
    if n_jumps > 0.5 * len(gap) and (moved < 1e-6).mean() > 0.9:
        yield diagnostic("shifted_rows")


def _time_limit(table: TransitionTable, episodes: IntArray) -> Iterator[Diagnostic]:
    lengths = np.unique(episodes, return_counts=True)[1]
    longest = int(lengths.max())
    last = np.argsort(episodes, kind="stable")[np.cumsum(lengths) - 1]
    is_longest = lengths == longest
    count = int((is_longest & table.terminations[last]).sum())
    if count >= 2 and longest > 1 and count == int(is_longest.sum()):
        yield diagnostic("hidden_time_limit", n=count, longest=longest)


def _duplicates(table: TransitionTable) -> Iterator[Diagnostic]:
    places = np.hstack([table.observations, table.actions.reshape(len(table), -1)])
    if repeated := len(places) - len(np.unique(places, axis=0)):
        share = repeated / len(table)
        yield diagnostic("duplicates", share <= 0.05, rows=counted(repeated, "row"), share=share)


def _states(table: TransitionTable) -> Iterator[Diagnostic]:
    columns = list(zip(table.observation_names, table.observations.T, strict=True))
    if constant := [name for name, values in columns if np.ptp(values) == 0]:
        yield diagnostic("constant_columns", names=" and ".join(constant))
    # Not of rewards: one may well be a thousand once, at the goal.
    if far := [f"{n} in {name}" for name, v in columns if (n := int((v != without_far(v)).sum()))]:
        yield diagnostic("outliers", far=FAR, counts=", ".join(far))
    moved = np.abs(table.next_observations - table.observations)
    span = np.ptp(np.vstack([table.observations, table.next_observations]), axis=0)
    for name, step, width in zip(table.observation_names, moved.T, span, strict=True):
        for turn, unit in ((2 * np.pi, "radians"), (360.0, "degrees")):
            wraps = int((np.abs(step - turn) < 0.25 * turn).sum())
            # Wrapping means whole turns in one step while most steps are small.
            if wraps and width <= 1.001 * turn and np.median(step) < 0.1 * turn:
                steps = counted(wraps, "step")
                yield diagnostic("wrapped_angle", name=name, steps=steps, unit=unit)


def _rewards(table: TransitionTable) -> Iterator[Diagnostic]:
    values, counts = np.unique(table.rewards, return_counts=True)
    rare = len(table) - int(counts.max())
    if len(values) == 1:
        yield diagnostic("constant_reward", bool(table.terminations.any()), value=values[0])
    elif rare < 0.05 * len(table):
        yield diagnostic("sparse_reward", rare >= 10, value=values[counts.argmax()], rare=rare)


def _action(name: str, values: FloatArray, low: float, high: float) -> Iterator[Diagnostic]:
    found: dict[str, Any] = {"name": name, "low": low, "high": high}
    if outside := int(((values < low) | (values > high)).sum()):
        span = {"least": values.min(), "most": values.max()}
        yield diagnostic("actions_out_of_bounds", n=outside, **found, **span)
    distinct = np.unique(values)
    share = float(((values <= low) | (values >= high)).mean())
    if len(distinct) == 1:
        yield diagnostic("constant_action", name=name, value=distinct[0])
    elif len(distinct) <= 5:
        levels = ", ".join(f"{value:g}" for value in distinct)
        yield diagnostic("few_action_levels", name=name, values=levels)
    elif share > max(0.05, 4.0 / len(values)):
        yield diagnostic("saturated_actions", share=share, **found)
