"""Runs a policy exported with `nopg export --format numpy`; needs numpy alone."""

from typing import Any

import numpy as np


class NumpyPolicy:
    """policy = NumpyPolicy("policy.npz"); action = policy(observation)."""

    def __init__(self, path: Any) -> None:
        with np.load(path, allow_pickle=False) as file:
            self.arrays = dict(file)

    def outputs(self, observation: Any) -> Any:
        """Raw outputs of the last layer, (m, width)."""
        a, x = self.arrays, np.atleast_2d(np.asarray(observation, dtype=float))
        is_fine = x.shape[1:] == a["mean"].shape and np.isfinite(x).all()
        x = (x.astype(a["mean"].dtype) - a["mean"]) / a["std"] if is_fine else x
        for i in range(int(a["n_layers"]) if is_fine else 0):
            x = (np.maximum(x, 0.0) if i else x) @ a[f"weight_{i}"].T + a[f"bias_{i}"]
        if not is_fine or not np.isfinite(x).all():
            raise ValueError(f"a state has {len(a['mean'])} numbers, each finite")
        return x

    def __call__(self, observation: Any) -> Any:
        """Action or label at one state (d_s,) or at several (m, d_s)."""
        a, x = self.arrays, self.outputs(observation)
        is_discrete = str(a["kind"]) == "discrete"
        if not is_discrete:
            x = x[:, : len(a["low"])]  # a stochastic policy: its mean
            x = a["centre"] + a["half_width"] * np.tanh(x) if a["is_squashed"] else x
        action = x.argmax(axis=1) if is_discrete else np.clip(x, a["low"], a["high"])
        return action[0] if np.ndim(observation) == 1 else action


class NumpyMemoryPolicy(NumpyPolicy):
    """The same for a policy with memory: action, state = policy.step(o, state)."""

    def step(self, observation: Any, state: Any = None, start: Any = False) -> Any:
        """Actions and the next `state`; None starts an episode, as `start` does."""
        a, x = self.arrays, np.atleast_2d(observation)
        first = np.concatenate([x, np.tile(a["before"], (len(x), 1))], axis=1)
        first = first[:, a["first"]]  # (m, p): the past before anything was done
        starts = np.reshape(start, (-1, 1)) if state is not None else True
        past = np.where(starts, first, first if state is None else state)
        past[:, : a["n_changes"]] = x[:, : a["n_changes"]] - past[:, : a["n_changes"]]
        seen = np.concatenate([x, past], axis=1)
        taken = action = self(seen)
        if str(a["kind"]) == "discrete":
            taken = np.eye(len(a["before"]) - 1)[action]
        state = np.concatenate([seen, taken], axis=1)[:, a["copied"]]
        return (action[0] if np.ndim(observation) == 1 else action), state
