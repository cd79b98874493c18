"""Distillation: a policy is taught what a plan does, or someone who knows how.

There are thousands of batches, each of which is a hundred calls of torch that cost several times
their arithmetic. So `distil.c` makes all steps in one call, in single precision: what is taught is
far less exact than that. Without a compiler torch does the same.
"""

import ctypes
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.algorithms.search.planning import DistillationTargets
from nopg.compiled import compiled, packed
from nopg.policies.adam import BETAS, EPS, Adam, cosine_decay
from nopg.policies.build import Gain, perceptron_layers
from nopg.policies.families import CategoricalPolicy, NetworkPolicy, Policy
from nopg.threads import n_workers

N_STEPS = 300  # steps of Adam on all targets; the error of a plan is level by then
LEARNING_RATE = 1e-2
BATCH, EPOCHS, MAX_STEPS = 256, 400, 20_000  # of close distillation


def distil(policy: Policy, targets: DistillationTargets, most: int = 0) -> None:
    """Fit the typical actions of `policy`, a perceptron, to the targets, in place.

    States count by their advantage weights: where all actions are as good, any will do. Labels are
    fitted by their likelihood, other actions by their squared error in units of the targets' range.

    Plans are rough, and so is what is made of them at first. What was done by someone who knows how
    is worth following closely, for `most` steps at most: a balance is lost by small errors.
    """
    n, n_steps, rate, rows = len(targets.states), N_STEPS, LEARNING_RATE, None
    if most:
        n_steps = min(max(N_STEPS, EPOCHS * n // BATCH), most)
        rate = 0.5 * LEARNING_RATE
        if n > BATCH:
            rows = np.random.default_rng(0).integers(n, size=(n_steps, BATCH))
    rates = np.array([rate * cosine_decay(step, n_steps) for step in range(n_steps)])
    lesson = Lesson(policy, targets)
    if not lesson.learned_in_c(rates, rows):
        lesson.learn(rates, rows)


class Lesson:
    """A policy and what it is to do."""

    def __init__(self, policy: Policy, targets: DistillationTargets) -> None:
        assert isinstance(policy, NetworkPolicy)
        self._policy, self._is_discrete = policy, isinstance(policy, CategoricalPolicy)
        self._states, self._wanted, self._weights = (torch.from_numpy(x) for x in targets[:3])
        span = self._wanted.amax(dim=0) - self._wanted.amin(dim=0)
        self._span = torch.where(span > 1e-9, span, torch.ones_like(span))  # never changes

    def error(self, rows: NDArray[np.int64] | slice) -> Tensor:
        """The weighted mean error at some of the targets."""
        made, wanted = self._policy.outputs(self._states[rows])[0], self._wanted[rows]
        each = ((made - wanted) / self._span).square().mean(dim=1)
        if self._is_discrete:
            each = -(wanted * made.clamp_min(1e-9).log()).sum(dim=1)
        return (self._weights[rows] * each).mean()

    def learn(self, rates: NDArray[np.float64], rows: NDArray[np.int64] | None) -> None:
        """Steps of Adam of these sizes, on all targets or on those of the step, (n_steps, m)."""
        parameters = list(self._policy.parameters())
        adam = Adam(parameters)
        for step, rate in enumerate(rates):
            error = self.error(slice(None) if rows is None else rows[step])
            # What spreads actions has no target.
            adam.step(torch.autograd.grad(-error, parameters, materialize_grads=True), float(rate))

    @torch.no_grad()
    def learned_in_c(self, rates: NDArray[np.float64], rows: NDArray[np.int64] | None) -> bool:
        """The same in compiled code, unless it cannot be had or lacks memory."""
        library, policy = compiled("nopg.algorithms.search", "distil.c", False), self._policy
        if library is None:
            return False
        layers, steps = perceptron_layers(policy.network), 1 + np.arange(len(rates))
        widths = np.array([layers[0][0].shape[1], *(len(bias) for _, bias in layers)])
        parts = [part.detach().numpy().T for layer in layers for part in layer]
        before = np.concatenate([part.ravel() for part in parts]).astype(np.float32)
        x = self._states if policy.standardise is None else policy.standardise(self._states)
        arrays: list[Any] = [x, self._wanted, self._weights, self._span]
        if policy.squash is not None and not self._is_discrete:
            low, high = policy.squash.low, policy.squash.high
            arrays += [0.5 * (low + high), policy.squash.half_width]
        arrays = [part.float().contiguous() for part in arrays] + [None] * (6 - len(arrays))
        n_rows = len(x) if rows is None else rows.shape[1]
        sizes = (len(layers), n_rows, len(rates), self._wanted.shape[1])
        flags = (self._is_discrete, not isinstance(policy.network, Gain))
        lengths, roots = rates / (1.0 - BETAS[0] ** steps), np.sqrt(1.0 - BETAS[1] ** steps)
        after = before.copy()
        given = (*sizes, *flags, *BETAS, EPS, widths, *arrays, rows, lengths, roots, after)
        if not library.nopg_distil(packed(*given), ctypes.c_int64(n_workers())):
            return False
        # What was learned is added to parameters that are more exact.
        ends = np.cumsum([part.size for part in parts])[:-1]
        for part, change in zip(parts, np.split(after - before, ends), strict=True):
            part += change.reshape(part.shape)
        return True
