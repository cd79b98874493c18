"""Independent pieces of work side by side, with the same bits on any number of cores.

Sums that are split among threads round differently with their number. So every piece of work runs
on one thread; as many at a time as torch may use threads.
"""

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

In = TypeVar("In")
Out = TypeVar("Out")

SPARE = 4  # cores from which on it may take more threads, also for what may not be needed

_pool: ContextVar[ThreadPoolExecutor | None] = ContextVar("pool", default=None)
_count: ContextVar[Callable[[], int]] = ContextVar("count", default=lambda: 1)
_own: ContextVar[int] = ContextVar("own", default=0)  # pieces that are done by who asks for them


@contextmanager
def side_by_side() -> Iterator[None]:
    """Within, pieces of work of `parallel_map` share the cores, one thread each."""
    before = torch.get_num_threads()
    if _pool.get() is not None:  # they are shared already
        yield
        return
    import scipy.linalg  # noqa: F401  its BLAS has a limit, too, if it is there

    with (
        ThreadPoolExecutor(before, "", torch.set_num_threads, (1,)) as pool,
        threadpool_limits(1, user_api="blas"),
    ):
        # Where torch and BLAS share a pool, the limit is torch's too by now.
        torch.set_num_threads(1)
        tokens = _pool.set(pool), _count.set(lambda: before)
        try:
            yield
        finally:
            _pool.reset(tokens[0])
            _count.reset(tokens[1])
            torch.set_num_threads(before)


@contextmanager
def beside(function: Callable[[], object]) -> Iterator[None]:
    """Within, `function` is at work, too, where there are cores to spare; then it is waited for.

    What it raises is not raised here: it is for what is kept and asked for later.
    """
    if n_workers() == 1:
        yield
        return
    found = ahead(function)
    yield
    with suppress(BaseException):  # who cannot wait for it loses nothing else
        found()


def ahead(function: Callable[[], Out]) -> Callable[[], Out]:
    """What waits for the result of `function`, at work beside what follows where there are cores.

    So it must not change what others see.
    """
    if n_workers() == 1:
        found = function()
        return lambda: found
    # Its pieces have threads of their own: in a common pool all might wait for each other. They are
    # as important as others: who waits for a nicer one waits for every process of the machine.
    pool = ThreadPoolExecutor(n_workers() + 1, "", torch.set_num_threads, (1,))
    inside = copy_context()
    inside.run(_pool.set, pool)
    started = pool.submit(inside.run, function)
    started.add_done_callback(lambda _: pool.shutdown(wait=False))
    return started.result


def n_workers() -> int:
    """Pieces of work that run at a time here: inside of a piece its share of the cores."""
    return _count.get()()


def threads_for(most: int) -> ctypes.c_int64:
    """So many threads at most for compiled code, of those of torch or of a piece's share."""
    here = torch.get_num_threads() if _pool.get() is None else n_workers()
    return ctypes.c_int64(min(most, here))


def parallel_map(function: Callable[[In], Out], items: Iterable[In]) -> list[Out]:
    """`function` of each item, in order; see `as_they_come`."""
    return list(as_they_come(function, items))


def as_they_come(
    function: Callable[[In], Out], items: Iterable[In], is_enough: threading.Event | None = None
) -> Iterator[Out]:
    """`function` of each item, in order, each as soon as it is there."""
    # At an error or an interrupt what has begun is waited for; `is_enough` is set for who looks.
    items, pool = list(items), _pool.get()
    if pool is None or n_workers() == 1 or len(items) < 2:
        yield from map(function, items)
        return
    # Few pieces have parts themselves, the first of which they do.
    # The last of them have the cores of those that are done.
    inside, n_own, n_cores, left = copy_context(), _own.get(), _count.get(), [len(items)]
    inside.run(_count.set, lambda: max(1, n_cores() // max(1, left[0])))
    inside.run(_own.set, 1)

    def done(item: In) -> Out:
        try:
            return inside.copy().run(function, item)
        finally:
            left[0] -= 1  # two at once may count as one: a thread less, the same digits

    started = [pool.submit(done, item) for item in items[n_own:]]
    try:
        for item in items[:n_own]:
            yield done(item)
        for one in started:
            yield one.result()
    finally:
        if is_enough is not None:
            is_enough.set()
        for one in started:
            one.cancel()
        wait(started)
