"""The layout of a state with its past: files that hold none of it are refused."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from nopg.data.history import HistoryLayout
from tests.delayed_system import delayed_data


def test_whoever_acts_meets_the_states_of_the_log() -> None:
    """Rows of an episode, made anew from its observations and actions alone."""
    for is_discrete in (False, True):
        wide = delayed_data(is_discrete=is_discrete).with_history(observations=2, actions=3)
        layout = wide.history
        assert layout is not None
        seen = wide.observations[:, :1]
        state = layout.complete(seen[:1])
        for row in range(20):
            np.testing.assert_array_equal(state[0], wide.observations[row])
            past = layout.after(state, wide.actions[row : row + 1])
            state = layout.join(wide.next_observations[row : row + 1, :1], past)
            np.testing.assert_array_equal(state[0], wide.next_observations[row])
        kept = state[:, 1:].copy()
        again = layout.changed(state, layout.changed(state, kept.copy()))
        np.testing.assert_allclose(again, kept, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "change", [{"actions": -1}, {"before": [float("nan")]}, {"n_observed": "1"}]
)
def test_layouts_of_damaged_files_are_refused(change: dict[str, Any]) -> None:
    stored = asdict(HistoryLayout(1, 2, 2, (0.0,))) | change
    with pytest.raises((ValueError, TypeError)):
        HistoryLayout.from_json(stored)
