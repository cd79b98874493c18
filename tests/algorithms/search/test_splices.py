"""Cuts of a path, on a linear system whose best return is known."""

import numpy as np
import pytest

from nopg.algorithms.search.splices import shared, shortened, without_detours
from nopg.algorithms.search.trajectories import Feedback, Task
from tests.algorithms.search.test_trajectories import riccati, still, task

__all__ = ["task"]

AWAY = np.array([[1.0, 0.0]])  # a force of -2 holds it there


def late() -> tuple[Feedback, Feedback]:
    """A controller that rests for a hundred steps before it does what is best."""
    gain = riccati()[1]
    path = still(400, 1)
    path.gains[:] = -gain
    path.states[:100, 0], path.actions[:100, 0] = AWAY[0], -2.0
    return path, still(400, 1)._replace(gains=np.tile(-gain, (400, 1, 1, 1)))


def test_a_rest_is_cut_out_of_a_path(task: Task) -> None:
    (path, holding), best = late(), -riccati()[0][0, 0]
    found = shortened(task, path, holding, AWAY)
    assert task.returns(path, AWAY)[0] < -40.0
    assert task.returns(found, AWAY)[0] == pytest.approx(best, rel=0.03)
    again = shortened(task, found, holding, AWAY)
    assert (again.actions == found.actions).all()  # nothing is left to cut


def test_cuts_and_iterations_find_the_best_return(task: Task) -> None:
    path, holding = late()
    found = without_detours(task, path, holding, AWAY)
    best = -riccati()[0][0, 0]
    assert task.returns(found, AWAY)[0] == pytest.approx(best, rel=0.02)


def test_a_start_takes_over_what_is_better_from_another(task: Task) -> None:
    path, holding = late()
    both = Feedback(*(np.concatenate(x, axis=1) for x in zip(path, holding, strict=True)))
    found = shared(task, both, np.repeat(AWAY, 2, axis=0))
    assert found.actions[0].ravel().tolist() == [0.0, 0.0]  # neither rests
