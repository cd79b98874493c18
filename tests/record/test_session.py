from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nopg import Dataset
from nopg.errors import NopgError
from nopg.record.session import Command, Demonstrations, Phase, Session
from nopg.record.simulator import Simulator
from nopg.record.teleop import ContinuousTeleop, Controls
from tests.record.corridor import LIMIT

RIGHT, LEFT, NOTHING = Controls((1.0,)), Controls((-1.0,)), Controls()


class Desk:
    """A session with all that belongs to it, and what it announced."""

    def __init__(self, path: Path, *, wanted: int | None = None):
        self.path = path
        self.simulator = Simulator("Corridor-v0")
        space = self.simulator.action_space
        teleop = ContinuousTeleop(
            space,  # type: ignore[arg-type]
            seconds=1e9,
        )
        layout = {
            "observation_space": self.simulator.observation_space,
            "action_space": space,
            "observation_names": ("x", "start"),
            "action_names": ("push",),
        }
        self.demonstrations = Demonstrations(path, layout)
        self.said: list[str] = []
        self.session = Session(
            self.simulator,
            teleop,
            self.demonstrations,
            seed=7,
            wanted=wanted,
            announce=self.said.append,
        )

    def phase(self) -> Phase:
        return self.session.phase

    def drive(self, controls: Controls, steps: int) -> None:
        for _ in range(steps):
            self.session.tick(controls)

    def finish_episode(self) -> None:
        self.session.handle(Command.TOGGLE)
        self.drive(RIGHT, LIMIT)
        assert self.phase() is Phase.SAVED

    def start(self) -> float:
        return float(self.session.observation[0])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "demo.npz")


def test_nothing_happens_before_the_start(desk: Desk) -> None:
    assert not desk.session.tick(NOTHING)
    assert desk.phase() is Phase.READY
    assert len(desk.session.rows) == 0


def test_a_driving_key_starts_but_one_still_held_does_not(desk: Desk) -> None:
    desk.drive(RIGHT, 3)  # held since before: must be let go first
    assert desk.phase() is Phase.READY
    desk.session.tick(NOTHING)
    assert desk.session.tick(RIGHT)
    assert desk.phase() is Phase.RUNNING


def test_a_reached_goal_is_saved_as_terminated_with_every_number_right(desk: Desk) -> None:
    start = desk.start()
    desk.finish_episode()
    data = Dataset.load(desk.path)
    steps = int(np.ceil(3.0 - start))
    expected = start + np.arange(steps + 1)
    np.testing.assert_allclose(data.observations[:, 0], expected[:-1], atol=1e-6)
    np.testing.assert_allclose(data.next_observations[:, 0], expected[1:], atol=1e-6)
    np.testing.assert_array_equal(data.actions, np.ones((steps, 1)))
    np.testing.assert_array_equal(data.rewards, np.full(steps, -2.0))
    assert data.terminations.tolist() == [False] * (steps - 1) + [True]
    assert not data.truncations.any()
    assert data.observation_names == ("x", "start")
    assert data.action_space == desk.simulator.action_space
    assert desk.said == [
        f"Episode 1 saved: {steps} steps, return {-2.0 * steps:.4g}, the task ended (terminated)."
    ]


def test_a_time_limit_truncates_and_does_not_terminate(desk: Desk) -> None:
    desk.session.handle(Command.TOGGLE)
    desk.drive(LEFT, LIMIT)
    data = Dataset.load(desk.path)
    assert len(data) == LIMIT
    assert not data.terminations.any()
    assert data.truncations.tolist() == [False] * (LIMIT - 1) + [True]


def test_pause_holds_time_and_goes_on(desk: Desk) -> None:
    desk.session.handle(Command.TOGGLE)
    desk.drive(LEFT, 2)
    desk.session.handle(Command.TOGGLE)
    assert desk.phase() is Phase.PAUSED
    desk.drive(LEFT, 5)
    assert len(desk.session.rows) == 2
    desk.session.handle(Command.HOLD)  # holding a held episode changes nothing
    assert desk.phase() is Phase.PAUSED
    desk.session.handle(Command.TOGGLE)
    desk.drive(LEFT, 1)
    assert len(desk.session.rows) == 3


def test_hold_pauses_only_a_running_episode(desk: Desk) -> None:
    desk.session.handle(Command.HOLD)
    assert desk.phase() is Phase.READY


def test_keep_ends_an_episode_as_truncated(desk: Desk) -> None:
    desk.session.handle(Command.KEEP)  # nothing to keep yet
    assert desk.phase() is Phase.READY
    desk.session.handle(Command.TOGGLE)
    desk.drive(LEFT, 3)
    desk.session.handle(Command.KEEP)
    assert desk.phase() is Phase.SAVED
    data = Dataset.load(desk.path)
    assert data.truncations.tolist() == [False, False, True]


def test_retry_begins_at_the_same_start_and_discard_at_another(desk: Desk) -> None:
    first = desk.start()
    for phase_changes in ([Command.TOGGLE], [Command.TOGGLE, Command.TOGGLE]):
        for command in phase_changes:
            desk.session.handle(command)
        desk.drive(LEFT, 2)
        desk.session.handle(Command.RETRY)
        assert desk.phase() is Phase.READY
        assert (desk.start(), len(desk.session.rows)) == (first, 0)
    desk.session.handle(Command.DISCARD)
    assert desk.start() != first
    assert not desk.path.exists()


@pytest.mark.parametrize("command", [Command.RETRY, Command.DISCARD])
def test_a_saved_episode_can_be_taken_back(desk: Desk, command: Command) -> None:
    desk.finish_episode()
    desk.session.handle(Command.TOGGLE)
    desk.finish_episode()
    assert Dataset.load(desk.path).n_episodes == 2
    desk.session.handle(command)
    assert desk.phase() is Phase.READY
    assert Dataset.load(desk.path).n_episodes == 1
    assert desk.said[-1] == "The last episode was taken back."


def test_taking_back_the_only_episode_leaves_no_file(desk: Desk) -> None:
    desk.finish_episode()
    desk.session.handle(Command.DISCARD)
    assert not desk.path.exists()


def test_episodes_get_ids_in_order_and_new_starts(desk: Desk) -> None:
    starts = []
    for _ in range(3):
        starts.append(desk.start())
        desk.finish_episode()
        desk.session.handle(Command.TOGGLE)
    data = Dataset.load(desk.path)
    assert len(set(starts)) == 3
    np.testing.assert_allclose(data.first_states()[:, 0], starts)
    assert data.episodes is not None
    assert np.unique(data.episodes).tolist() == [0, 1, 2]
    assert (np.diff(data.episodes) >= 0).all()


def test_the_wanted_number_finishes_the_recording(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "demo.npz", wanted=1)
    assert not desk.session.is_complete
    desk.finish_episode()
    assert desk.session.is_complete
    desk.session.handle(Command.TOGGLE)
    assert desk.phase() is Phase.FINISHED
    desk.session.handle(Command.DISCARD)  # too late: what is finished stays
    assert Dataset.load(desk.path).n_episodes == 1


def test_quitting_is_refused_in_the_middle_of_an_attempt(desk: Desk) -> None:
    desk.session.handle(Command.TOGGLE)
    desk.drive(LEFT, 1)
    desk.session.handle(Command.QUIT)
    assert desk.phase() is Phase.RUNNING
    desk.session.handle(Command.DISCARD)
    desk.session.handle(Command.QUIT)
    assert desk.phase() is Phase.FINISHED


def test_a_failed_save_keeps_the_episode_and_can_be_tried_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise NopgError("The disk must have room, it is full; free some space.")

    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "save", full)
        desk.session.handle(Command.TOGGLE)
        desk.drive(RIGHT, LIMIT)
        assert desk.phase() is Phase.UNSAVED
        assert "it is full" in desk.session.notice
        assert desk.demonstrations.n_episodes == 0
    desk.session.handle(Command.TOGGLE)
    assert desk.phase() is Phase.SAVED
    assert Dataset.load(desk.path).n_episodes == 1
