"""Writes Minari datasets from arrays, which needs neither jax nor an environment."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.data.episodes import unbroken_pieces
from nopg.data.extras import require_extra
from nopg.data.io.about import about_to_json
from nopg.data.io.minari_files import KEY
from nopg.data.validation import IntArray
from nopg.errors import DataError


def write_minari(dataset: Dataset, dataset_id: str) -> None:
    """Make a local Minari dataset called `dataset_id`.

    Minari knows episodes only. Rows whose s' is not the next row's state start a new
    one; rows without episodes become one-step episodes. Rows come back ordered by
    episode, with the ids they had.

    Raises:
        DataError: If a dataset of this id exists already.
    """
    minari = require_extra("minari", "minari")
    require_extra("h5py", "minari")
    require_extra("PIL", "minari")  # its HDF5 storage imports it undeclared
    pieces = list(unbroken_pieces(dataset))
    try:
        with warnings.catch_warnings():
            # Minari warns of an unknown author and permalink; logs have neither.
            warnings.simplefilter("ignore", UserWarning)
            made = minari.create_dataset_from_buffers(
                dataset_id,
                [_buffer(dataset, rows) for rows in pieces],
                observation_space=_observation_space(dataset),
                action_space=_action_space(dataset),
                data_format="hdf5",
            )
    except ValueError as error:
        raise DataError(
            f"`{dataset_id}` must be a new Minari dataset, creating it failed "
            f"({error}); choose another version."
        ) from None
    episodes = np.zeros(len(dataset)) if dataset.episodes is None else dataset.episodes
    ids = [int(episodes[rows[0]]) for rows in pieces]
    made.storage.update_metadata({KEY: {**about_to_json(dataset), "episode_ids": ids}})


def _buffer(dataset: Dataset, rows: IntArray) -> Any:
    """One stretch of rows as Minari takes it: T+1 observations beside T of the rest."""
    from minari.data_collector.episode_buffer import EpisodeBuffer

    last = dataset.next_observations[rows[-1:]]
    return EpisodeBuffer(
        observations=np.vstack([dataset.observations[rows], last]),
        actions=dataset.actions[rows],
        rewards=dataset.rewards[rows],
        terminations=dataset.terminations[rows],
        truncations=dataset.truncations[rows],
        infos={},  # with None the episodes that Minari reads back cannot be printed
    )


def _observation_space(dataset: Dataset) -> Any:
    from gymnasium.spaces import Box

    shape = dataset.observations.shape[1:]
    return dataset.observation_space or Box(-np.inf, np.inf, shape, np.float64)


def _action_space(dataset: Dataset) -> Any:
    from gymnasium.spaces import Box, Discrete

    if dataset.action_space is not None:
        return dataset.action_space
    if dataset.is_discrete:
        return Discrete(dataset.n_actions)
    return Box(-np.inf, np.inf, dataset.actions.shape[1:], np.float64)
