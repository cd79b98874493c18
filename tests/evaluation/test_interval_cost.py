"""An interval costs a few evaluations: seconds measured, `pytest -s` prints them."""

from __future__ import annotations

import time

import pytest
import torch

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset

GRIDS = {100: (10, 5), 200: (10, 10), 450: (15, 15), 1800: (30, 30)}


@pytest.mark.parametrize("n", GRIDS)
def test_an_interval_costs_at_most_four_evaluations(n: int) -> None:
    data = grid_dataset(*GRIDS[n])
    assert len(data) == n
    policy = nopg.NOPG(gamma=0.97).fit(data, BOTTOM, n_updates=5, progress=False)
    policy.expected_return()  # makes what no policy changes, as `fit` does
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    evaluations, intervals = [], []
    for _ in range(12):
        policy.policy_changed()
        began = time.process_time()
        policy.expected_return(None)
        evaluated = time.process_time()
        policy.expected_return()
        evaluations.append(evaluated - began)
        intervals.append(time.process_time() - evaluated)
    torch.set_num_threads(n_threads)
    one, more = min(evaluations), min(intervals)  # what else runs only adds to them
    print(f"n = {n}: {1e3 * more:.1f} ms, {more / one:.1f} evaluations")
    assert more <= 4.0 * one
