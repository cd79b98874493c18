"""Writes Minari datasets from arrays, which needs neither jax nor an environment."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nopg.data.episodes import unbroken_pieces
from nopg.data.extras import require_extra
from nopg.data.io.metadata import metadata_to_json
from nopg.data.io.minari_files import KEY
from nopg.data.transitions import TransitionTable
from nopg.data.validation import IntArray
from nopg.errors import DataError


def write_minari(table: TransitionTable, dataset_id: str) -> None:
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
    pieces = list(unbroken_pieces(table))
    try:
        with warnings.catch_warnings():
            # Minari warns of an unknown author and permalink; logs have neither.
            warnings.simplefilter("ignore", UserWarning)
            made = minari.create_dataset_from_buffers(
                dataset_id,
                [_buffer(table, rows) for rows in pieces],
                observation_space=_observation_space(table),
                action_space=_action_space(table),
                data_format="hdf5",
            )
    except ValueError as error:
        raise DataError(
            f"`{dataset_id}` must be a new Minari dataset, creating it failed "
            f"({error}); choose another version."
        ) from None
    episodes = table.episodes
    ids = None if episodes is None else [int(episodes[rows[0]]) for rows in pieces]
    stored = {**metadata_to_json(table), "episode_ids": ids}
    made.storage.update_metadata({KEY: stored})


def _buffer(table: TransitionTable, rows: IntArray) -> Any:
    """One stretch of rows as Minari takes it: T+1 observations beside T of the rest."""
    from minari.data_collector.episode_buffer import EpisodeBuffer

    last = table.next_observations[rows[-1:]]
    return EpisodeBuffer(
        observations=np.vstack([table.observations[rows], last]),
        actions=table.actions[rows],
        rewards=table.rewards[rows],
        terminations=table.terminations[rows],
        truncations=table.truncations[rows],
        infos={},  # with None the episodes that Minari reads back cannot be printed
    )


def _observation_space(table: TransitionTable) -> Any:
    from gymnasium.spaces import Box

    shape = table.observations.shape[1:]
    return table.observation_space or Box(-np.inf, np.inf, shape, np.float64)


def _action_space(table: TransitionTable) -> Any:
    from gymnasium.spaces import Box, Discrete

    if table.action_space is not None:
        return table.action_space
    if table.is_discrete:
        return Discrete(table.n_actions)
    return Box(-np.inf, np.inf, table.actions.shape[1:], np.float64)
