"""Distillation: a policy is taught what a plan does, or someone who knows how.

A batch is a hundred calls of torch, forwards and backwards, that cost several times their
arithmetic; and there are thousands of batches. So perceptrons are differentiated here by hand, in
single precision: what is taught is far less exact than that.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.algorithms.search.planning import DistillationTargets
from nopg.policies.adam import Adam, cosine_decay
from nopg.policies.build import Gain, perceptron_layers
from nopg.policies.families import CategoricalPolicy, DeterministicPolicy, GaussianPolicy, Policy

N_STEPS = 300  # steps of Adam on all targets; the error of a plan is level by then
LEARNING_RATE = 1e-2
BATCH, EPOCHS, MAX_STEPS = 256, 400, 20_000  # of close distillation

KNOWN = (DeterministicPolicy, GaussianPolicy, CategoricalPolicy)
Real = NDArray[np.floating[Any]]


def distil(policy: Policy, targets: DistillationTargets, is_close: bool = False) -> float:
    """Fit the typical actions of `policy` to the targets, in place.

    States count by their advantage weights: where all actions are as good, any will do. Labels are
    fitted by their likelihood, other actions by their squared error in units of the targets' range.

    Plans are rough, and so is what is made of them at first. What was done by someone who knows how
    is worth following closely, for some seconds: a balance is lost by small errors. What comes is
    the mean error that is left.
    """
    student = Student(policy, targets)
    n, n_steps, rate = len(targets.states), N_STEPS, LEARNING_RATE
    if is_close:
        n_steps = min(max(N_STEPS, EPOCHS * n // BATCH), MAX_STEPS)
        rate = 0.5 * LEARNING_RATE
    generator, adam = np.random.default_rng(0), Adam([student.parameters])
    rows: NDArray[np.int64] | slice = slice(None)
    for step in range(n_steps):
        if is_close and n > BATCH:
            rows = generator.integers(n, size=BATCH)
        student.error(rows)
        adam.step([student.ascent], rate * cosine_decay(step, n_steps))
    student.teach(policy)
    return Student(policy, targets, torch.float64).error(slice(None))


class Student:
    """A perceptron in arrays, the targets it learns, and the gradient of its error."""

    def __init__(
        self, policy: Policy, targets: DistillationTargets, dtype: torch.dtype = torch.float32
    ) -> None:
        assert isinstance(policy, KNOWN)  # of these there are arrays
        x, wanted, weights = (torch.from_numpy(part) for part in targets[:3])
        x = x if policy.standardise is None else policy.standardise(x)
        self._x, self._wanted, self._weights = (p.to(dtype).numpy() for p in (x, wanted, weights))
        span = np.ptp(self._wanted, axis=0)
        self._span = np.where(span > 1e-9, span, np.ones_like(span))  # never changes
        self._is_discrete = isinstance(policy, CategoricalPolicy)
        self._squash = None
        if policy.squash is not None and not self._is_discrete:
            middle = 0.5 * (policy.squash.low + policy.squash.high)
            self._squash = [part.to(dtype).numpy() for part in (middle, policy.squash.half_width)]
        self._has_bias = not isinstance(policy.network, Gain)
        parts = [p.detach().numpy().T for layer in perceptron_layers(policy.network) for p in layer]
        self._shapes = [part.shape for part in parts]
        flat = np.concatenate([part.ravel() for part in parts])
        self.parameters = torch.from_numpy(flat).to(dtype)  # all of them in one tensor
        self._first = self.parameters.clone()
        self.ascent = torch.zeros_like(self.parameters)  # of the error, downwards
        self._own, self._slopes = map(self._layers, (self.parameters, self.ascent))

    def error(self, rows: NDArray[np.int64] | slice) -> float:
        """The weighted mean error at some of the targets; `ascent` becomes its own."""
        x, inputs = self._x[rows], []
        for number, (weight, bias) in enumerate(self._own):
            if number:
                np.maximum(x, 0.0, out=x)
            inputs.append(x)
            x = x @ weight
            x += bias
        error, slope = self._misfit(x, self._wanted[rows], self._weights[rows])
        for number in range(len(inputs) - 1, -1, -1):
            by_weight, by_bias = self._slopes[number]
            np.matmul(inputs[number].T, slope, out=by_weight)
            np.sum(slope, axis=0, out=by_bias)
            by_bias *= self._has_bias
            if number:
                weight = self._own[number][0].T
                slope = slope * weight if len(weight) == 1 else slope @ weight
                slope *= inputs[number] > 0.0
        return error

    def _misfit(self, raw: Real, wanted: Real, weights: Real) -> tuple[float, Real]:
        """The error of raw outputs, and how it falls with them, (m, width)."""
        share = (weights / len(raw))[:, None]
        if self._is_discrete:
            likely = np.exp(raw - raw.max(axis=1, keepdims=True))
            likely /= likely.sum(axis=1, keepdims=True)
            each = -wanted * np.log(np.maximum(likely, 1e-9))
            total = wanted.sum(axis=1, keepdims=True)
            return float((share * each).sum()), share * (wanted - total * likely)
        k, slope = wanted.shape[1], np.zeros_like(raw)  # deviations are behind, if any
        acted, bend = raw[:, :k], np.ones_like(self._span)
        if self._squash is not None:
            middle, half = self._squash
            bent = np.tanh(acted)
            acted, bend = middle + half * bent, half * (1.0 - bent * bent)
        off = (acted - wanted) / self._span
        slope[:, :k] = (-2.0 / k) * share * off * bend / self._span
        return float((share * off * off).sum()) / k, slope

    @torch.no_grad()
    def teach(self, policy: Policy) -> None:
        """Add to the policy's parameters what was learned."""
        assert isinstance(policy, KNOWN)
        layers = perceptron_layers(policy.network)
        for layer, change in zip(layers, self._layers(self.parameters - self._first), strict=True):
            for part, one in zip(layer, change, strict=True):
                part.add_(torch.from_numpy(one.T))

    def _layers(self, flat: Tensor) -> list[tuple[Real, Real]]:
        """Weight (width in, width out) and bias of each layer, within one tensor."""
        parts = torch.split(flat, [math.prod(shape) for shape in self._shapes])
        every = [p.numpy().reshape(shape) for p, shape in zip(parts, self._shapes, strict=True)]
        return list(zip(every[::2], every[1::2], strict=True))
