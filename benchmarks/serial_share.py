"""What more cores could make of `nopg.learn`, measured on one.

    OMP_NUM_THREADS=1 python -m benchmarks.serial_share CartPole-v1 1000

Every piece of work that `nopg.threads` could run beside others is timed by itself, and dealt
out on paper to 2 and to 16 cores, first come, first served. What is left is the least time that
so many cores can take, phase by phase: no memory is shared on paper, and no thread waits.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

CORES = np.array([2, 16])
PHASES = (
    ("algorithms.search.learn", "remembered", "delays"),
    ("algorithms.search.learn", "fit_ensemble", "models"),
    ("algorithms.search.learn", "trajectory_candidate", "trajectories"),
    ("algorithms.search.selection", "refine", "refinement"),
    ("algorithms.search.selection", "model_estimates", "estimates"),
    ("algorithms.search.learn", "planned_candidates", "plans"),
    ("algorithms.search.learn", "ascent_candidates", "gradient ascent"),
    ("fitted.policy", "FittedPolicy.check", "replay"),
)
"""Module, function and what its time is called; what is left is "other"."""


class SerialShare:
    """Seconds of one core, and those that others could take over."""

    def __init__(self) -> None:
        self.saved = np.zeros(2)  # seconds, with each number of cores
        self._cores = [CORES]  # of the piece that is being done
        self._phases = ["other"]
        self._since = time.thread_time(), self.saved
        self.seconds: dict[str, Any] = {}  # of each phase: on one core, and on 2 and 16

    def as_they_come(
        self, function: Callable[[Any], Any], items: Iterable[Any], is_enough: Any = None
    ) -> Iterator[Any]:
        """`nopg.threads.as_they_come`, one after another."""
        items, cores = list(items), self._cores[-1]
        before, begun, found = self.saved.copy(), time.thread_time(), []
        self._cores.append(np.maximum(1, cores // max(1, len(items))))
        queues = [[0.0] * int(k) for k in cores]
        for item in items:
            saved, at = self.saved.copy(), time.thread_time()
            found.append(function(item))
            own = time.thread_time() - at - (self.saved - saved)
            for queue, seconds in zip(queues, own, strict=True):
                heapq.heapreplace(queue, queue[0] + seconds)
        self._cores.pop()
        self.saved = before + time.thread_time() - begun - np.array([max(q) for q in queues])
        yield from found

    def in_parts(self, function: Any, first: Any, n: int, rest: Any) -> None:
        """`_in_parts` of the rollouts: paths are shared out evenly."""
        from nopg.dynamics.compiled import FEW

        begun = time.thread_time()
        if function(*first, 0, n, n, *rest):
            raise MemoryError
        n_parts = np.maximum(1, np.minimum(self._cores[-1], min(n, n * rest[0] // FEW)))
        self.saved = self.saved + (time.thread_time() - begun) * (1.0 - 1.0 / n_parts)

    def enter(self, phase: str) -> None:
        """What has passed belongs to the phase before."""
        self.leave(self._phases[-1])
        self._phases.append(phase)

    def leave(self, phase: str | None = None) -> None:
        """Note what has passed, and go back to the phase around this one."""
        now, (at, saved) = time.thread_time(), self._since
        passed = np.array([now - at, *(now - at - (self.saved - saved))])
        name = phase or self._phases.pop()
        self.seconds[name] = self.seconds.get(name, 0.0) + passed
        self._since = now, self.saved.copy()

    def watch(self, owner: Any, name: str, phase: str) -> None:
        """Time a function as a phase, unless it is within another one."""
        whole = getattr(owner, name)

        def timed(*given: Any, **options: Any) -> Any:
            if len(self._phases) > 1 and phase != "estimates":
                return whole(*given, **options)
            self.enter(phase)
            try:
                found = whole(*given, **options)
                return iter(list(found)) if isinstance(found, Iterator) else found
            finally:
                self.leave()

        setattr(owner, name, timed)


def measure(task: str, size: int) -> None:
    """Learn once, and print a line for each phase."""
    import importlib

    from benchmarks.learn import dataset

    import nopg
    from nopg.dynamics import compiled

    share = SerialShare()
    data, starts, options = dataset(task, size)
    compiled.compiled_library()
    for module, name, phase in PHASES:
        owner, *inner = importlib.import_module(f"nopg.{module}"), *name.split(".")[:-1]
        share.watch(getattr(owner, inner[0]) if inner else owner, name.split(".")[-1], phase)
    counted = {
        "as_they_come": share.as_they_come,
        "parallel_map": lambda *given: list(share.as_they_come(*given)),
        "_in_parts": share.in_parts,
    }
    for place in [found for name, found in sys.modules.items() if name.startswith("nopg.")]:
        for name in counted.keys() & vars(place).keys():
            setattr(place, name, counted[name])
    share.leave("before")
    nopg.learn(data, starts, **options)
    share.leave()
    share.seconds.pop("before")
    total = sum(share.seconds.values())
    print(f"{task} {size}: 1, 2, 16 cores {' '.join(f'{s:6.2f}' for s in total)} s, at most")
    print(f"  {total[0] / total[1]:.2f} and {total[0] / total[2]:.2f} times as fast")
    for name, seconds in sorted(share.seconds.items(), key=lambda item: -item[1][0]):
        print(f"  {name:16s}" + "".join(f"{s:7.2f}" for s in seconds), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser("python -m benchmarks.serial_share", description=__doc__)
    parser.add_argument("task", help="one of the robustness table")
    parser.add_argument("size", type=int, help="of its data, such as 1000")
    asked = parser.parse_args()
    measure(asked.task, asked.size)
