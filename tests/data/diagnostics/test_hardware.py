"""Dead bands, stiction, steps of a sensor and limits are named where planted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nopg.data import Dataset
from nopg.data.diagnostics.hardware import hardware_diagnostics


def slide(
    dead_band: float = 0.0,
    friction: float = 0.0,
    encoder: float = 0.0,
    fastest: float = np.inf,
    noise: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """A slide on a rail under slowly wandering pushes, eight episodes.

    Args:
        dead_band: Pushes up to this size do nothing.
        friction: Dry friction, in units of the push: it holds what stands.
        encoder: Step in which positions are measured, 0 for none.
        fastest: Speed that is not exceeded.
        noise: Deviation of what disturbs each step.
        seed: Of all draws.
    """
    rng = np.random.default_rng(seed)
    n, n_steps = 8, 100
    position, speed, push = rng.uniform(-1.0, 1.0, n), np.zeros(n), np.zeros(n)
    states, pushes = [np.column_stack([position, speed])], []
    for _ in range(n_steps):
        push = np.clip(0.9 * push + 0.3 * rng.standard_normal(n), -1.0, 1.0)
        force = np.sign(push) * np.maximum(np.abs(push) - dead_band, 0.0)
        speed = 0.95 * speed + 0.3 * force
        speed = np.sign(speed) * np.maximum(np.abs(speed) - 0.3 * friction, 0.0)
        speed = np.clip(speed, -fastest, fastest) + noise * rng.standard_normal(n)
        position = position + 0.1 * speed
        states.append(np.column_stack([position, speed]))
        pushes.append(push)
    log = np.stack(states, axis=1)  # (n, n_steps + 1, 2)
    if encoder:
        log[..., 0] = np.round(log[..., 0] / encoder) * encoder
    rows = n * n_steps
    return Dataset(
        log[:, :-1].reshape(rows, 2),
        np.stack(pushes, axis=1).reshape(rows, 1),
        np.zeros(rows),
        log[:, 1:].reshape(rows, 2),
        np.zeros(rows, bool),
        observation_names=("position", "speed"),
        action_names=("push",),
    )


def found(**planted: Any) -> dict[str, str]:
    return {f.name: f.what for f in hardware_diagnostics(slide(**planted))}


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_smooth_machine_gives_nothing_to_say(noise: float) -> None:
    assert found(noise=noise) == {}


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_a_dead_band_and_its_width(noise: float) -> None:
    said = found(dead_band=0.3, noise=noise)
    assert set(said) == {"dead_band"}
    width = float(said["dead_band"].rstrip(".").split()[-1])
    assert 0.2 < width < 0.4


def test_stiction_and_the_push_it_takes() -> None:
    said = found(friction=0.25)
    assert "stiction" in said
    assert 0.2 < float(said["stiction"].split("about ")[1].split()[0]) <= 0.25


def test_steps_of_a_sensor_count_where_they_are_coarse() -> None:
    assert "position is measured in steps of 0.05," in found(encoder=0.05)["coarse_sensor"]
    assert found(encoder=0.0005) == {}


def test_a_limit_that_is_reached() -> None:
    said = found(fastest=0.5)
    assert "speed = 0.5 exactly, the highest value" in said["saturated_states"]


def test_a_coarse_encoder_is_no_limit() -> None:
    # Its largest value repeats as every other does.
    assert "saturated_states" not in found(encoder=0.2)


def test_numbers_near_the_largest_there_are() -> None:
    data = slide(dead_band=0.3)
    huge = Dataset(
        data.observations * 1e148,
        data.actions * 1e148,
        data.rewards,
        data.next_observations * 1e148,
        data.terminations,
    )
    assert {f.name for f in hardware_diagnostics(huge)} == {"dead_band"}
