"""Work side by side: order, errors, and how many threads there are."""

import os
import threading
import time

import pytest
import torch

from nopg.threads import ahead, as_they_come, beside, n_workers, parallel_map, side_by_side


@pytest.fixture
def three() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_from_several_threads(three: None) -> None:
    with side_by_side():
        assert n_workers() == 3
        meet = threading.Barrier(3, timeout=30)  # broken unless three are there

        def one(i: int) -> tuple[int, int, int]:
            meet.wait()
            found = i, torch.get_num_threads(), n_workers()
            meet.wait()  # none has gone before
            time.sleep(0.02 * (3 - i))
            return found

        assert parallel_map(one, range(3)) == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_outside_and_inside_of_a_piece_it_is_a_loop(three: None) -> None:
    here = threading.current_thread()
    assert parallel_map(lambda _: threading.current_thread(), range(2)) == [here] * 2

    meet = threading.Barrier(2, timeout=30)

    def inner(_: int) -> bool:
        meet.wait()
        mine = threading.current_thread()
        is_loop = parallel_map(lambda _: threading.current_thread(), [1, 2]) == [mine] * 2
        meet.wait()  # a piece that is left alone has the other's core
        return is_loop

    with side_by_side():
        assert parallel_map(inner, range(2)) == [True, True]


def test_an_error_waits_for_what_has_begun(three: None) -> None:
    is_enough, ended, all_begun = threading.Event(), [], threading.Barrier(3)

    def one(i: int) -> None:
        all_begun.wait(30)
        if i == 0:
            raise KeyboardInterrupt
        is_enough.wait(30)
        ended.append(i)

    with side_by_side(), pytest.raises(KeyboardInterrupt):
        list(as_they_come(one, range(3), is_enough))
    assert sorted(ended) == [1, 2]


def test_few_pieces_share_out_the_cores() -> None:
    """Two pieces of four cores have two threads each, at the same time."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    meet = threading.Barrier(4, timeout=30)  # broken unless all parts run at once

    def part(_: int) -> int:
        meet.wait()
        found = n_workers()
        meet.wait()
        return found

    def piece(_: int) -> tuple[int, list[int]]:
        return n_workers(), parallel_map(part, range(2))

    try:
        with side_by_side():
            assert parallel_map(piece, range(2)) == [(2, [1, 1])] * 2
            assert n_workers() == 4
    finally:
        torch.set_num_threads(before)


def test_the_last_piece_has_the_cores_of_the_others(three: None) -> None:
    others = threading.Event()

    def piece(i: int) -> int:
        if i:
            return 0
        assert others.wait(30)
        return n_workers()

    with side_by_side():
        found = as_they_come(piece, [1, 2, 0])
        assert [next(found), next(found)] == [0, 0]
        others.set()
        assert next(found) == 3


def test_work_beside_is_waited_for_and_has_its_share(three: None) -> None:
    begun, seen = threading.Event(), []

    def work() -> None:
        begun.set()
        time.sleep(0.05)
        seen.append((torch.get_num_threads(), n_workers(), parallel_map(abs, [-1, 2])))

    with side_by_side():
        with beside(work):
            assert begun.wait(30)
            assert not seen
        assert seen == [(1, 3, [1, 2])]


def test_what_work_beside_raises_is_for_who_asks_again(three: None) -> None:
    def work() -> None:
        raise ValueError("no")

    with side_by_side(), beside(work):
        pass
    with pytest.raises(KeyError), side_by_side(), beside(work):  # and hides no error of ours
        raise KeyError("ours")


def test_on_one_core_nothing_goes_on_beside() -> None:
    seen: list[int] = []
    with beside(lambda: seen.append(1)):
        pass
    assert not seen


def test_what_is_made_ahead_is_there_when_it_is_asked_for(three: None) -> None:
    goes_on, begun = threading.Event(), threading.Event()

    def work() -> tuple[int, list[int]]:
        begun.set()
        assert goes_on.wait(30)
        return n_workers(), parallel_map(abs, [-1, 2])

    def fails() -> None:
        raise ValueError("no")

    with side_by_side():
        found, failed = ahead(work), ahead(fails)
        assert begun.wait(30)  # before anybody asks
        goes_on.set()
        assert found() == found() == (3, [1, 2])
        with pytest.raises(ValueError, match="no"):
            failed()


def test_what_is_made_ahead_is_as_important_as_who_waits_for_it(three: None) -> None:
    with side_by_side():
        nice = ahead(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        assert nice() == os.getpriority(os.PRIO_PROCESS, 0)


def test_on_one_core_it_is_made_where_it_is_told_to() -> None:
    seen: list[int] = []
    found = ahead(lambda: seen.append(1))
    assert seen == [1]
    found()
    assert seen == [1]
