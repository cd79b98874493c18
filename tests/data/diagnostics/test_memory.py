"""A planted delay and a planted hidden state are found, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reproduction.tasks.crane import CRANES

from nopg.data import Dataset
from nopg.data.diagnostics.memory import find_memory
from nopg.data.diagnostics.residuals import Sequences


def cart(
    delay: int = 0,
    seen: int = 2,
    exploration: float = 0.3,
    process: float = 0.02,
    sensor: float = 0.0,
    n_steps: int = 60,
    seed: int = 0,
) -> Dataset:
    """A cart with drag that feedback brings to the origin, eight episodes.

    Args:
        delay: Steps until a push acts.
        seen: Columns that are logged: 1 leaves the velocity out.
        exploration: Deviation of what is added to the feedback.
        process: Deviation of what disturbs each step.
        sensor: Deviation of the errors of measurement.
        n_steps: Steps per episode.
        seed: Of all draws.
    """
    rng = np.random.default_rng(seed)
    n = 8
    states = [rng.uniform(-1.0, 1.0, (n, 2))]
    measured, pushes = [], []
    for step in range(n_steps + 1):
        state = states[-1]
        measured.append(state + sensor * rng.standard_normal((n, 2)))
        wanted = -measured[-1] @ np.array([1.0, 1.2])
        pushes.append(wanted + exploration * rng.standard_normal(n))
        push = pushes[step - delay] if step >= delay else np.zeros(n)
        velocity = state[:, 1]
        drag = velocity * np.abs(velocity)
        moved = np.column_stack([velocity, push - drag])
        noise = process * rng.standard_normal((n, 2))
        states.append(state + 0.2 * moved + noise)
    log = np.stack(measured, axis=1)[..., :seen]  # (n, n_steps + 1, seen)
    rows = n * n_steps
    return Dataset(
        log[:, :-1].reshape(rows, seen),
        np.stack(pushes, axis=1)[:, :-1].reshape(rows, 1),
        np.zeros(rows),
        log[:, 1:].reshape(rows, seen),
        np.zeros(rows, bool),
        np.arange(rows) % n_steps == n_steps - 1,
        np.repeat(np.arange(n), n_steps),
    )


@pytest.mark.parametrize("delay", [1, 4])
@pytest.mark.parametrize("process", [0.0, 0.05])
def test_a_delay_is_found_to_the_step(delay: int, process: float) -> None:
    memory = find_memory(cart(delay, process=process))
    assert (memory.action_steps, memory.observation_steps) == (delay, 0)
    assert memory.history == delay
    assert f"{delay} step" in memory.sentence
    # The push moves the velocity by 0.2 x 0.3 per deviation, noise by `process`.
    possible = 0.06**2 / (0.06**2 + process**2)
    assert 0.6 * possible < memory.explained < possible + 0.1


def test_what_is_found_is_the_same_on_any_number_of_threads() -> None:
    before, found = torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(find_memory(cart(2, process=0.05)))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("exploration", [0.0, 0.3])
@pytest.mark.parametrize("process", [0.0, 0.02])
def test_nothing_is_found_in_what_tells_all(exploration: float, process: float) -> None:
    # Without exploration the push is a function of the state, so that past and
    # present can stand for each other.
    memory = find_memory(cart(exploration=exploration, process=process))
    assert memory.history == 0


def test_a_hidden_velocity_is_found() -> None:
    memory = find_memory(cart(seen=1))
    assert memory.action_steps == 0
    assert 1 <= memory.observation_steps <= 4
    assert "does not tell all" in memory.sentence


@pytest.mark.parametrize(("part", "is_claimed"), [(0.07, False), (0.3, True)])
def test_a_hidden_state_is_claimed_where_it_matters(part: float, is_claimed: bool) -> None:
    # Pushes of one deviation move the level, and so does something slow that nobody logs.
    rng, n, n_steps = np.random.default_rng(0), 8, 100
    pushes, levels, hidden = rng.standard_normal((n, n_steps)), [np.zeros(n)], np.zeros(n)
    for step in range(n_steps):
        hidden = 0.99 * hidden + 0.14 * rng.standard_normal(n)  # of deviation one
        levels.append(0.5 * levels[-1] + pushes[:, step] + part * hidden)
    log = np.stack(levels, axis=1)
    rows, zeros = n * n_steps, np.zeros(n * n_steps)
    before, after = (part.reshape(rows, 1) for part in (log[:, :-1], log[:, 1:]))
    ends, episodes = np.arange(rows) % n_steps == n_steps - 1, np.repeat(np.arange(n), n_steps)
    never = np.zeros(rows, bool)
    data = Dataset(before, pushes.reshape(rows, 1), zeros, after, never, ends, episodes)
    assert (find_memory(data).observation_steps > 0) == is_claimed


def jolted(delay: int, seed: int) -> Dataset:
    """A level that a pump fills `delay` steps late, and somebody with a bucket now and then."""
    rng, n, n_steps = np.random.default_rng(seed), 12, 100
    pushes = np.repeat(rng.uniform(-1.0, 1.0, (n, 1 + n_steps // 4)), 4, axis=1)
    level = [rng.uniform(-1.0, 1.0, n)]
    for step in range(n_steps):
        push = pushes[:, step - delay] if step >= delay else np.zeros(n)
        bucket = (rng.random(n) < 0.04) * rng.uniform(2.0, 6.0, n)
        noise = 0.1 * rng.standard_normal(n)
        level.append(0.9 * level[-1] + 0.15 * push + bucket + noise)
    log, rows = np.stack(level, axis=1)[..., None], n * n_steps
    return Dataset(
        log[:, :-1].reshape(rows, 1),
        pushes[:, :n_steps].reshape(rows, 1),
        np.zeros(rows),
        log[:, 1:].reshape(rows, 1),
        np.zeros(rows, bool),
        np.arange(rows) % n_steps == n_steps - 1,
        np.repeat(np.arange(n), n_steps),
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rare_jolts_hide_no_delay(seed: int) -> None:
    """Nine tenths of the variance are buckets, of which the past knows nothing."""
    late = find_memory(jolted(3, seed))
    assert 3 <= late.history <= 4
    assert find_memory(jolted(0, seed)).history == 0


def test_noise_of_a_sensor_is_no_hidden_state() -> None:
    memory = find_memory(cart(process=0.0, sensor=0.1, exploration=1.0))
    assert memory.history == 0
    assert "sensor" in memory.sentence


def test_describe_says_so_and_what_to_do() -> None:
    findings = {f.name: f for f in cart(delay=4).describe().findings}
    assert findings["delay"].level == "warning"
    assert "history=4" in findings["delay"].meaning
    assert not {"delay", "hidden_state"} & {f.name for f in cart().describe().findings}


def test_rows_without_a_past_are_named() -> None:
    data = cart(n_steps=10)
    lone = Dataset(*(getattr(data, name) for name in list(data.arrays())[:6]))
    assert "without episodes" in find_memory(lone).sentence
    assert "so short" in find_memory(cart(n_steps=3)).sentence
    assert "untested_past" in {f.name for f in lone.describe().findings}


def test_a_stretch_ends_where_rows_are_missing() -> None:
    data = cart(n_steps=10)
    kept = data.subset(np.arange(80) != 34)
    lengths = np.bincount(Sequences.of(kept).stretches)
    assert lengths.tolist() == [10, 10, 10, 4, 5, 10, 10, 10, 10]


def test_numbers_near_the_largest_there_are() -> None:
    data = cart(delay=2)
    huge = Dataset(
        data.observations * 1e148,
        data.actions * 1e148,
        data.rewards,
        data.next_observations * 1e148,
        data.terminations,
        data.truncations,
        data.episodes,
    )
    assert find_memory(huge).action_steps == 2


@pytest.mark.parametrize("seed", [0, 4])
def test_a_delay_of_held_actions_is_no_bumpy_function(seed: int) -> None:
    """While an action is held nothing is late, and a process of short lengths may explain that."""
    assert find_memory(CRANES["crane-late"].dataset(3_000, seed)).action_steps == 2
    assert find_memory(CRANES["crane"].dataset(3_000, seed)).history == 0
