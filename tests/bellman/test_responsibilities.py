"""Responsibilities against dense formulas, and their derivatives against autograd."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nopg.bellman import responsibilities as module
from nopg.bellman.nadaraya_watson import NadarayaWatson
from nopg.bellman.responsibilities import (
    AnalyticResponsibilities,
    CategoricalResponsibilities,
    DeterministicResponsibilities,
    IntegratedResponsibilities,
    Responsibilities,
)
from nopg.bellman.rows import query_rows
from nopg.kernels.neighbours import log_label_similarity

M, N, D_A, DRAWS = 25, 120, 2, 4
H = torch.tensor([0.5, 0.5], dtype=torch.float64)
VARIANCES = torch.tensor([0.3, 0.6], dtype=torch.float64)

Dense = Callable[..., Tensor]
"""Outputs of a policy to the dense rows E, (m, n)."""


class Setting:
    """Random data, and every kind of responsibility beside its dense formula."""

    def __init__(self, generator: torch.Generator, neighbours: int | None) -> None:
        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=torch.float64, generator=generator)

        queries, samples = normal(M, 2), normal(N, 2)
        self.actions = normal(N, D_A)
        self.labels = torch.randint(0, 3, (N,), generator=generator)
        self.mean, self.std = normal(M, D_A), 0.2 + normal(M, D_A).abs()
        self.probabilities = torch.softmax(normal(M, 3), dim=1)
        self.noise = normal(DRAWS, M, D_A)
        self.q, self.weights = 50.0 + normal(N), normal(M)
        margin, most = math.log(1e6), N
        self.rows, self.label_rows = (
            query_rows(queries, samples, a, H, neighbours, log_margin=margin, most=most)
            for a in (self.actions, self.labels)
        )
        squares = ((queries[:, None] - samples) / H).square().sum(dim=-1)
        self.log_psi = -0.5 * squares
        if neighbours is not None:
            farthest = squares.kthvalue(neighbours, dim=1, keepdim=True).values
            self.log_psi = self.log_psi.masked_fill(squares > farthest, -torch.inf)

    def rows_for(self, actions: Tensor, variances: Tensor = VARIANCES) -> Tensor:
        """The dense kernel psi varphi in logarithms, (..., m, n)."""
        squares = (actions.unsqueeze(-2) - self.actions).square()
        if variances.ndim > 1:
            variances = variances.unsqueeze(-2)
        return self.log_psi - (0.5 * squares / variances).sum(dim=-1)

    def case(self, kind: str) -> tuple[Responsibilities, tuple[Tensor, ...], Dense]:
        model = NadarayaWatson(self.rows, VARIANCES)
        if kind == "deterministic":
            return (
                DeterministicResponsibilities(model),
                (self.mean,),
                lambda a: torch.softmax(self.rows_for(a), dim=-1),
            )
        if kind == "analytic":
            return (
                AnalyticResponsibilities(model),
                (self.mean, self.std),
                lambda mean, std: torch.softmax(
                    self.rows_for(mean, VARIANCES + std.square()), dim=-1
                ),
            )
        if kind == "discrete":
            similarity = log_label_similarity(3, 0.1)
            labelled = NadarayaWatson(self.label_rows, VARIANCES[:0], similarity)
            kernel = torch.where(self.labels == torch.arange(3)[:, None], 0.9, 0.05)
            each = torch.softmax(self.log_psi + kernel.log()[:, None], dim=-1)
            return (
                CategoricalResponsibilities(labelled, 3),
                (self.probabilities,),
                lambda p: torch.einsum("ma,amn->mn", p, each),
            )
        shares = torch.full((DRAWS, M), 1.0 / DRAWS, dtype=torch.float64)
        sampled = IntegratedResponsibilities(
            model,
            nodes=lambda means, generator: (self.noise, shares),
            averages_kernels=kind == "kernel-average",
        )

        def dense(mean: Tensor, std: Tensor) -> Tensor:
            logits = self.rows_for(mean + std * self.noise)  # (k, m, n)
            if kind == "paper":  # Definition 2: rows are averaged
                return torch.softmax(logits, dim=-1).mean(dim=0)
            kernel = (logits - logits.amax(dim=(0, 2), keepdim=True)).exp()
            return kernel.mean(dim=0) / kernel.mean(dim=0).sum(dim=-1, keepdim=True)

        return sampled, (self.mean, self.std), dense


KINDS = ("deterministic", "analytic", "discrete", "paper", "kernel-average")
each_case = pytest.mark.parametrize(
    ("kind", "neighbours"), [(kind, k) for kind in KINDS for k in (None, 30)]
)


@each_case
def test_rows_and_their_derivative(
    kind: str, neighbours: int | None, generator: torch.Generator
) -> None:
    x = Setting(generator, neighbours)
    responsibilities, outputs, dense = x.case(kind)
    found = responsibilities.evaluate(outputs, generator)
    leaves = tuple(output.clone().requires_grad_() for output in outputs)
    E = dense(*leaves)
    torch.testing.assert_close(found.operator.dense(), E.detach())
    expected = torch.autograd.grad((x.weights * (E @ x.q)).sum(), leaves)
    slopes = responsibilities.vjp(found, x.q, x.weights)
    for slope, truth in zip(slopes, expected, strict=True):
        torch.testing.assert_close(slope, truth, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["paper", "kernel-average"])
def test_draws_made_in_parts_are_the_same(
    kind: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    responsibilities, outputs, _ = (x := Setting(generator, 30)).case(kind)
    found = responsibilities.evaluate(outputs, generator)
    slopes = responsibilities.vjp(found, x.q, x.weights)
    monkeypatch.setattr(module, "TOGETHER", 1)
    again = responsibilities.evaluate(outputs, generator)
    assert len(again.weights) == DRAWS  # one part per draw
    torch.testing.assert_close(again.operator.dense(), found.operator.dense())
    for one, other in zip(slopes, responsibilities.vjp(again, x.q, x.weights), strict=True):
        torch.testing.assert_close(one, other)


def test_one_value_for_all_samples_has_no_derivative(generator: torch.Generator) -> None:
    """Rows sum to one: a constant passes through them, however large it is."""
    x = Setting(generator, 30)
    for kind in ("deterministic", "analytic", "paper", "kernel-average"):
        responsibilities, outputs, _ = x.case(kind)
        found = responsibilities.evaluate(outputs, generator)
        for slope in responsibilities.vjp(found, torch.full_like(x.q, 1e9), x.weights):
            assert float(slope.abs().max()) == 0.0
