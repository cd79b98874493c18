"""A policy as it is shipped, as a graph for other runtimes, and as plain arrays."""

import contextlib
import copy
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nopg.data.history import HistoryLayout
from nopg.errors import ConfigError, require_extra
from nopg.fitted.policy import FittedPolicy
from nopg.policies.build import perceptron_layers
from nopg.policies.families import CategoricalPolicy, GaussianPolicy, Policy


class Deployed(nn.Module):
    """Everything between an observation and a motor in one graph, clipping included."""

    limits: Tensor | None  # of actions, (2, d_a), None for discrete ones
    before: Tensor | None  # columns of the past, see `HistoryLayout`; None without memory
    first: Tensor
    copied: Tensor

    def __init__(self, policy: Policy, limits: Tensor | None, memory: HistoryLayout | None) -> None:
        super().__init__()
        self.policy, self.n_changes = policy, 0
        parts = {"limits": limits, "before": None}
        if memory is not None:
            before = torch.tensor([[*memory.before, 0.0]]).to(next(policy.parameters()))
            parts |= {"before": before, "first": torch.as_tensor(memory.first)}
            parts["copied"], self.n_changes = torch.as_tensor(memory.copied), memory.n_changes
        for name, part in parts.items():
            self.register_buffer(name, part)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what `forward` takes."""
        return ("observation", "state", "episode_start")[: 1 if self.before is None else 3]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what `forward` returns."""
        known = {CategoricalPolicy: ("probabilities",), GaussianPolicy: ("std",)}
        others = (name for kind, name in known.items() if isinstance(self.policy, kind))
        return ("action", *("next_state",) * (self.before is not None), *next(others, ()))

    def forward(
        self, observation: Tensor, state: Tensor | None = None, starts: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Action, the state for the next step if there is memory, and what else is known."""
        # `state`, (m, p), came out as `next_state` a step before, but for the (m,) that start.
        if self.before is None or state is None or starts is None:
            return self._answers(observation)
        before = self.before.expand(observation.shape[0], -1)
        first = torch.cat([observation, before], dim=1)[:, self.first]
        past, c = torch.where(starts[:, None], first, state), self.n_changes
        seen = torch.cat([observation, observation[:, :c] - past[:, :c], past[:, c:]], dim=1)
        action, *others = self._answers(seen)
        taken = action
        if self.limits is None:
            taken = (action[:, None] == torch.arange(self.before.shape[1] - 1)).to(seen)
        return (action, torch.cat([seen, taken], dim=1)[:, self.copied], *others)

    def _answers(self, states: Tensor) -> tuple[Tensor, ...]:
        """The most typical action at each state (m, d_s), and what else is known."""
        # Actions (m, d_a), and deviations of a stochastic policy; or labels (m,) and the
        # probability of each. To numbers that are not finite NaN is answered, or label -1.
        if isinstance(self.policy, CategoricalPolicy):
            (probabilities,) = self.policy.outputs(states)
            is_finite = torch.isfinite(states.sum(1) + probabilities.sum(1))
            return torch.where(is_finite, probabilities.argmax(dim=1), -1), probabilities
        if isinstance(self.policy, GaussianPolicy):
            mean, std = self.policy.outputs(states)
            # A constant spread is a view of one row; a graph wants real rows.
            return self._clipped(mean, states), std + torch.zeros_like(mean)
        return (self._clipped(self.policy.act(states), states),)

    def _clipped(self, actions: Tensor, states: Tensor) -> Tensor:
        assert self.limits is not None
        inside = torch.minimum(torch.maximum(actions, self.limits[0]), self.limits[1])
        # Runtimes differ in what the smaller of a number and NaN is.
        is_finite = torch.isfinite(states.sum(1) + actions.sum(1))
        return torch.where(is_finite[:, None], inside, torch.nan)


def deployed(fitted: FittedPolicy) -> Deployed:
    """The module of a fitted policy, on the CPU, ready to be exported."""
    policy = copy.deepcopy(fitted.policy)  # the original stays where it is
    space: Any = fitted.action_space
    limits = None
    if not isinstance(policy, CategoricalPolicy):
        limits = torch.tensor(np.stack([space.low, space.high])).to(next(policy.parameters()))
    return Deployed(policy, limits, fitted.memory).eval().cpu()


def policy_arrays(graph: Deployed) -> dict[str, Any]:
    """Layers, scaling, limits and past of a policy by name."""
    policy: Any = graph.policy
    if not (layers := perceptron_layers(policy)):
        found = " ".join(repr(getattr(policy, "network", policy)).split())
        raise ConfigError(
            "The formats numpy, c and js hold linear layers with ReLU between them, "
            f"the policy is {found[:80]}; export it as onnx."
        )
    zeros = layers[0][0].new_zeros(layers[0][0].shape[1])
    standardise = policy.standardise
    arrays: dict[str, Any] = {
        "kind": "discrete" if graph.limits is None else "continuous",
        "n_layers": len(layers),
        "mean": zeros if standardise is None else standardise.mean,
        "std": zeros + 1.0 if standardise is None else standardise.std,
    }
    if graph.before is not None:
        arrays |= {"first": graph.first, "copied": graph.copied, "before": graph.before[0]}
        arrays["n_changes"] = graph.n_changes
    for i, (weight, bias) in enumerate(layers):
        arrays |= {f"weight_{i}": weight, f"bias_{i}": bias}
    if graph.limits is not None:
        squash = policy.squash
        arrays["low"], arrays["high"] = graph.limits
        arrays["is_squashed"] = squash is not None
        if squash is not None:
            arrays["centre"] = 0.5 * (squash.high + squash.low)
            arrays["half_width"] = squash.half_width
    return {k: v.detach().numpy() if isinstance(v, Tensor) else v for k, v in arrays.items()}


def to_onnx(graph: Deployed, example: tuple[Tensor, ...], metadata: Mapping[str, Any]) -> bytes:
    """An ONNX file with the inputs of the graph, (batch, ...); `example` has two rows of each."""
    for module in ("onnx", "onnxscript", "onnxruntime"):
        require_extra(module, "export")
    batch = torch.export.Dim("batch")
    with _tracing():
        program = torch.onnx.export(
            graph,
            example,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=tuple({0: batch} for _ in example),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]  # lines of source, with the paths of this machine
    proto.doc_string = "A policy learned by nopg; observation in, action out."
    proto.metadata_props.add(key="nopg", value=json.dumps(dict(metadata)))
    return bytes(proto.SerializeToString())


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """Silence what exporters warn of, and say in one sentence why they fail."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # whatever a module of the user's own makes it raise
        reason = str(error).strip().splitlines()[:1]
        raise ConfigError(
            "The policy must be a graph of torch operations to become ONNX, tracing it failed "
            f"({type(error).__name__}: {''.join(reason)}); write it without branches on values."
        ) from None
    finally:
        logger.setLevel(before)
