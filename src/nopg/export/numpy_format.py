"""A policy as plain arrays: layers, scaling, limits and past."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nopg.errors import ConfigError
from nopg.export.deployed import Deployed, DeployedWithMemory
from nopg.policies.build import Gain
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
    policy = graph.policy
    families = (DeterministicPolicy, GaussianPolicy, CategoricalPolicy)
    if not isinstance(policy, families):
        raise _refusal(policy)
    layers = list(_layers(policy.network))
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


def _layers(network: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    """Weight and bias of each linear layer; ReLU between them, and nothing else."""
    if isinstance(network, Gain):
        gain = network.gain
        weight = torch.diag(gain) if gain.ndim == 1 else gain
        yield weight, weight.new_zeros(len(weight))
        return
    steps = list(network) if isinstance(network, nn.Sequential) else [network]
    for i, step in enumerate(steps):
        if type(step) is not (nn.ReLU if i % 2 else nn.Linear):
            raise _refusal(step)
        if isinstance(step, nn.Linear):
            zeros = step.weight.new_zeros(len(step.weight))
            yield step.weight, zeros if step.bias is None else step.bias
    if len(steps) % 2 == 0:
        raise _refusal(steps[-1] if steps else network)


def _refusal(found: nn.Module) -> ConfigError:
    return ConfigError(
        "The formats numpy, c and js hold linear layers with ReLU between them, got a "
        f"{type(found).__name__} in the policy; export it as onnx."
    )
