"""Late and hidden systems: a delay that is one, and a reference that is the best."""

from dataclasses import replace

import numpy as np
import pytest
from reproduction.tasks.late import LinearSystem, heater, late_pole
from scipy.linalg import solve_discrete_are


def test_the_motor_answers_three_steps_late() -> None:
    pole = late_pole(delay=3)
    states, pushes = np.zeros((1, 5)), [1.0, 0.0, 0.0, 0.0, 0.0]
    speeds = []
    for push in pushes:
        states = pole.step(states, np.array([[push]]), np.zeros(1)).next_states
        speeds.append(float(states[0, 1]))
    assert speeds == pytest.approx([0.0, 0.0, 0.0, 0.05, 0.05])
    assert pole.observe(states).shape == (1, 2)


@pytest.mark.parametrize("system", [late_pole(), heater()])
def test_without_noise_the_reference_costs_what_riccati_says(system: LinearSystem) -> None:
    calm = replace(system, g=0.0 * system.g, action_limit=1e9)
    # What is hidden is at rest, and the filter, told of next to no noise, believes it.
    states = calm.starts(3, np.random.default_rng(0))
    value = solve_discrete_are(calm.a, calm.b, calm.q, np.array([[calm.r]]))
    expected = -np.einsum("ni,ij,nj->n", states, value, states)
    act, total = system.best_policy(), np.zeros(3)
    for _ in range(400):
        seen = calm.observe(states)
        step = calm.step(states, act(seen), np.zeros(3))
        total, states = total + step.rewards, step.next_states
    if system.observation_names == ("air",):  # the start is taken for a gust
        assert (total <= expected).all()
        assert total == pytest.approx(expected, rel=0.3)
    else:
        assert total == pytest.approx(expected, rel=1e-3)
