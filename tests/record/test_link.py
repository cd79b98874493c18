from __future__ import annotations

from nopg.record.loop import Link
from nopg.record.session import Command
from nopg.record.teleop import Controls


def test_a_tap_shorter_than_a_step_is_not_lost() -> None:
    link = Link()
    link.put(Controls((1.0, 0.0), 3))
    link.put(Controls((0.0, 0.0)))
    assert link.take().controls == Controls((1.0, 0.0), 3)
    assert link.take().controls == Controls((0.0, 0.0))


def test_what_is_held_stays_and_the_newest_counts() -> None:
    link = Link()
    link.put(Controls((-1.0,), 0))
    link.put(Controls((1.0,), 2))
    assert link.take().controls == Controls((1.0,), 2)
    assert link.take().controls == Controls((1.0,), 2)


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
    link, page = Link(), object()
    assert link.attach(page)
    for k in range(5):
        link.publish((str(k), b""))
    assert link.news(page) == ("4", b"")


def test_a_new_page_gets_the_present_picture() -> None:
    link, page = Link(), object()
    link.publish(("now", b""))
    assert link.attach(object())
    link.detach()
    assert link.attach(page)
    assert link.news(page) == ("now", b"")


def test_one_page_at_a_time_and_leaving_lets_go_and_holds() -> None:
    link, first = Link(), object()
    assert link.attach(first)
    assert not link.attach(object())
    link.put(Controls((1.0,)))
    link.detach()
    inbox = link.take()
    assert inbox.controls == Controls()
    assert inbox.commands == (Command.HOLD,)
    assert not inbox.is_connected
    assert link.news(first) is None
    assert link.attach(object())


def test_closing_ends_the_news_after_the_last_one() -> None:
    link, page = Link(), object()
    assert link.attach(page)
    link.publish(("last", b""))
    assert link.close(patience=0.0) is page
    assert link.news(page) == ("last", b"")
    assert link.news(page) is None
    link.detach()
    assert link.close() is None
    assert not link.attach(object())
