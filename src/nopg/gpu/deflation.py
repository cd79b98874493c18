"""What sweeps left behind: norms for the stopping test, and the next correction.

Where rows of P sum to one, (I - gamma P) 1 = (1 - gamma) 1. So after some plain
sweeps, whose residual is nearly constant, adding gamma / (1 - gamma) times its
mean to q' removes nearly all of it; and mu must total sum(eps0) / (1 - gamma), so
it is scaled to do so. Correcting now and then serves as well as after every
sweep: sweeps in between only make the residual more nearly constant.
"""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.toolchain import tl, triton

BLOCK = 4096
"""Sums read at a time; one program adds up all of a policy's."""


@triton.jit
def _total(sums, n_programs, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, n_programs, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(sums + at, mask=at < n_programs, other=0.0)
        total += part.to(tl.float64)
    return tl.sum(total, axis=0)


@triton.jit
def _deflate(
    q_sums, mu_sums, gain, mu_total, shift, scale, norms, q_programs, mu_programs,
    n_batch, BLOCK: tl.constexpr,
):  # fmt: skip
    policy = tl.program_id(0)
    q_first = q_sums + policy * q_programs
    mu_first = mu_sums + policy * mu_programs
    squares = _total(q_first, q_programs, BLOCK)
    residuals = _total(q_first + n_batch * q_programs, q_programs, BLOCK)
    tl.store(norms + policy, tl.sqrt(squares))
    tl.store(shift + policy, tl.load(gain) * residuals)
    squares = _total(mu_first, mu_programs, BLOCK)
    visits = _total(mu_first + n_batch * mu_programs, mu_programs, BLOCK)
    tl.store(norms + n_batch + policy, tl.sqrt(squares))
    wanted = tl.load(mu_total + policy)
    # Nothing to scale to: terminal rows, or no visits at all.
    is_scaled = (wanted > 0.0) & (visits > 0.0)
    tl.store(scale + policy, tl.where(is_scaled, wanted / visits, 1.0))


def deflate(
    q_sums: Tensor,  # from `sweep`, (2, B, programs)
    mu_sums: Tensor,  # from `sweep`, (2, B, programs)
    gain: Tensor,  # gamma / ((1 - gamma) n), or zero if some row is terminal, (1,)
    mu_total: Tensor,  # sum(eps0) / (1 - gamma), or zero if some row is terminal, (B,)
    *,
    out: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Shift for q' and scale for mu', (B,) each, and the residual norms, into `out`.

    Norms are those of the sweep before, (2, B): of q's residual, then of mu's.
    """
    n_batch = q_sums.shape[1]
    _deflate[(n_batch,)](
        q_sums, mu_sums, gain, mu_total, *out, q_sums.shape[2], mu_sums.shape[2],
        n_batch, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
