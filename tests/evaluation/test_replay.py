"""Replay of held-out recordings: bands that hold, and models that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import nopg
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.transition_model import TransitionModel
from nopg.errors import DataError
from nopg.evaluation.replay import Replay, replay_held_out, replay_others
from tests.evaluation.recordings import GAMMA, LEAK, NOISE, recorded


def fitted(data: nopg.Dataset) -> TransitionModel:
    return TransitionModel.fit(
        *model_columns(data), generator=np.random.default_rng(0), history=data.history
    )


def checked(data: nopg.Dataset) -> Replay:
    return replay_held_out(data, fitted(data), GAMMA, np.random.default_rng(0))


@pytest.fixture(scope="module")
def replay() -> Replay:
    return checked(recorded(40, 25))


def test_bands_of_a_system_that_is_known_hold_what_they_should(replay: Replay) -> None:
    assert (replay.kind, replay.names) == ("episodes", ("level",))
    assert replay.labels == ("1 step", "10 steps", "the end")
    assert replay.ok
    assert replay.reason == ""
    # 100 starts of one step: 90% within two binomial deviations.
    assert abs(replay.coverage[0, 0] - 0.9) < 2.0 * np.sqrt(0.9 * 0.1 / 100)
    assert 0.7 < replay.scale < 1.4
    # The error is that of the noise alone: after ten steps its variance has grown.
    deviation = recorded(40, 25).observations.std()
    grown = NOISE * np.sqrt((1.0 - LEAK**20) / (1.0 - LEAK**2))
    assert replay.errors[0, 0] * deviation == pytest.approx(NOISE, rel=0.2)
    assert replay.errors[1, 0] * deviation == pytest.approx(grown, rel=0.3)
    assert replay.run_off == 0.0
    assert "run off" not in str(replay)


def test_a_delay_is_seen(replay: Replay) -> None:
    data = recorded(20, 20, delay=3, noise=0.01)
    late = checked(data)
    assert late.relative[1] > 0.9  # no better than a straight line
    past = checked(data.with_history(actions=3))
    assert past.ok
    assert past.errors[1, 0] < 0.3 * late.errors[1, 0]
    assert past.names == ("level",)  # the past is copied, not predicted


def test_a_wrong_model_is_found_out() -> None:
    data = recorded(40, 25)
    model, others = fitted(data), recorded(6, 25, seed=1)
    right = replay_others(model, data, others, GAMMA, np.random.default_rng(0))
    assert right.ok
    drifting = replace(
        model.process, linear=model.process.linear + torch.tensor([[0.1, 0], [0, 0], [0, 0]])
    )
    wrong = replay_others(
        replace(model, process=drifting), data, others, GAMMA, np.random.default_rng(0)
    )
    assert not wrong.ok
    assert wrong.scale > 2.0 * right.scale
    assert "times as much" in wrong.reason or "bands hold" in wrong.reason
    assert "level" in str(wrong)


def test_nothing_is_replayed_of_where_the_models_end() -> None:
    """Above 0.7 the level jumps up and down: no model of it is any good."""
    data = recorded(40, 25)
    level = data.next_observations.copy()
    is_beyond = level > 0.7
    assert 0.02 < is_beyond.mean() < 0.1
    jumps = np.random.default_rng(0).uniform(0.0, 20.0, is_beyond.sum())
    level[is_beyond] += jumps
    broken = replace(data, next_observations=level)
    inside = fitted(data.subset(~is_beyond[:, 0]))
    high = torch.tensor([0.7], dtype=torch.float64)
    ending = replace(inside, bounds=replace(inside.bounds, high=high))
    generator = np.random.default_rng(0)
    within = replay_held_out(broken, ending, GAMMA, generator)
    whole = replay_held_out(broken, fitted(broken), GAMMA, generator)
    deviation = broken.observations.std()
    assert within.ok
    # A little less than that of the noise: what it took beyond is left out.
    assert within.errors[0, 0] * deviation == pytest.approx(NOISE, rel=0.2)
    assert whole.errors[0, 0] > 10.0 * within.errors[0, 0]


def test_without_order_single_steps_are_predicted() -> None:
    pairs = checked(recorded(20, 10, has_episodes=False))
    assert (pairs.kind, pairs.labels) == ("pairs", ("1 step",))
    assert pairs.ok
    one = checked(recorded(1, 200))
    assert one.kind == "blocks"
    assert one.labels[:2] == ("1 step", "10 steps")


@pytest.mark.parametrize(("n", "has_episodes"), [(6, False), (2, True)])
def test_too_few_rows_are_said_in_a_sentence(n: int, has_episodes: bool) -> None:
    with pytest.raises(DataError, match=f"{n} rows are too few, record ten or more"):
        checked(recorded(1, n, has_episodes=has_episodes))
