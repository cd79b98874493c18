"""Policies from plain numbers and text, and their perceptrons there and back."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Generator, Tensor, nn

from nopg.compiled import compiled_for, packed
from nopg.errors import ConfigError, require_choice
from nopg.policies import families
from nopg.policies.families import CategoricalPolicy, DeterministicPolicy, GaussianPolicy, Policy
from nopg.threads import threads_for

KINDS = ("deterministic", "stochastic", "discrete")
FEW = 200_000  # multiplications that are worth a thread of their own


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """A policy in JSON: everything but its parameters."""

    kind: str  # "deterministic", "stochastic" or "discrete"
    n_states: int  # state dimension d_s
    n_outputs: int  # action dimension d_a, or the number of discrete actions
    hidden: tuple[int, ...] | None = (50,)  # None makes the policy linear, u = K s
    is_squashed: bool = True  # whether actions are squashed into the action box
    is_standardised: bool = True  # inside the policy; the paper does not

    def __post_init__(self) -> None:
        require_choice("policy", self.kind, KINDS)
        if self.hidden is not None:
            widths = tuple(self.hidden)
            if not all(isinstance(width, int) and width > 0 for width in widths):
                raise ConfigError(f"`hidden` must be positive whole numbers, got {self.hidden!r}.")
            object.__setattr__(self, "hidden", widths)

    def build(
        self,
        generator: Generator,  # source of the first parameters
        low: Tensor | None = None,  # lower corner of the action box, (d_a,)
        high: Tensor | None = None,  # upper corner
        max_std: Tensor | None = None,  # (d_a,); half the half width by default
    ) -> Policy:
        """A fresh policy with parameters from `generator`."""
        network = self._network(generator)
        standardise = families.Standardise(self.n_states) if self.is_standardised else None
        if self.kind == "discrete":
            return CategoricalPolicy(network, standardise)
        zeros = torch.zeros(self.n_outputs, dtype=torch.float64)
        ends = (zeros - 1.0 if low is None else low, zeros + 1.0 if high is None else high)
        squash = families.Squash(*ends)
        kept = squash if self.is_squashed else None
        if self.kind == "deterministic":
            return DeterministicPolicy(network, standardise, kept)
        widest = 0.5 * squash.half_width if max_std is None else max_std
        return GaussianPolicy(network, widest, standardise, kept)

    def _network(self, generator: Generator) -> nn.Module:
        width = self.n_outputs * (2 if self.kind == "stochastic" else 1)
        if self.hidden is not None:
            return mlp(self.n_states, width, self.hidden, generator)
        first = torch.randn((width, self.n_states), dtype=torch.float64, generator=generator)
        return Gain(0.1 * first)


def linear_policy(
    gain: Sequence[float] | Sequence[Sequence[float]] | Tensor, std: Sequence[float] | None = None
) -> Policy:
    """u = K s, plus Gaussian noise when `std` is given; K full (d_a, d_s) or diagonal.

    Args:
        gain: First value of K: a matrix, or a vector for its diagonal.
        std: Standard deviation of each action, not learned.
    """
    network = Gain(torch.as_tensor(gain, dtype=torch.float64))
    if std is None:
        return DeterministicPolicy(network)
    return GaussianPolicy(network, torch.as_tensor(std, dtype=torch.float64))


def mlp(width_in: int, width_out: int, hidden: Sequence[int], draws: Generator) -> nn.Sequential:
    """A float64 perceptron with ReLU between its layers."""
    # Weights are Xavier uniform and biases uniform in 1 / sqrt(width), as in the authors' release;
    # drawing them here keeps the global generator out of it.
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise([width_in, *hidden, width_out]):
        layer = nn.Linear(fan_in, fan_out, dtype=torch.float64)
        with torch.no_grad():
            bound = math.sqrt(6.0 / (fan_in + fan_out))
            layer.weight.uniform_(-bound, bound, generator=draws)
            edge = 1.0 / math.sqrt(fan_in)
            layer.bias.uniform_(-edge, edge, generator=draws)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Gain(nn.Module):
    """u = K x with a full gain matrix, or a diagonal one as in the paper's LQR."""

    def __init__(self, gain: Tensor) -> None:
        super().__init__()
        self.gain = nn.Parameter(gain.to(torch.float64).clone())  # (d_a, d_s) or (d,)

    def forward(self, states: Tensor) -> Tensor:
        """K x for each state, (m, d_a)."""
        return states * self.gain if self.gain.ndim == 1 else states @ self.gain.T


def perceptron_layers(module: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Weight (width out, width in) and bias of linear layers, if ReLU is between."""
    network = module.network if isinstance(module, families.NetworkPolicy) else module
    if isinstance(network, Gain):
        weight = torch.diag(network.gain) if network.gain.ndim == 1 else network.gain
        return [(weight, weight.new_zeros(len(weight)))]
    steps: list[Any] = [*network] if isinstance(network, nn.Sequential) else [network]
    kinds = [nn.ReLU if i % 2 else nn.Linear for i in range(len(steps))]
    is_alike = all(type(x) is kind for x, kind in zip(steps, kinds, strict=True))
    if not is_alike or len(steps) % 2 == 0:
        return []
    return [
        (x.weight, x.weight.new_zeros(len(x.weight)) if x.bias is None else x.bias)
        for x in steps[::2]
    ]


@dataclass(frozen=True)
class PerceptronPass:
    """What a policy says at some states, and the way back, by `perceptron.c`.

    Autograd makes a hundred calls, which cost more than a thousand states and fifty units do.
    """

    outputs: tuple[Tensor, ...]
    library: Any
    parameters: Sequence[Tensor]  # weight and bias of each layer in turn
    given: tuple[Any, ...]  # what C reads beside them, there and back
    n_learned: int  # outputs that are: a spread may be a constant

    @classmethod
    @torch.no_grad()
    def of(cls, policy: Policy, states: Tensor, *, only_slopes: bool = False) -> Self | None:
        """Forwards; None without a compiler, or if not all of it is a learned perceptron."""
        kinds = (DeterministicPolicy, GaussianPolicy, CategoricalPolicy)
        library = compiled_for(states, "nopg.policies", "perceptron.c")
        if library is None or type(policy) not in kinds:  # others may say something else
            return None
        assert isinstance(policy, kinds)
        layers, before, box = perceptron_layers(policy), policy.standardise, policy.squash
        learned = [p for p in policy.parameters() if p.requires_grad]
        if not layers or [id(p) for layer in layers for p in layer] != [id(p) for p in learned]:
            return None
        most = policy.max_std if isinstance(policy, GaussianPolicy) else None
        centre = (None, None) if before is None else (before.mean, before.std)
        ends = (*centre, *((None, None) if box is None else (box.low, box.high)), most)
        d, m = states.shape[1], len(states)
        widths = [d, *(len(bias) for _, bias in layers)]
        d_a = widths[-1] if most is None else len(most)
        shapes = [(d,), (d,), (d_a,), (d_a,), (d_a,), *zip(widths[1:], widths, strict=False)]
        used = zip((*ends, *(weight for weight, _ in layers)), shapes, strict=True)
        fits = [x is None or (x.shape, x.dtype) == (shape, states.dtype) for x, shape in used]
        fits += [p.is_contiguous() for p in learned]
        if not all(fits) or widths[-1] not in (d_a, 2 * d_a):
            return None  # torch says what is wrong
        n_learned, is_label = sum(p.numel() for p in learned), type(policy) is kinds[2]
        sizes = (m, len(layers), d_a, is_label, n_learned, np.array(widths))
        count = widths[-1] // d_a
        rest = () if most is None or count > 1 else (most.expand(m, d_a),)
        outputs = (*states.new_empty((count, m, d_a)), *rest)
        found = cls(outputs, library, learned, (*sizes, states.contiguous(), *ends), count)
        return found if only_slopes else found.again()

    @torch.no_grad()
    def again(self) -> Self:
        """Forwards with the parameters as they are now."""
        n = self.n_learned
        said = [torch.empty_like(output) for output in self.outputs[:n]]
        self._run((None, None, *said, None, None)[:5], [])
        return replace(self, outputs=(*said, *self.outputs[n:]))

    @torch.no_grad()
    def vjp(self, slopes: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Backwards: slopes by the outputs become slopes by the parameters."""
        found = [torch.empty_like(p) for p in self.parameters]
        self._run((*(slope.contiguous() for slope in slopes), *[None] * 4)[:5], found)
        return tuple(found)

    @torch.no_grad()
    def jacobian(self) -> Tensor:
        """The slopes of the first output, d_a columns, by the states, (m, d_a, d)."""
        (m, d_a), states = self.outputs[0].shape, self.given[6]
        found: Tensor = states.new_empty((m, d_a, states.shape[1]))
        self._run((None, None, None, None, found), [])
        return found

    def fields(self, *pairs: Tensor | None) -> tuple[Any, ...]:
        """For C, with slopes by outputs and spreads, or both of these, or slopes by states."""
        return (*self.given, *pairs, *self.parameters)

    @property
    def worth(self) -> int:
        """Threads that a pass is worth."""
        return int(1 + self.given[0] * self.given[4] // FEW)

    def _run(self, pairs: tuple[Tensor | None, ...], found: list[Tensor]) -> None:
        given = packed(*self.fields(*pairs), *found)
        if self.library.nopg_perceptron(given, threads_for(self.worth)):
            raise MemoryError("There is no memory for what the policy says.")
