"""The verdict: which answer decides, and what the shares behind it are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import nopg
from nopg.dynamics.ensemble import fit_ensemble
from nopg.evaluation.comparison import Comparison
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.replay import Replay
from nopg.evaluation.verdict import Grounds, guessed_share, verdict
from nopg.policies.build import linear_policy

COMPARED = Comparison(2.0, 0.5, 3.5, 0.95, 0.01, -5.0, -7.0, "the log", 10, 4.0)
UNKNOWN = replace(COMPARED, known=False, reason="no data there.")
ESTIMATE = Estimate(-5.0, -6.0, -4.0, 0.95, "model")
FAR = replace(ESTIMATE, known=False, reason="far away.")


def replayed(level: float, flow: float = 0.9) -> Replay:
    """A replay whose bands hold these shares after ten steps."""
    return Replay(
        kind="episodes",
        names=("level", "flow"),
        labels=("1 step", "10 steps"),
        n_starts=(50, 40),
        n_apart=(50, 40),
        factors=np.ones((2, 2)),
        coverage=np.array([[0.9, 0.9], [level, flow]]),
        errors=np.array([[0.01, 0.02], [0.3, 0.1]]),
        relative=np.array([0.2, 0.3]),
        return_scale=1.0,
        run_off=0.0,
        worst_place=np.zeros(2),
    )


GOOD = Grounds(ESTIMATE, COMPARED, replayed(0.9), 0.0)


def asked(**changes: Any) -> tuple[str, str]:
    found = verdict(replace(GOOD, **changes))
    return found.level, found.reason


def worse(probability: float, by: float = 0.1) -> Comparison:
    """A policy that loses so much beside episodes that differ by 4."""
    return replace(COMPARED, probability_worse=probability, difference=-by)


def test_what_speaks_for_it_is_the_reason_to_go() -> None:
    found = verdict(GOOD)
    assert found.level == "go"
    assert "better than the log: +2 [+0.5, +3.5]" in found.reason
    assert str(found).startswith("Go: run it. It is better")


@pytest.mark.parametrize(
    ("changes", "level", "word"),
    [
        ({"comparison": worse(0.05)}, "go", "better"),
        ({"comparison": worse(0.06)}, "caution", "not surely better"),
        ({"comparison": worse(0.5)}, "caution", "not surely better"),
        ({"comparison": worse(0.74)}, "caution", "not surely better"),
        ({"comparison": worse(0.76)}, "stop", "probably worse"),
        ({"comparison": worse(0.51, by=3.9)}, "caution", "not surely better"),
        ({"comparison": worse(0.51, by=4.1)}, "stop", "probably worse"),
        ({"comparison": worse(0.49, by=4.1)}, "caution", "not surely better"),
        ({"comparison": UNKNOWN}, "stop", "unknown: no data there."),
        ({"untried": 0.05}, "go", "better"),
        ({"untried": 0.06}, "caution", "In 6% of its steps"),
        ({"untried": 0.6}, "stop", "In 60% of its steps"),
        ({"replay": replayed(0.6)}, "go", "better"),
        ({"replay": replayed(0.4, 0.7)}, "caution", "10 steps 90% bands hold 55%"),
        ({"replay": replayed(0.2, 0.4)}, "stop", "10 steps 90% bands hold 30%"),
        ({"estimate": FAR}, "caution", "far away."),
        ({"estimate": FAR, "comparison": UNKNOWN}, "stop", "far away."),
    ],
)
def test_each_answer_decides_at_its_marks(changes: dict[str, Any], level: str, word: str) -> None:
    found, reason = asked(**changes)
    assert found == level
    assert word in reason


@pytest.mark.parametrize(
    ("value", "high", "level"), [(0.01, 0.04, "go"), (0.01, 0.2, "caution"), (0.1, 0.2, "stop")]
)
def test_what_is_to_be_avoided(value: float, high: float, level: str) -> None:
    entered = Estimate(value, 0.0, high, 0.95, "model")
    assert asked(violation=entered)[0] == level


def test_the_gravest_answer_is_the_verdict() -> None:
    level, reason = asked(untried=0.2, comparison=worse(0.9))
    assert level == "stop"
    assert "probably worse" in reason


def pushed() -> nopg.Dataset:
    """A block that only pushes to the left were tried on, in the left half."""
    rng = np.random.default_rng(0)
    x, a = rng.uniform(-1.0, 0.0, (120, 1)), rng.uniform(-1.0, -0.5, (120, 1))
    after = x + 0.1 * np.sin(3.0 * a) * (1.0 + x**2)
    return nopg.Dataset(x, a, -(after[:, 0] ** 2), after, np.zeros(120, dtype=bool))


@pytest.mark.parametrize(("gain", "untried"), [(1.0, False), (-60.0, True)])
def test_an_action_that_was_never_tried_counts_where_states_are_known(
    gain: float, untried: bool
) -> None:
    """At the same states: it is the action that makes the difference."""
    model = fit_ensemble(pushed(), np.random.default_rng(0))[0]
    states = np.linspace(-0.9, -0.55, 20)[:, None]
    policy = linear_policy([[gain]])
    left = guessed_share(model, policy, states)
    assert bool((left > 0.5).all()) == bool((left > 0.5).any()) == untried
    actions = policy.outputs(torch.from_numpy(states))[0].detach()
    inputs = torch.cat([torch.from_numpy(states), actions], dim=1)
    process = model.process
    whole = process.amplitude.square() + process.noise.square()
    expected = (process.std(inputs).square() / whole).amax(dim=1)
    np.testing.assert_allclose(left, expected, rtol=1e-9)


def test_without_episodes_it_is_compared_with_the_mean_action() -> None:
    algorithm = nopg.NOPG(gamma=0.9, hidden=(4,))
    policy = algorithm.fit(pushed(), [[-0.5]], n_updates=2, progress=False)
    found = policy.grounds
    assert found.comparison.against == "the mean action"
    mean = float(pushed().actions.mean())
    alone = policy.compare(lambda seen: np.full((len(seen), 1), mean))
    assert found.comparison.other == pytest.approx(alone.other)
    usual = policy.kernel.usual_distance()
    assert found.untried == policy.support().share_beyond(usual)
    inside = policy.verdict(avoid=([-2.0], [2.0]))
    assert "avoided" in inside.reason
