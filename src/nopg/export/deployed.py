"""A policy as it is shipped, as a graph for other runtimes, and as plain arrays."""

import contextlib
import copy
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nopg.data.history import HistoryLayout
from nopg.errors import ConfigError, require_extra
from nopg.fitted.policy import FittedPolicy
from nopg.policies.build import perceptron_layers
from nopg.policies.families import CategoricalPolicy, GaussianPolicy, Policy


class Deployed(nn.Module):
    """Everything between an observation and a motor in one graph, clipping included."""

    inputs = ("observation",)
    low: Tensor | None  # (d_a,), None for discrete actions
    high: Tensor | None

    def __init__(self, policy: Policy, low: Tensor | None, high: Tensor | None) -> None:
        super().__init__()
        self.policy = policy
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what `forward` returns."""
        if isinstance(self.policy, CategoricalPolicy):
            return ("action", "probabilities")
        return ("action", "std") if isinstance(self.policy, GaussianPolicy) else ("action",)

    def forward(self, observation: Tensor) -> tuple[Tensor, ...]:
        """The most typical action at each state (m, d_s), and what else is known."""
        # Actions (m, d_a), and deviations of a stochastic policy; or labels (m,) and the
        # probability of each. To numbers that are not finite NaN is answered, or label -1.
        if isinstance(self.policy, CategoricalPolicy):
            (probabilities,) = self.policy.outputs(observation)
            is_finite = torch.isfinite(observation.sum(1) + probabilities.sum(1))
            return torch.where(is_finite, probabilities.argmax(dim=1), -1), probabilities
        if isinstance(self.policy, GaussianPolicy):
            mean, std = self.policy.outputs(observation)
            # A constant spread is a view of one row; a graph wants real rows.
            return self._clipped(mean, observation), std + torch.zeros_like(mean)
        return (self._clipped(self.policy.act(observation), observation),)

    def _clipped(self, actions: Tensor, observation: Tensor) -> Tensor:
        if self.low is None or self.high is None:
            return actions
        inside = torch.minimum(torch.maximum(actions, self.low), self.high)
        # Runtimes differ in what the smaller of a number and NaN is.
        is_finite = torch.isfinite(observation.sum(1) + actions.sum(1))
        return torch.where(is_finite[:, None], inside, torch.nan)


class DeployedWithMemory(nn.Module):
    """The same for a policy with memory: its past goes in and comes out."""

    inputs = ("observation", "state", "episode_start")
    before: Tensor
    first: Tensor
    copied: Tensor

    def __init__(self, present: Deployed, memory: HistoryLayout) -> None:
        super().__init__()
        self.present, self.is_discrete = present, memory.is_discrete
        self.n_changes = memory.n_changes
        like = next(present.parameters())
        self.register_buffer("before", torch.tensor([[*memory.before, 0.0]]).to(like))
        self.register_buffer("first", torch.as_tensor(memory.first))
        self.register_buffer("copied", torch.as_tensor(memory.copied))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what `forward` returns."""
        action, *others = self.present.outputs
        return (action, "next_state", *others)

    def forward(self, observation: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, ...]:
        """Action, the state for the next step, and what else the policy knows."""
        # `state`, (m, p), came out as `next_state` a step before, but for the (m,) that start.
        before = self.before.expand(observation.shape[0], -1)
        first = torch.cat([observation, before], dim=1)[:, self.first]
        past = torch.where(starts[:, None], first, state)
        c = self.n_changes
        seen = torch.cat([observation, observation[:, :c] - past[:, :c], past[:, c:]], dim=1)
        action, *others = self.present(seen)
        taken = action
        if self.is_discrete:
            taken = (action[:, None] == torch.arange(self.before.shape[1] - 1)).to(seen)
        return (action, torch.cat([seen, taken], dim=1)[:, self.copied], *others)


def deployed(fitted: FittedPolicy) -> Deployed | DeployedWithMemory:
    """The module of a fitted policy, on the CPU, ready to be exported."""
    policy = copy.deepcopy(fitted.policy)  # the original stays where it is
    limits: list[Tensor | None] = [None, None]
    if not isinstance(policy, CategoricalPolicy):
        space: Any = fitted.action_space
        like = next(policy.parameters())
        limits = [torch.as_tensor(limit).to(like) for limit in (space.low, space.high)]
    present = Deployed(policy, *limits)
    made: Deployed | DeployedWithMemory = present
    if fitted.memory is not None:
        made = DeployedWithMemory(present, fitted.memory)
    made.eval()
    return made.cpu()


def policy_arrays(graph: Deployed | DeployedWithMemory) -> dict[str, Any]:
    """Layers, scaling, limits and past of a policy by name."""
    past: dict[str, Any] = {}
    if isinstance(graph, DeployedWithMemory):
        past = {"first": graph.first, "copied": graph.copied, "before": graph.before[0]}
        past["n_changes"] = graph.n_changes
        graph = graph.present
    policy: Any = graph.policy
    layers = perceptron_layers(policy)
    if not layers:
        found = " ".join(repr(getattr(policy, "network", policy)).split())
        raise ConfigError(
            "The formats numpy, c and js hold linear layers with ReLU between them, "
            f"the policy is {found[:80]}; export it as onnx."
        )
    zeros = layers[0][0].new_zeros(layers[0][0].shape[1])
    standardise = policy.standardise
    arrays: dict[str, Any] = past | {
        "kind": "discrete" if graph.low is None else "continuous",
        "n_layers": len(layers),
        "mean": zeros if standardise is None else standardise.mean,
        "std": zeros + 1.0 if standardise is None else standardise.std,
    }
    for i, (weight, bias) in enumerate(layers):
        arrays |= {f"weight_{i}": weight, f"bias_{i}": bias}
    if graph.low is not None:
        squash = policy.squash
        arrays |= {"low": graph.low, "high": graph.high}
        arrays["is_squashed"] = squash is not None
        if squash is not None:
            arrays["centre"] = 0.5 * (squash.high + squash.low)
            arrays["half_width"] = squash.half_width
    for name, value in arrays.items():
        arrays[name] = value.detach().numpy() if isinstance(value, Tensor) else value
    return arrays


def to_onnx(
    graph: Deployed | DeployedWithMemory, example: tuple[Tensor, ...], metadata: Mapping[str, Any]
) -> bytes:
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
    content: bytes = proto.SerializeToString()
    return content


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
