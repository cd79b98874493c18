"""Which column of a table plays which part: as told, else guessed by its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nopg.data.io.reading import Reading
from nopg.errors import DataError

# One word of these, then the end, a number or a separator: "u", "a0", "action_x".
_TAIL = r"(?:\d+|[_.\s\[(-].*)?$"
_ACTION = re.compile(
    r"(actions?|act|a|u|controls?|ctrl|commands?|cmd|torque|voltage|input)" + _TAIL
)
_OBSERVATION = re.compile(r"(observations?|obs|states?|s)" + _TAIL)
_REWARD = ("reward", "rewards", "rew", "r")
_EPISODE = re.compile(
    r"(episodes?|ep|runs?|trials?|traj|trajectory|rollout)([_ ]?id)?$"
)
_TERMINATION = (
    *("termination", "terminations", "terminated", "terminal", "terminals"),
    *("is_terminal", "done", "dones"),
)
_TRUNCATION = (
    *("truncation", "truncations", "truncated", "timeout", "timeouts"),
    "timelimit.truncated",
)
_SINGLE: dict[str, tuple[str, ...] | re.Pattern[str]] = {
    "reward": _REWARD,
    "episode": _EPISODE,
    "termination": _TERMINATION,
    "truncation": _TRUNCATION,
}
_CLOCK = re.compile(
    r"(t|time|timestamps?|time_?steps?|steps?|index|row|frame|)$|unnamed"
)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The column names that were settled on."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    reward: str | None
    next_observations: tuple[str, ...] | None
    episode: str | None
    termination: str | None
    truncation: str | None
    guesses: tuple[str, ...] = ()
    """A sentence for every part that was guessed."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """Every column that must hold numbers, each once."""
        reward = () if self.reward is None else (self.reward,)
        following = self.next_observations or ()
        return tuple(
            dict.fromkeys((*self.observations, *self.actions, *reward, *following))
        )


def settle_roles(
    names: Sequence[str], numeric: frozenset[str], reading: Reading
) -> Roles:
    """Give every part its column: as `reading` says, else by name.

    Args:
        names: All columns of the table, in order.
        numeric: Those that seem to hold numbers; only these are guessed as states.
        reading: What the caller named.

    Raises:
        DataError: If a named column is absent or a needed one cannot be guessed.
    """
    _require_present(names, reading)
    told = set(_told(reading))
    free = [name for name in names if name not in told]
    single: dict[str, str | None] = {}
    for part, pattern in _SINGLE.items():
        given = getattr(reading, part)
        if given is None:
            hits = (name for name in free if _matches(pattern, name))
            single[part] = next(hits, None)
        else:
            single[part] = given if isinstance(given, str) else None
    taken = set(single.values())
    free = [name for name in free if name not in taken and name in numeric]
    observations, actions, following = _states_and_actions(free, reading)
    roles = Roles(
        observations=observations,
        actions=actions,
        next_observations=following,
        reward=single["reward"],
        episode=single["episode"],
        termination=single["termination"],
        truncation=single["truncation"],
    )
    _require_settled(roles, names, reading)
    return replace(roles, guesses=_guesses(roles, names, reading))


def _told(reading: Reading) -> Iterator[str]:
    """Every column name the caller gave."""
    for part in ("observations", "actions", "next_observations"):
        yield from getattr(reading, part) or ()
    for part in _SINGLE:
        if isinstance(getattr(reading, part), str):
            yield getattr(reading, part)


def _matches(pattern: Iterable[str] | re.Pattern[str], name: str) -> bool:
    word = name.strip().lower()
    if isinstance(pattern, re.Pattern):
        return pattern.match(word) is not None
    return word in pattern


def _states_and_actions(
    free: list[str], reading: Reading
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...] | None]:
    """Split the unnamed numeric columns into states, actions and successors."""
    successor_of = {
        name: following
        for name in [*free, *(reading.observations or ())]
        for following in (f"next_{name}", f"{name}_next", f"{name}'")
        if following in free
    }
    free = [name for name in free if name not in successor_of.values()]
    actions = reading.actions
    if actions is None:
        actions = tuple(name for name in free if _matches(_ACTION, name))
        if not actions and successor_of and reading.observations is None:
            # Every state has a successor column; what has none was decided upon.
            actions = tuple(
                name
                for name in free
                if name not in successor_of and not _matches(_CLOCK, name)
            )
        actions = tuple(name for name in actions if name not in successor_of)
    observations = reading.observations
    if observations is None:
        rest = [name for name in free if name not in actions]
        named = [name for name in rest if _matches(_OBSERVATION, name)]
        plain = [name for name in rest if not _matches(_CLOCK, name)]
        observations = tuple(
            [name for name in rest if name in successor_of] or named or plain
        )
    following = reading.next_observations
    if (
        following is None
        and observations
        and all(s in successor_of for s in observations)
    ):
        following = tuple(successor_of[name] for name in observations)
    return (
        tuple(observations),
        tuple(actions),
        None if following is None else tuple(following),
    )


def _require_present(names: Sequence[str], reading: Reading) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(
            f"Every column must have its own name, {_shown(repeated)} occur more than "
            "once; rename them in the file."
        )
    known = set(names)
    absent = [name for name in _told(reading) if name not in known]
    if absent:
        raise DataError(
            f"The columns you name must be in the file, {_shown(absent)} are not; it "
            f"has {_shown(names)}."
        )


def _require_settled(roles: Roles, names: Sequence[str], reading: Reading) -> None:
    lacking = [
        part
        for part, found in (
            ("observations=[...]", roles.observations),
            ("actions=[...]", roles.actions),
            ("reward=...", roles.reward or reading.reward),
        )
        if not found
    ]
    if lacking:
        raise DataError(
            "Every part must have a column, found none by name for "
            f"{', '.join(lacking)} among {_shown(names)}; name the columns yourself."
        )
    following = roles.next_observations
    if following is not None and len(following) != len(roles.observations):
        raise DataError(
            "There must be as many `next_observations` as `observations`, got "
            f"{len(following)} and {len(roles.observations)}; keep their order."
        )


def _guesses(roles: Roles, names: Sequence[str], reading: Reading) -> tuple[str, ...]:
    """A sentence for every part the caller did not name, and for what is unused."""
    guesses = {}
    for part in ("observations", "actions", "next_observations", *_SINGLE):
        found = getattr(roles, part)
        if getattr(reading, part) is None and found is not None:
            shown = found if isinstance(found, str) else ", ".join(found)
            guesses[part] = shown
    notes = []
    if guesses:
        listed = "; ".join(f"{part} = {shown}" for part, shown in guesses.items())
        notes.append(f"Guessed by name: {listed}.")
    used = {*roles.numbers, roles.episode, roles.termination, roles.truncation}
    unused = [name for name in names if name not in used]
    if unused:
        notes.append(f"Columns left out: {_shown(unused)}.")
    return tuple(notes)


def _shown(names: Sequence[str], limit: int = 12) -> str:
    shown = ", ".join(repr(name)[:40] for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
