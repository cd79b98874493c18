"""A task of three places, small enough for closed forms."""

from __future__ import annotations

import numpy as np

import nopg
from nopg.policies.build import linear_policy

STAY, LEAVE = 0.0, 10.0
GAMMA = 0.9


def waiting_room(*, ends: bool = False, episodes: object = None) -> nopg.FittedPolicy:
    """From place 0 the next is 10 once in three times, and 0 otherwise.

    Bandwidths are far below the distance of the places, so that rows are exactly the
    shares of the samples recorded there.
    """
    states = np.array([[STAY], [STAY], [STAY], [LEAVE]])
    next_states = np.array([[STAY], [STAY], [LEAVE], [LEAVE]])
    data = nopg.Dataset(
        states,
        np.array([[0.0], [0.0], [0.0], [1.0]]),
        [-1.0, -1.0, -1.0, 0.0],
        next_states,
        [False, False, ends, False],
        episodes=episodes,
    )
    model = nopg.NOPG(linear_policy([[0.1]]), gamma=GAMMA, bandwidths=nopg.Bandwidths([0.5], [0.5]))
    return model.prepare(data, [[STAY]])
