"""What a policy is: states in, the parameters of an action distribution out."""

import hashlib
import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from nopg.errors import ConfigError


class Policy(nn.Module, ABC):
    """A differentiable map from states to action distributions."""

    @abstractmethod
    def outputs(self, states: Tensor) -> tuple[Tensor, ...]:
        """Parameters of the action distribution at each state, (m, d_s) in."""

    @abstractmethod
    def act(self, states: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Actions at each state: the most typical one, or a draw if `generator`."""

    def forward(self, states: Tensor) -> Tensor:
        """The most typical action at each state."""
        return self.act(states)


FAR = 1e12  # a spread beside which no observation counts


class Standardise(nn.Module):
    """(x - mean) / std a column; the identity until `fit_to` is called."""

    mean: Tensor
    std: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("std", torch.ones(width, dtype=torch.float64))

    def fit_to(self, samples: Tensor) -> None:
        """Take mean and spread from data, (n, width); constant columns keep std 1."""
        std = samples.std(dim=0, correction=0)
        self.mean.copy_(samples.mean(dim=0))
        self.std.copy_(torch.where(std > 0, std, torch.ones_like(std)))

    def ignore(self, columns: Tensor) -> None:
        """Make nothing of these columns, flags of shape (width,)."""
        self.std[columns] = FAR

    def forward(self, x: Tensor) -> Tensor:
        """Standardised columns, (m, width)."""
        return (x - self.mean) / self.std


class Squash(nn.Module):
    """Maps any number into the action box: centre + half width * tanh(x)."""

    low: Tensor
    high: Tensor

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__()
        for name, end in (("low", low), ("high", high)):  # copies, since the box is the user's
            self.register_buffer(name, end.double().clone(memory_format=torch.contiguous_format))

    @property
    def half_width(self) -> Tensor:
        """Half the length of each side of the box, (d_a,)."""
        return 0.5 * (self.high - self.low)

    def forward(self, x: Tensor) -> Tensor:
        """Actions strictly inside the box, (m, d_a)."""
        return torch.addcmul(0.5 * (self.high + self.low), self.half_width, torch.tanh(x))


class NetworkPolicy(Policy):
    """A policy around a network, with what comes before it and what comes after."""

    def __init__(
        self,
        network: nn.Module,
        standardise: Standardise | None = None,
        squash: Squash | None = None,
    ) -> None:
        super().__init__()
        self.standardise, self.network, self.squash = standardise, network, squash

    def outputs(self, states: Tensor) -> tuple[Tensor, ...]:
        """What the policy says at each state; see `from_raw` of its family."""
        x = states if self.standardise is None else self.standardise(states)
        return self.from_raw(self.network(x))

    @abstractmethod
    def from_raw(self, raw: Tensor) -> tuple[Tensor, ...]:
        """What becomes of the numbers of the network, (m, width)."""

    def _squashed(self, raw: Tensor) -> Tensor:
        return raw if self.squash is None else self.squash(raw)


class DeterministicPolicy(NetworkPolicy):
    """One action per state: squash(network(standardise(s))).

    Args:
        network: States (m, d_s) to raw actions (m, d_a).
        standardise: Applied to the states first; None leaves them as they are.
        squash: Applied to the raw actions last; None leaves them unbounded.
    """

    def from_raw(self, raw: Tensor) -> tuple[Tensor, ...]:
        """The action at each state, ((m, d_a),)."""
        return (self._squashed(raw),)

    def act(self, states: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The action at each state; a deterministic policy draws nothing."""
        return self.outputs(states)[0]


class GaussianPolicy(NetworkPolicy):
    """Independent Gaussian actions: mean as above, std = max_std * sigmoid(head).

    Args:
        network: States to means, then std heads, (m, 2 d_a); or to means alone for one spread.
        max_std: Largest standard deviation, (d_a,); that itself with a network of width d_a.
        standardise: Applied to the states first; None leaves them as they are.
        squash: Applied to the raw means; None leaves them unbounded.
    """

    max_std: Tensor

    def __init__(
        self,
        network: nn.Module,
        max_std: Tensor,
        standardise: Standardise | None = None,
        squash: Squash | None = None,
    ) -> None:
        super().__init__(network, standardise, squash)
        self.register_buffer("max_std", max_std.to(torch.float64))

    def from_raw(self, raw: Tensor) -> tuple[Tensor, ...]:
        """Mean and standard deviation at each state, ((m, d_a), (m, d_a))."""
        d_a = len(self.max_std)
        if raw.shape[1] <= d_a:
            return self._squashed(raw), self.max_std.expand(raw.shape[0], d_a)
        # One call to split: the way back is one call then, too.
        mean, heads = torch.split(raw, [d_a, raw.shape[1] - d_a], dim=1)
        return self._squashed(mean), self.max_std * torch.sigmoid(heads)

    def act(self, states: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The mean action, or a draw; draws may leave the action box."""
        mean, std = self.outputs(states)
        if generator is None:
            return mean
        noise = torch.randn(mean.shape, dtype=mean.dtype, device=mean.device, generator=generator)
        return mean + std * noise


class CategoricalPolicy(NetworkPolicy):
    """Probabilities softmax(network(standardise(s))) over n_actions labels.

    Args:
        network: States (m, d_s) to logits (m, n_actions).
        standardise: Applied to the states first; None leaves them as they are.
    """

    def from_raw(self, raw: Tensor) -> tuple[Tensor, ...]:
        """The probability of each action at each state, ((m, n_actions),)."""
        return (torch.softmax(raw, dim=1),)

    def act(self, states: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The likeliest label at each state, or a draw, (m,) int64."""
        (probabilities,) = self.outputs(states)
        if generator is None:
            return probabilities.argmax(dim=1)
        return torch.multinomial(probabilities, 1, generator=generator)[:, 0]


def as_policy(module: nn.Module) -> Policy:
    """A policy as it is; any other module becomes a deterministic one."""
    return module if isinstance(module, Policy) else DeterministicPolicy(module)


def checked_outputs(
    policy: Policy, states: Tensor, width: int, outputs: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, ...]:
    """What the policy says, or has said, `width` columns each, if all of it is finite."""
    outputs = policy.outputs(states) if outputs is None else outputs
    expected = (len(states), width)
    what = "probabilities" if isinstance(policy, CategoricalPolicy) else "actions"
    for output in outputs:
        if not isinstance(output, Tensor) or tuple(output.shape) != expected:
            found = tuple(output.shape) if isinstance(output, Tensor) else type(output)
            raise ConfigError(
                f"The policy must return {what} of shape {expected}, it returned {found}; mend it."
            )
        # One bad number spoils the sum; so does overflow, hence the second look.
        if not math.isfinite(output.sum().item()) and not bool(torch.isfinite(output).all()):
            bad = int((~torch.isfinite(output)).any(dim=1).nonzero()[0])
            raise ConfigError(
                f"The policy must return finite {what}, it returned {output[bad].tolist()} at "
                f"state {states[bad].tolist()}; lower the learning rate or check its parameters."
            )
    return outputs


def parameters_digest(policy: Policy) -> str:
    """Which policy it is, to the last bit."""
    total = hashlib.sha256()
    for parameter in policy.parameters():
        total.update(parameter.detach().double().numpy().tobytes())
    return total.hexdigest()
