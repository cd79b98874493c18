"""A dataset as one flat table: each column of each array under its own name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from nopg.data.io.about import about_to_json
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset


def as_columns(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """Every column in the order s, a, r, s', flags, episode.

    Raises:
        DataError: If two columns would have the same name.
    """
    actions = dataset.actions if dataset.actions.ndim == 2 else dataset.actions[:, None]
    following = [f"next_{name}" for name in dataset.observation_names]
    columns = [
        *zip(dataset.observation_names, dataset.observations.T, strict=True),
        *zip(dataset.action_names, actions.T, strict=True),
        ("reward", dataset.rewards),
        *zip(following, dataset.next_observations.T, strict=True),
        ("termination", dataset.terminations),
        ("truncation", dataset.truncations),
    ]
    if dataset.episodes is not None:
        columns.append(("episode", dataset.episodes))
    names = [name for name, _ in columns]
    if len(set(names)) != len(names) or not all(name.strip() == name for name in names):
        doubtful = sorted(
            {name for name in names if names.count(name) > 1 or name.strip() != name}
        )
        raise DataError(
            f"Columns of a table must have distinct names without spaces at their "
            f"ends, {doubtful} do not; rename them or save as .npz."
        )
    return dict(columns)


def table_about(dataset: Dataset) -> dict[str, Any]:
    """Names, spaces, notes and the part each column plays, for the file to keep."""
    return {
        **about_to_json(dataset),
        "columns": {
            "observations": list(dataset.observation_names),
            "actions": list(dataset.action_names),
            "reward": "reward",
            "next_observations": [f"next_{name}" for name in dataset.observation_names],
            "episode": None if dataset.episodes is None else "episode",
            "termination": "termination",
            "truncation": "truncation",
        },
    }
