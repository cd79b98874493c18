"""New datasets from old: choose columns, derive columns, compute rewards.

Each function leaves its input alone, treats s and s' alike, and adds a sentence
to the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from nopg.data.dataset import Dataset
from nopg.data.rewards import RewardFunction, rewards_from
from nopg.data.validation import FloatArray
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

    Raises:
        DataError: If a name is not a column.
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
    return _noted(dataset, f"Kept only the columns {', '.join(names)}.", changes)


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
        function: Takes the state columns by name, each (n,), and gives (n,); it is
            called once for s and once for s'.
        bounds: Smallest and largest value it can take, for the observation space.

    Raises:
        DataError: If the function does not give one number a row.
    """
    now, then = (
        _computed(name, function(_by_name(dataset, states)), len(dataset))
        for states in (dataset.observations, dataset.next_observations)
    )
    changes = {
        "observations": np.column_stack([dataset.observations, now]),
        "next_observations": np.column_stack([dataset.next_observations, then]),
        "observation_names": (*dataset.observation_names, name),
        "observation_space": _widened(dataset.observation_space, bounds),
    }
    return _noted(dataset, f"Added the column {name}.", changes)


def angle_to_sine_cosine(
    dataset: Dataset, name: str, unit: Literal["radians", "degrees"] = "radians"
) -> Dataset:
    """Replace an angle by its cosine and sine, so that a full turn is no distance.

    Args:
        dataset: The transitions.
        name: The state column that holds the angle.
        unit: What the angle is measured in.

    Raises:
        DataError: If there is no such column.
    """
    _positions(dataset.observation_names, [name])
    factor = 1.0 if unit == "radians" else np.pi / 180.0
    unit_circle = (-1.0, 1.0)
    wide = with_column(
        dataset, f"cos_{name}", lambda s: np.cos(s[name] * factor), unit_circle
    )
    wide = with_column(
        wide, f"sin_{name}", lambda s: np.sin(s[name] * factor), unit_circle
    )
    at = dataset.observation_names.index(name)
    names = list(dataset.observation_names)
    names[at : at + 1] = [f"cos_{name}", f"sin_{name}"]
    chosen = select(wide, observations=names)
    note = f"Replaced the angle {name} by its cosine and sine."
    return replace(chosen, notes=(*dataset.notes, note))


def with_rewards(dataset: Dataset, reward: RewardFunction) -> Dataset:
    """Replace the rewards by a function of (s, a, s').

    Args:
        dataset: The transitions.
        reward: Takes states (n, d_s), actions and successors (n, d_s), all rows at
            once; gives (n,).

    Raises:
        DataError: If it does not give one number a row.
    """
    rewards = rewards_from(
        reward, dataset.observations, dataset.actions, dataset.next_observations
    )
    return _noted(
        dataset, "The rewards are a function of (s, a, s').", {"rewards": rewards}
    )


def _noted(dataset: Dataset, note: str, changes: dict[str, Any]) -> Dataset:
    return replace(dataset, **changes, notes=(*dataset.notes, note))


def _positions(names: tuple[str, ...], wanted: Sequence[str]) -> list[int]:
    absent = [name for name in wanted if name not in names]
    if absent or not wanted:
        raise DataError(
            f"The columns to use must be among {list(names)}, got {list(wanted)}; "
            "check the spelling."
        )
    return [names.index(name) for name in wanted]


def _by_name(dataset: Dataset, states: FloatArray) -> dict[str, FloatArray]:
    return dict(zip(dataset.observation_names, states.T, strict=True))


def _computed(name: str, values: Any, n: int) -> FloatArray:
    array = np.asarray(values)
    if array.shape != (n,) or array.dtype.kind not in "biuf":
        raise DataError(
            f"The function for {name!r} must give one number a row, shape ({n},), got "
            f"{array.dtype} of shape {array.shape}; it takes whole columns."
        )
    return array.astype(np.float64)


def _box(space: Any, columns: list[int]) -> Any:
    """The part of a Box space that belongs to the given columns."""
    from gymnasium.spaces import Box

    if not isinstance(space, Box) or len(space.shape) != 1:
        return None
    return Box(space.low[columns], space.high[columns], dtype=space.dtype.type)


def _widened(space: Any, bounds: tuple[float, float]) -> Any:
    from gymnasium.spaces import Box

    if not isinstance(space, Box) or len(space.shape) != 1:
        return None
    low, high = np.append(space.low, bounds[0]), np.append(space.high, bounds[1])
    return Box(
        low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype.type
    )
