"""Bad input gets one clear sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset

DATA = grid_dataset(6, 6)
GIVEN = nopg.Bandwidths([0.5, 0.5, 2.0], [2.0])


class WrongShape(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)


class NotFinite(WrongShape):
    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)[:, :1] / 0.0


def fit(data: Any = DATA, start: Any = BOTTOM, **settings: Any) -> None:
    options = {"bandwidths": GIVEN} | settings
    nopg.NOPG(**options).fit(data, start, n_updates=2, progress=False)


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda: nopg.NOPG(gamma=1.0), "gamma"),
        (lambda: nopg.NOPG(gamma=-0.1), "gamma"),
        (lambda: nopg.NOPG(gamma=cast(float, [0.9])), r"`gamma` must be a number, got \[0.9\]"),
        (lambda: nopg.NOPG(device=0), "`device` must be a text, got 0"),
        (lambda: nopg.NOPG(policy="tabular"), "policy"),
        (lambda: nopg.NOPG(learning_rate=0.0), "learning_rate"),
        (lambda: nopg.NOPG(learning_rate=float("nan")), "learning_rate"),
        (lambda: nopg.NOPG(policy_samples=0), "policy_samples"),
        (lambda: fit(next_state_samples=1.5), "next_state_samples"),
        (lambda: nopg.NOPG(dtype="float16"), "dtype"),
        (lambda: nopg.NOPG(seed=-1), "seed"),
        (lambda: nopg.NOPG(hiden=(3,)), "known are"),
        (lambda: nopg.NOPG(hidden=50), r"\(50,\) for a single one"),
        (lambda: nopg.NOPG(max_std=0.5), r"`max_std` must be a list"),
        (lambda: nopg.NOPG(schedule="linear"), "schedule"),
        (lambda: nopg.NOPG(stochastic="mean"), "stochastic"),
        (lambda: nopg.NOPG(tolerance=0.0), "tolerance"),
        (lambda: fit(neighbours=0), "at least 1"),
        (lambda: fit(neighbours="many"), "auto"),
        (lambda: fit(bandwidths="silverman"), "auto"),
        (lambda: fit(bandwidths=nopg.Bandwidths([1.0], [1.0])), "3 state"),
        (lambda: fit(policy="discrete"), "astype"),
        (lambda: fit(policy=WrongShape()), r"shape \(73, 1\)"),
        (lambda: fit(policy=NotFinite()), "finite actions"),
        (lambda: fit(policy=torch.nn.Flatten()), "parameters to learn"),
        (lambda: fit(hidden=(0,)), "positive"),
        (lambda: fit(policy="stochastic", max_std=[1.0, 2.0]), "max_std"),
        (lambda: fit(data=DATA.observations), "nopg.Dataset"),
        (lambda: fit(start=None), "episodes"),
        (lambda: fit(start=[1.0, 2.0]), "3 columns"),
        (lambda: fit(start=[[np.nan, 0.0, 0.0]]), "finite"),
        (lambda: fit(start=np.zeros((0, 3))), "one row"),
        (lambda: fit(start="bottom"), "numbers"),
        (lambda: nopg.NOPG().predict([0.0, 0.0, 0.0]), "fit"),
        (lambda: nopg.NOPG().fitted.value([[0.0, 0.0, 0.0]]), "fit"),
        (lambda: nopg.NOPG().fitted.kernel.gradient(), "fit"),
    ],
)
def test_refused_in_one_sentence(attempt: Callable[[], object], sentence: str) -> None:
    with pytest.raises(nopg.NopgError, match=sentence) as caught:
        attempt()
    assert "\n" not in str(caught.value)


def test_cuda_without_a_gpu_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(nopg.ConfigError, match="no GPU"):
        nopg.NOPG(device="cuda")


def test_actions_outside_a_given_space_are_refused() -> None:
    from gymnasium.spaces import Box

    with pytest.raises(nopg.DataError, match="wider space"):
        fit(action_space=Box(-1.0, 1.0, (1,)))
    with pytest.raises(nopg.ConfigError, match="bounded"):
        fit(action_space=Box(-np.inf, np.inf, (1,)))


@pytest.mark.parametrize(
    "observation", ["up", [0.0, np.nan, 0.0], np.zeros((2, 2, 3)), [10**400] * 3, np.zeros(3) + 1j]
)
def test_bad_observations_are_refused(observation: Any) -> None:
    model = nopg.NOPG(bandwidths=GIVEN)
    model.fit(DATA, BOTTOM, n_updates=1, progress=False)
    with pytest.raises(nopg.DataError, match="observation"):
        model.predict(observation)
    with pytest.raises(nopg.DataError, match="Actions must be finite"):
        model.predict([1.7e308] * 3)
    for wrong in ([0.0, 0.0], [0.0], np.zeros((4, 1))):
        with pytest.raises(nopg.DataError, match="must have 3 numbers"):
            model.predict(wrong)


def test_bad_states_are_refused() -> None:
    model = nopg.NOPG(bandwidths=GIVEN)
    policy = model.fit(DATA, BOTTOM, n_updates=1, progress=False)
    for ask in (policy.value, policy.support):
        for states in ([[0.0], [1.0, 2.0]], [10**400] * 3):
            with pytest.raises(nopg.DataError, match="`states` must be numbers"):
                ask(states)


def test_observations_in_any_memory_layout() -> None:
    """Reversed and strided rows, as a ring buffer hands them out."""
    model = nopg.NOPG(bandwidths=GIVEN)
    model.fit(DATA, BOTTOM, n_updates=1, progress=False)
    rows = np.ascontiguousarray(DATA.observations[:6])
    expected = model.predict(rows)[0]
    np.testing.assert_array_equal(model.predict(rows[::-1])[0], expected[::-1])
    np.testing.assert_array_equal(model.predict(rows[::2])[0], expected[::2])
