from __future__ import annotations

import asyncio

from nopg.record.controls import Controls
from nopg.record.link import Link, Outbox
from nopg.record.session import Command


def test_a_tap_shorter_than_a_step_is_not_lost() -> None:
    link = Link()
    link.put(Controls(("ArrowUp",), (), (3,)))
    link.put(Controls())
    assert link.take().controls == Controls(("ArrowUp",), (), (3,))
    assert link.take().controls == Controls()


def test_held_keys_stay_and_the_newest_is_last() -> None:
    link = Link()
    link.put(Controls(("KeyA",)))
    link.put(Controls(("KeyA", "KeyD")))
    assert link.take().controls.keys == ("KeyA", "KeyD")
    link.put(Controls(("KeyD",)))
    assert link.take().controls.keys == ("KeyD",)


def test_commands_are_handed_out_once_and_wake_the_loop() -> None:
    link = Link()
    assert not link.wait_for_command(0.0)
    link.put(Command.RETRY)
    assert link.wait_for_command(0.0)
    assert link.take().commands == (Command.RETRY,)
    assert link.take().commands == ()
    assert not link.wait_for_command(0.0)


def test_a_flood_of_commands_is_bounded() -> None:
    link = Link()
    for _ in range(10_000):
        link.put(Command.TOGGLE)
    assert len(link.take().commands) <= 32


def test_only_the_newest_picture_is_sent() -> None:
    async def scene() -> None:
        link = Link()
        assert link.attach()
        for k in range(5):
            link.publish(Outbox(str(k), b""))
        await asyncio.sleep(0.01)
        assert await link.news() == Outbox("4", b"")

    asyncio.run(scene())


def test_one_page_at_a_time_and_leaving_lets_go_and_holds() -> None:
    async def scene() -> None:
        link = Link()
        assert link.attach()
        assert not link.attach()
        link.put(Controls(("KeyA",)))
        link.detach()
        inbox = link.take()
        assert inbox.controls == Controls()
        assert inbox.commands == (Command.HOLD,)
        assert not inbox.is_connected
        assert link.attach()

    asyncio.run(scene())


def test_closing_ends_the_news() -> None:
    async def scene() -> None:
        link = Link()
        assert link.attach()
        link.publish(Outbox("last", b""))
        link.close(patience=0.0)
        assert await link.news() is None
        assert link.last_news() == Outbox("last", b"")
        assert not link.attach()

    asyncio.run(scene())
