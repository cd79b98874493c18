"""Is it worth recording where `policy.suggest` says? Beside recording at random.

    python -m reproduction.record_next [SEEDS [JOBS]]

A policy is learned from a small log. 200 more steps are then recorded in the simulator:
40 runs of five steps that begin where `suggest` says with the action it names and go on
with the policy, or begin anywhere in the range of the log and go on at random. The same
policy is evaluated again with all rows. A line has the width of its 95% interval before
and after, NaN where the return is unknown, its standard deviation for lack of data, and
the true return.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import nopg
from nopg.data.dataset import Dataset
from nopg.data.sampling import merge
from nopg.errors import NopgWarning
from nopg.fitted.policy import FittedPolicy
from nopg.randomness import Seed
from reproduction.envs.base import Env, FloatArray, Step
from reproduction.envs.pendulum import Pendulum
from reproduction.tasks.continuous import cart_pole_task
from reproduction.tasks.noisy import NoisyTask, double_integrator_task
from reproduction.tasks.two_tanks import TwoTanks, flow, rewards_of

N_STARTS, N_STEPS, GAMMA = 40, 5, 0.95
N_RUNS = 200
"""Runs that the true return is the mean of."""
ARMS = ("before", "suggested", "random")
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

    def more(self, states: FloatArray, act: Callable[..., Any], seed: int) -> Dataset:
        """The log and short runs from other states, (m, d_state)."""
        generator, rows = Seed(seed).numpy("recording"), []
        for t in range(N_STEPS):
            seen = self.observe(states)
            actions = np.asarray(act(seen, t), dtype=np.float64)
            states, rewards, ends = self.move(states, actions, generator)
            is_last = np.full(len(states), t == N_STEPS - 1)
            after = (self.observe(states), ends, is_last & ~ends)
            rows.append((seen, actions, rewards, *after, np.arange(len(states))))
        columns = [np.stack(one, axis=1) for one in zip(*rows, strict=True)]
        flat: list[Any] = [one.reshape(-1, *one.shape[2:]) for one in columns]
        names: Any = {
            "observation_names": self.data.observation_names,
            "action_names": self.data.action_names,
        }
        return merge(self.data, Dataset(*flat, **names))

    def anywhere(self, seed: int) -> FloatArray:
        """Random states within the range of the log, (N_STARTS, d_state)."""
        seen = self.restored(self.data.observations)
        shape = (N_STARTS, seen.shape[1])
        generator = Seed(seed).numpy("anywhere")
        return generator.uniform(seen.min(axis=0), seen.max(axis=0), shape)

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


def centred(seen: FloatArray) -> FloatArray:
    """States of a cart-pole whose cart, which is not observed, stands in the middle."""
    return np.insert(seen, 0, 0.0, axis=1)


def swings(env: Env, seed: int) -> Dataset:
    """Twelve episodes of fifteen random torques, from any angle and many speeds."""
    generator = Seed(seed).numpy("data")
    states, rows = generator.uniform([-np.pi, -4.0], [np.pi, 4.0], (12, 2)), []
    for _ in range(15):
        torques = generator.uniform(*env.action_bounds, (12, 1))
        after, rewards, ends = env.step(states, torques)
        rows.append((env.observe(states), torques, rewards, env.observe(after), ends))
        states = after
    columns = [np.stack(one, axis=1) for one in zip(*rows, strict=True)]
    flat: list[Any] = [one.reshape(180, *one.shape[2:]) for one in columns]
    is_last = np.arange(180) % 15 == 14
    names: Any = {"observation_names": env.observation_names, "action_names": env.action_names}
    flat += [is_last, np.arange(180) // 15]
    return Dataset(*flat, **names)


def systems(seed: int) -> dict[str, System]:
    """Systems with a small log each."""
    env, cart, mass = Pendulum(), cart_pole_task(), double_integrator_task()
    log = replace(TwoTanks().log(4, 30, seed), action_space=None)
    return {
        "two tanks, 120 steps": tanks(log),
        "pendulum, 180 steps": simulated(env, swings(env, seed), angles),
        "cart-pole, 60 steps": simulated(cart.env, cart.dataset(60, seed), centred),
        "mass in the wind, 100 steps": noisy(mass, mass.dataset(100, seed)),
    }


def widths(system: System, seed: int) -> dict[str, Any]:
    """Widths of one policy's interval, before and after, and the true return."""
    starts = system.observe(system.starts)
    # Which policy it is does not matter here: a short search will do.
    effort: Any = {"n_updates": 5, "n_refining": 20, "progress": False}
    policy = nopg.learn(system.data, starts, gamma=GAMMA, seed=seed, **effort)
    found = policy.suggest(N_STARTS)
    draws = Seed(seed).numpy("random-actions")

    def suggested(seen: FloatArray, t: int) -> Any:
        return found.actions if t == 0 else policy.predict(seen)[0]

    def random(seen: FloatArray, t: int) -> Any:
        return draws.uniform(*system.limits, (len(seen), 1))

    logs = {
        "before": system.data,
        "suggested": system.more(system.restored(found.states), suggested, seed),
        "random": system.more(system.anywhere(seed), random, seed),
    }
    policies = {
        name: replace(policy, data=log, models=None, problem=None) for name, log in logs.items()
    }
    row: dict[str, Any] = {"rows": len(found), "true": system.true_return(policy)}
    for name, one in policies.items():
        estimate = one.expected_return(0.95)
        row[name] = estimate.high - estimate.low
        row[f"{name} model"] = estimate.model
        row[f"{name} holds"] = estimate.low <= row["true"] <= estimate.high
    return row


def trial(name: str, seed: int) -> dict[str, Any]:
    """One log of a system."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NopgWarning)
        system = systems(seed)[name]
        row = widths(system, seed)
    # Nothing known is as wide as all that rewards allow.
    rewards = system.data.rewards
    row["widest"] = float(np.ptp(rewards)) / (1.0 - GAMMA)
    return row


def main(n_seeds: int, n_jobs: int) -> None:
    """Print one line per system and seed, and how much intervals shrink."""
    keys = [(name, seed) for name in systems(0) for seed in range(n_seeds)]
    rows = Parallel(n_jobs=n_jobs)(delayed(trial)(*key) for key in keys)
    found: dict[str, list[list[float]]] = {}
    for (name, seed), row in zip(keys, rows, strict=True):
        cells = "  ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items()
        )
        print(f"{name}, seed {seed}: {cells}")
        width = [np.nan_to_num(row[arm], nan=row["widest"]) for arm in ARMS]
        lost = [width[0] - width[1], width[0] - width[2]]
        found.setdefault(name, []).append([*lost, row["suggested model"] / row["random model"]])
    print("\nWidth lost to suggested and to random steps, over seeds; deviation left over random's")
    for name, each in found.items():
        suggested, random, left = np.transpose(each)
        twice = int((suggested >= 2.0 * random).sum())
        print(
            f"{name}: median {np.median(suggested):.4g} and {np.median(random):.4g}, "
            f"mean {suggested.mean():.4g} and {random.mean():.4g}, twice as much in {twice} of "
            f"{len(each)}; {np.median(left):.3g}"
        )


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:]]
    main(*numbers, *(3, 1)[len(numbers) :])
