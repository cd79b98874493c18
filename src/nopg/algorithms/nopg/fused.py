"""Training B policies at once on a GPU: three captured graphs per update.

Small problems are bound by launches: an update is a hundred kernels of a few microseconds. Captured
and replayed, they cost what they compute; the host looks at residual norms alone, between sweeps.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from nopg.algorithms.nopg.config import TrainingConfig
from nopg.bellman.fused import SWEEPS, FusedSystem
from nopg.bellman.problem import Problem
from nopg.errors import SolverError
from nopg.fitted.history import Update
from nopg.policies.adam import eps_for
from nopg.policies.families import Policy

Step = Callable[[], None]
MAX_GROUPS = 1000  # groups of sweeps before an update is given up
SMALL = 4_000_000  # entries of P whose sweeps take less time than a look at what they left


class FusedTrainer:
    """B policies of one architecture that ascend side by side over one problem."""

    def __init__(
        self,
        problem: Problem,  # the data, on the device
        # Of one architecture, trained in place; from here on views of one stack of parameters.
        policies: Sequence[Policy],
        config: TrainingConfig,  # step sizes and accuracy
        n_updates: int,  # updates to come; the schedule is spread over them
        *,
        is_captured: bool = True,  # replay CUDA graphs; False launches kernel by kernel
    ) -> None:
        self.system = FusedSystem(problem, len(policies), config.rtol)
        self.config, self.n_updates = config, n_updates
        parameters, self.buffers = torch.func.stack_module_state(list(policies))
        self.parameters: dict[str, Tensor] = {
            name: p.detach().requires_grad_() for name, p in parameters.items()
        }
        for i, policy in enumerate(policies):  # they share memory from now on
            for name, parameter in policy.named_parameters():
                parameter.data = self.parameters[name].data[i]
        self._queries, self._skeleton = problem.queries, _skeleton(policies)
        self.rate = problem.queries.new_zeros(())
        self.objective = problem.queries.new_zeros(len(policies))
        self.gradient_norm = torch.zeros_like(self.objective)
        self.adam = torch.optim.Adam(
            list(self.parameters.values()),
            lr=self.rate,
            eps=eps_for(problem.samples.rewards),
            maximize=True,
            capturable=is_captured,
            fused=is_captured,
        )
        self.groups = 0
        self._is_small = len(policies) * self.system.columns.numel() < SMALL
        self._taken: Tensor | None = None
        steps = (self._evaluate, self.system.sweep, self._ascend)
        self._steps = _captured(steps, self) if is_captured else steps

    def updates(self) -> Iterator[list[Update]]:
        """The updates of all policies, step by step, as `ascend` yields those of one."""
        # No certificate is computed on the way (NaN): `model.objective()` has one.
        began = time.perf_counter()
        for step in range(self.n_updates):
            self.update(step)
            measured = torch.stack([self.objective, self.gradient_norm]).tolist()
            seconds, matvecs = time.perf_counter() - began, 2 * SWEEPS * self.groups
            rate = self.config.rate(step, self.n_updates)
            yield [
                Update(step + 1, objective, math.nan, norm, rate, matvecs, 0, seconds)
                for objective, norm in zip(*measured, strict=True)
            ]

    def update(self, step: int) -> None:
        """One update of every policy; `objective` and `gradient_norm` are then new."""
        evaluate, sweep, ascend = self._steps
        self.rate.fill_(self.config.rate(step, self.n_updates))
        evaluate()
        before, self.groups = self.groups, 0
        while True:
            sweep()
            self.groups += 1
            if self._is_small and self.groups < before - 1:
                continue  # to look takes longer than these sweeps, and they are needed
            left = self.system.left.tolist()
            if all(each <= self.config.rtol for each in left):
                break
            if self.groups >= MAX_GROUPS or not all(map(math.isfinite, left)):
                raise SolverError(
                    f"q and mu must be solved to {self.config.rtol:.0e}, sweeps left "
                    f"{max(left):.1e}; lower gamma or the learning rate, or raise `rtol`."
                )
        ascend()

    def _outputs(self) -> Tensor:
        """Actions of every policy at every query, (B, n + b, d_a)."""

        def act(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            both = (parameters, buffers)
            found: Tensor = torch.func.functional_call(self._skeleton, both, (self._queries,))
            return found

        state = (self.parameters, self.buffers)
        if self.system.n_policies == 1:  # torch does more at once without a batch
            return act(*[{k: p.squeeze(0) for k, p in each.items()} for each in state])[None]
        vmapped: Callable[..., Tensor] = torch.func.vmap(act)
        return vmapped(*state)

    def _evaluate(self) -> None:
        self._taken = self._outputs()  # its graph is kept for the way back
        with torch.no_grad():
            self.system.evaluate(self._taken.detach())

    def _ascend(self) -> None:
        assert self._taken is not None
        with torch.no_grad():
            objective, slopes = self.system.finish()
        leaves = list(self.parameters.values())
        gradients = torch.autograd.grad(self._taken, leaves, slopes)
        self.gradient_norm.copy_(torch.cat([g.flatten(1) for g in gradients], dim=1).norm(dim=1))
        self.objective.copy_(objective)
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.grad = gradient.contiguous()
        self.adam.step()


def _skeleton(policies: Sequence[Policy]) -> Policy:
    """What the policies do, with parameters still to be given."""
    from nopg.gpu.perceptron import FusedNetwork, fits

    found = copy.deepcopy(policies[0])
    network: Any = getattr(found, "network", None)
    if len(policies) == 1 and fits(network):
        found.network = FusedNetwork(*network)
    return found


def _captured(steps: Sequence[Step], trainer: FusedTrainer) -> tuple[Step, ...]:
    """Each step as a graph; warmed up first, then put back to where it started."""
    kept = {k: p.detach().clone() for k, p in trainer.parameters.items()}
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            for step in steps:
                step()
    torch.cuda.current_stream().wait_stream(stream)
    graphs: list[torch.cuda.CUDAGraph] = []
    for step in steps:
        graph = torch.cuda.CUDAGraph()
        # On the stream of the warm-up, where leaves were used first: of others torch warns.
        pool = graphs[0].pool() if graphs else None  # they run one after the other
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            step()
        graphs.append(graph)
    with torch.no_grad():
        for name, parameter in trainer.parameters.items():
            parameter.copy_(kept[name])
        for state in trainer.adam.state.values():
            for value in state.values():
                value.zero_()
    return tuple(graph.replay for graph in graphs)
