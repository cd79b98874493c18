"""Warnings that are not said."""

import threading

import pytest

from nopg.errors import NopgWarning, SupportWarning, unsaid, warn


def test_what_is_unsaid_here_is_said_in_other_threads() -> None:
    is_quiet, is_said = threading.Event(), threading.Event()

    def other() -> None:
        assert is_quiet.wait(30)
        warn("far off", SupportWarning)
        is_said.set()

    def both() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        with unsaid(SupportWarning, "lists are"):
            is_quiet.set()
            assert is_said.wait(30)
            warn("near", SupportWarning)
            warn("lists are short")
            with unsaid("rows"):
                warn("rows are few")
                warn("near", SupportWarning)
        thread.join()

    with pytest.warns(SupportWarning, match="far off") as seen:
        both()
    assert len(seen) == 1


def test_all_else_is_said() -> None:
    with unsaid(SupportWarning, "rows"), pytest.warns(NopgWarning, match="short"):
        warn("lists are short")
    with pytest.warns(SupportWarning, match="after"):
        warn("after it", SupportWarning)
