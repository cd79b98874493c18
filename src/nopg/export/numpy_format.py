"""A policy as plain arrays: layers, scaling, limits and past."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nopg.errors import ConfigError
from nopg.export.deployed import Deployed, DeployedWithMemory
from nopg.policies.arrays import perceptron_layers
from nopg.policies.families import (
    CategoricalPolicy,
    DeterministicPolicy,
    GaussianPolicy,
    Squash,
    Standardise,
)


def policy_arrays(graph: Deployed | DeployedWithMemory) -> dict[str, Any]:
    """Layers, scaling, limits and past of a policy by name."""
    past: dict[str, Any] = {}
    if isinstance(graph, DeployedWithMemory):
        past = {"first": graph.first, "copied": graph.copied, "before": graph.before[0]}
        past["n_changes"] = graph.n_changes
        graph = graph.present
    policy: Any = graph.policy
    families = (DeterministicPolicy, GaussianPolicy, CategoricalPolicy)
    layers = perceptron_layers(policy.network) if isinstance(policy, families) else []
    if not layers:
        found = " ".join(repr(getattr(policy, "network", policy)).split())
        raise ConfigError(
            "The formats numpy, c and js hold linear layers with ReLU between them, "
            f"the policy is {found[:80]}; export it as onnx."
        )
    zeros = layers[0][0].new_zeros(layers[0][0].shape[1])
    standardise: Standardise | None = policy.standardise
    arrays: dict[str, Any] = past | {
        "kind": "discrete" if graph.low is None else "continuous",
        "n_layers": len(layers),
        "mean": zeros if standardise is None else standardise.mean,
        "std": zeros + 1.0 if standardise is None else standardise.std,
    }
    for i, (weight, bias) in enumerate(layers):
        arrays |= {f"weight_{i}": weight, f"bias_{i}": bias}
    if graph.low is not None:
        squash: Squash | None = getattr(policy, "squash", None)
        arrays |= {"low": graph.low, "high": graph.high}
        arrays["is_squashed"] = squash is not None
        if squash is not None:
            arrays["centre"] = 0.5 * (squash.high + squash.low)
            arrays["half_width"] = squash.half_width
    for name, value in arrays.items():
        arrays[name] = value.detach().numpy() if isinstance(value, Tensor) else value
    return arrays
