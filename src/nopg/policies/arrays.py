"""Policies of one shape as arrays: many small batches of states, with few calls."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nopg.errors import ConfigError
from nopg.policies.build import perceptron_layers
from nopg.policies.families import CategoricalPolicy, GaussianPolicy, NetworkPolicy, Policy

Array = NDArray[np.float64]


class Actor(Protocol):
    """Who acts, in arrays, as a regression takes actions: labels are one-hot rows."""

    def act(self, states: Array) -> Array:
        """Actions of a batch of states, (m, d_a)."""


def actor_of(*policies: Policy, is_decided: bool = True) -> Actor:
    """Policies as they act, each at as many states; undecided ones give probabilities of labels."""
    try:
        return ArrayPolicies(policies, is_decided=is_decided)
    except (ConfigError, ValueError):  # no perceptrons, or not of one shape
        return _ModuleActors(policies, is_decided)


class ArrayPolicies:
    """The first output of K policies: typical actions, or probabilities of labels.

    They are perceptrons of one shape; `is_decided` makes of labels the likeliest, a one-hot row.
    """

    def __init__(self, policies: Sequence[Policy], *, is_decided: bool = False) -> None:
        first, self.count = policies[0], len(policies)
        self.is_discrete = isinstance(first, CategoricalPolicy)
        self.is_decided = is_decided and self.is_discrete
        means, factors, weights, biases, squashes = zip(*map(_parts, policies), strict=True)
        self._mean = np.stack(means)[:, None]
        self._factor = np.stack(factors)[:, None]
        self._weights = [np.stack(each) for each in zip(*weights, strict=True)]
        self._biases = [np.stack(each)[:, None] for each in zip(*biases, strict=True)]
        self._squash: tuple[Array, Array] | None = squashes[0]
        # Behind the means of a Gaussian policy there may be its deviations.
        self._width = len(first.max_std) if isinstance(first, GaussianPolicy) else None

    def act(self, states: Array) -> Array:
        """Actions of K B states, of which each policy has B in order, (K B, d_a)."""
        x: Array = states.reshape(self.count, -1, states.shape[1])
        x = (x - self._mean) * self._factor
        for number, weight in enumerate(self._weights):
            if number:
                np.maximum(x, 0.0, out=x)
            x = x @ weight
            x += self._biases[number]
        raw: Array = x.reshape(len(states), -1)
        if self.is_discrete:
            if self.is_decided:
                return np.asarray(np.eye(raw.shape[1])[raw.argmax(axis=1)])
            shares = np.exp(raw - raw.max(axis=1, keepdims=True))
            return np.asarray(shares / shares.sum(axis=1, keepdims=True))
        if self._squash is None:
            return raw[:, : self._width]
        centre, half_width = self._squash
        return centre + half_width * np.tanh(raw[:, : len(centre)])

    def compiled_fields(self, d_a: int) -> dict[str, Any]:
        """The policies as compiled code takes them, see `dynamics/rollout.c`."""
        k, layers = self.count, zip(self._weights, self._biases, strict=True)
        flat = [(w.reshape(k, -1), b.reshape(k, -1)) for w, b in layers]
        weights, biases = (np.concatenate(each, axis=1) for each in zip(*flat, strict=True))
        middle, half = self._squash or (None, None)
        return {
            "count": k,
            "n_layers": len(flat),
            "n_out": d_a,
            "is_discrete": self.is_discrete,
            "is_decided": self.is_decided,
            "is_squashed": middle is not None and not self.is_discrete,
            "widths": [self._weights[0].shape[1], *(w.shape[2] for w in self._weights)],
            "mean": self._mean,
            "factor": self._factor,
            "weights": weights,
            "biases": biases,
            "middle": middle,
            "half": half,
        }


@torch.no_grad()
def _parts(policy: Policy) -> tuple[Any, ...]:
    """Weights and limits of a perceptron, taken out."""
    # Inputs' mean and 1 / deviation, weights (in, out), biases, centre and half width of actions.
    layers = perceptron_layers(policy)
    if not layers or isinstance(policy.network, nn.Linear):
        raise ConfigError(f"Policies as arrays must be perceptrons, got {type(policy).__name__}.")
    assert isinstance(policy, NetworkPolicy)
    weights = [weight.T.numpy().copy() for weight, _ in layers]
    biases, width = [bias.numpy().copy() for _, bias in layers], len(weights[0])
    mean, factor = np.zeros(width), np.ones(width)
    if policy.standardise is not None:
        mean = policy.standardise.mean.numpy().copy()
        factor = 1.0 / policy.standardise.std.numpy()
    squash = None
    if policy.squash is not None:
        low, high = policy.squash.low.numpy(), policy.squash.high.numpy()
        squash = (0.5 * (low + high), 0.5 * (high - low))
    return mean, factor, weights, biases, squash


class _ModuleActors:
    """Any policies, asked through torch one after the other."""

    def __init__(self, policies: Sequence[Policy], is_decided: bool) -> None:
        self._policies, self._is_decided = policies, is_decided

    @torch.no_grad()
    def act(self, states: Array) -> Array:
        found = []
        for policy, part in zip(self._policies, np.split(states, len(self._policies)), strict=True):
            like = next(policy.parameters(), torch.empty(0, dtype=torch.float64))
            inputs = torch.tensor(part).to(like)
            chosen = policy.act(inputs)
            if isinstance(policy, CategoricalPolicy):
                shares = policy.outputs(inputs)[0]
                is_one = nn.functional.one_hot(chosen, shares.shape[1])
                chosen = is_one if self._is_decided else shares
            found.append(chosen.double().cpu().numpy())
        return np.concatenate(found)
