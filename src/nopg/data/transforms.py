"""New data sets from old: choose columns, derive columns, compute rewards."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box

from nopg.data.dataset import Dataset
from nopg.data.validation import FloatArray, RewardFunction, one_per_row
from nopg.errors import DataError


def select(
    dataset: Dataset,
    observations: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
) -> Dataset:
    """Keep the named columns, in the order given.

    Args:
        dataset: The transitions.
        observations: Names of the states to keep; None keeps all.
        actions: Names of the actions to keep; None keeps all.
    """
    changes: dict[str, Any] = {}
    if observations is not None:
        kept = _positions(dataset.observation_names, observations)
        changes |= {
            "observations": dataset.observations[:, kept],
            "next_observations": dataset.next_observations[:, kept],
            "observation_names": tuple(observations),
            "observation_space": _box(dataset.observation_space, kept),
        }
    if actions is not None and not dataset.is_discrete:
        kept = _positions(dataset.action_names, actions)
        changes |= {
            "actions": dataset.actions[:, kept],
            "action_names": tuple(actions),
            "action_space": _box(dataset.action_space, kept),
        }
    names = [*(observations or ()), *(actions or ())]
    return dataset.with_note(f"Kept only the columns {', '.join(names)}.", **changes)


def with_column(
    dataset: Dataset,
    name: str,
    function: Callable[[dict[str, FloatArray]], Any],
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Dataset:
    """Add a state column computed from the others.

    Args:
        dataset: The transitions.
        name: Name of the new column.
        function: Takes the state columns by name, each (n,), once of s and once of s'; gives (n,).
        bounds: Smallest and largest value it can take, for the observation space.
    """
    widened = {}
    for part in ("observations", "next_observations"):
        states = getattr(dataset, part)
        by_name = dict(zip(dataset.observation_names, states.T, strict=True))
        values = one_per_row(f"The function for {name!r}", function(by_name), len(dataset))
        widened[part] = np.column_stack([states, values])
    names = dataset.observation_names
    return dataset.with_note(
        f"Added the column {name}.",
        **widened,
        observation_names=(*names, name),
        observation_space=_box(dataset.observation_space, range(len(names)), bounds),
    )


def angle_to_sine_cosine(
    dataset: Dataset, name: str, unit: Literal["radians", "degrees"] = "radians"
) -> Dataset:
    """Replace an angle by its cosine and sine, so that a full turn is no distance.

    Args:
        dataset: The transitions.
        name: The state column that holds the angle.
        unit: What the angle is measured in.
    """
    at = _positions(dataset.observation_names, [name])[0]
    factor = 1.0 if unit == "radians" else np.pi / 180.0
    cosine, sine, bounds = f"cos_{name}", f"sin_{name}", (-1.0, 1.0)
    wide = with_column(dataset, cosine, lambda s: np.cos(s[name] * factor), bounds)
    wide = with_column(wide, sine, lambda s: np.sin(s[name] * factor), bounds)
    names = list(dataset.observation_names)
    names[at : at + 1] = [cosine, sine]
    note = f"Replaced the angle {name} by its cosine and sine."
    return replace(select(wide, names), notes=(*dataset.notes, note))


def with_rewards(dataset: Dataset, reward: RewardFunction) -> Dataset:
    """Replace the rewards by a function of (s, a, s').

    Args:
        dataset: The transitions.
        reward: Takes states (n, d_s), actions and successors (n, d_s) of all rows; gives (n,).
    """
    rows = dataset.observations, dataset.actions, dataset.next_observations
    rewards = one_per_row("A reward function", reward(*rows), len(dataset))
    return dataset.with_note("The rewards are a function of (s, a, s').", rewards=rewards)


def _positions(names: tuple[str, ...], wanted: Sequence[str]) -> list[int]:
    if not wanted or not set(wanted) <= set(names):
        raise DataError(f"The columns to use must be among {list(names)}, got {list(wanted)}.")
    return [names.index(name) for name in wanted]


def _box(space: Any, columns: Sequence[int], *more: tuple[float, float]) -> Any:
    """The part of a Box space that belongs to `columns`, and bounds of new ones."""
    if not isinstance(space, Box) or len(space.shape) != 1:
        return None
    low = np.append(space.low[list(columns)], [bounds[0] for bounds in more])
    high = np.append(space.high[list(columns)], [bounds[1] for bounds in more])
    kind: Any = space.low.dtype
    return Box(low.astype(kind), high.astype(kind), dtype=kind.type)
