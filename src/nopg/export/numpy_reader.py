"""Runs a policy exported with `nopg export --format numpy`; needs numpy alone."""

from typing import Any

import numpy as np


class NumpyPolicy:
    """policy = NumpyPolicy("policy.npz"); action = policy(observation)."""

    def __init__(self, path: Any) -> None:
        with np.load(path, allow_pickle=False) as file:
            self.arrays = {name: file[name] for name in file.files}

    def outputs(self, observation: Any) -> Any:
        """Raw outputs of the last layer, (m, width)."""
        a, x = self.arrays, np.atleast_2d(observation)
        if x.shape[1:] != a["mean"].shape:
            raise ValueError(f"a state has {len(a['mean'])} numbers, not {x.shape[1]}")
        x = (x.astype(a["mean"].dtype) - a["mean"]) / a["std"]
        for i in range(int(a["n_layers"])):
            x = (np.maximum(x, 0.0) if i else x) @ a[f"weight_{i}"].T + a[f"bias_{i}"]
        return x

    def __call__(self, observation: Any) -> Any:
        """Action or label at one state (d_s,) or at several (m, d_s)."""
        a, x = self.arrays, self.outputs(observation)
        if str(a["kind"]) == "discrete":
            action = x.argmax(axis=1)
        else:
            x = x[:, : len(a["low"])]  # a stochastic policy: its mean
            x = a["centre"] + a["half_width"] * np.tanh(x) if a["is_squashed"] else x
            action = np.clip(x, a["low"], a["high"])
        return action[0] if np.ndim(observation) == 1 else action
