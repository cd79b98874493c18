"""Is it worth recording where `policy.suggest` says? Beside recording at random.

    python -m reproduction.record_next [SEEDS]

A policy is learned from a small log. 200 more steps are then recorded in the simulator,
where `suggest` says or at random (states anywhere in the range of the log, actions
anywhere within their limits), and the same policy is evaluated again with all rows. The
table has the width of its 95% interval before and after, and its true return.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nopg
from nopg.data.dataset import Dataset
from nopg.data.sampling import merge
from nopg.envs.base import Env, FloatArray, Step
from nopg.errors import NopgWarning
from nopg.fitted.policy import FittedPolicy
from nopg.randomness import Seed
from reproduction.tasks.continuous import pendulum_random_task
from reproduction.tasks.noisy import NoisyTask, double_integrator_task
from reproduction.tasks.two_tanks import TwoTanks, flow, rewards_of

N_MORE, GAMMA = 200, 0.95
N_RUNS = 200
"""Runs that the true return is the mean of."""
Move = Callable[[FloatArray, FloatArray, np.random.Generator], Step]
"""One step of a simulator from its states, (m, d_state), with actions (m, d_a)."""


@dataclass(frozen=True)
class System:
    """A small log of a system, and its simulator."""

    data: Dataset
    starts: FloatArray  # (B, d_state)
    observe: Callable[[FloatArray], FloatArray]
    restored: Callable[[FloatArray], FloatArray]  # states of observations
    move: Move
    limits: tuple[float, float]  # of the actions

    def more(self, states: FloatArray, actions: FloatArray, seed: int) -> Dataset:
        """The log and one more row for every state and action."""
        after, rewards, ends = self.move(states, actions, Seed(seed).numpy("recording"))
        seen, following = self.observe(states), self.observe(after)
        data = self.data
        names: Any = {
            "observation_names": data.observation_names,
            "action_names": data.action_names,
        }
        single = data.episodes is None
        ids = None if single else np.arange(len(states))  # every row its own
        cut = None if single else ~ends
        return merge(
            data,
            Dataset(seen, actions, rewards, following, ends, cut, ids, **names),
        )

    def anywhere(self, seed: int) -> tuple[FloatArray, FloatArray]:
        """Random states within the range of the log, and random actions."""
        generator = Seed(seed).numpy("anywhere")
        seen = self.restored(self.data.observations)
        shape = (N_MORE, seen.shape[1])
        states = generator.uniform(seen.min(axis=0), seen.max(axis=0), shape)
        return states, generator.uniform(*self.limits, (N_MORE, 1))

    def true_return(self, policy: FittedPolicy, n_steps: int = 300) -> float:
        """Discounted return from the starts."""
        generator = Seed(0).numpy("truth")
        states = np.resize(self.starts, (N_RUNS, self.starts.shape[1]))
        total, alive = np.zeros((2, N_RUNS))
        alive += 1.0
        for t in range(n_steps):
            actions = policy.predict(self.observe(states))[0]
            states, rewards, ends = self.move(states, actions, generator)
            total += policy.gamma**t * alive * rewards
            alive = alive * ~ends
        return float(total.mean())


def simulated(env: Env, data: Dataset, restored: Any = np.copy) -> System:
    """A system that acts the same way twice."""
    starts = env.reset_states(15, Seed(0).numpy("initial-states"))
    limit = float(env.action_bounds[1][0])
    return System(
        data,
        starts,
        env.observe,
        restored,
        lambda states, actions, _: env.step(states, actions),
        (-limit, limit),
    )


def noisy(task: NoisyTask, data: Dataset) -> System:
    """A system in the wind."""
    system = task.system

    def move(states: FloatArray, actions: FloatArray, generator: Any) -> Step:
        return system.step(states, actions, generator.standard_normal(len(states)))

    starts = system.starts(15, Seed(0).numpy("initial-states"))
    limit = system.action_limit
    return System(data, starts, system.observe, np.copy, move, (-limit, limit))


def tanks(data: Dataset) -> System:
    """Two tanks and a pump, disturbed a little."""
    plant = TwoTanks()

    def move(levels: FloatArray, pump: FloatArray, generator: Any) -> Step:
        pumped = np.clip(pump, 0.0, 1.0)
        gusts = plant.noise * generator.standard_normal(levels.shape)
        after = np.clip(flow(levels, pumped[:, 0]) + gusts, 0.0, 1.0)
        return Step(after, rewards_of(levels, pumped), np.zeros(len(after), dtype=bool))

    starts = plant.initial_observations(0)
    return System(data, starts, np.copy, np.copy, move, (0.0, 1.0))


def angles(seen: FloatArray) -> FloatArray:
    """Angle and speed of a pendulum's cosine, sine and speed."""
    return np.stack([np.arctan2(seen[:, 1], seen[:, 0]), seen[:, 2]], axis=1)


def systems(seed: int) -> dict[str, System]:
    """Three systems with a log each."""
    swing, mass = pendulum_random_task(), double_integrator_task()
    log = replace(TwoTanks().log(4, 30, seed), action_space=None)
    return {
        "two tanks, 120 steps": tanks(log),
        "pendulum, 300 steps": simulated(swing.env, swing.dataset(300, seed), angles),
        "mass in the wind, 60 steps": noisy(mass, mass.dataset(60, seed)),
    }


def widths(system: System, seed: int) -> dict[str, Any]:
    """Widths of one policy's interval, before and after, and the true return."""
    starts = system.observe(system.starts)
    # Which policy it is does not matter here: a short search will do.
    effort: Any = {"n_updates": 5, "n_refining": 20, "progress": False}
    policy = nopg.learn(system.data, starts, gamma=GAMMA, seed=seed, **effort)
    found = policy.suggest(N_MORE)
    asked = {
        "suggested": (system.restored(found.states), np.asarray(found.actions)),
        "random": system.anywhere(seed),
    }
    policies = {"before": policy} | {
        name: replace(policy, data=system.more(*rows, seed), models=None, problem=None)
        for name, rows in asked.items()
    }
    row: dict[str, Any] = {"rows": len(found), "true": system.true_return(policy)}
    for name, one in policies.items():
        estimate = one.expected_return(0.95)
        row[name] = estimate.high - estimate.low
        row[f"{name} model"] = estimate.model
        row[f"{name} holds"] = estimate.low <= row["true"] <= estimate.high
    return row


def main(n_seeds: int) -> None:
    """Print one line per system and seed."""
    for seed in range(n_seeds):
        for name, system in systems(seed).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NopgWarning)
                row = widths(system, seed)
            shrunk = [row["before"] - row[arm] for arm in ("suggested", "random")]
            cells = "  ".join(
                f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                for key, value in row.items()
            )
            print(
                f"{name}, seed {seed}: {cells}; shrunk by {shrunk[0]:.4g} and "
                f"{shrunk[1]:.4g}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
