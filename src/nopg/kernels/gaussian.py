"""The Gaussian product kernel, in the log domain throughout.

psi, varphi and phi of the paper are all of this form:

    k_h(x, c) = prod_d exp(-(x_d - c_d)^2 / (2 h_d^2)) / (h_d sqrt(2 pi)).

Densities of far points underflow; their logarithms do not.
"""

from __future__ import annotations

import math

from torch import Tensor


def log_similarity(queries: Tensor, centres: Tensor, bandwidths: Tensor) -> Tensor:
    """Logarithm of the kernel without its constant: 0 at the centre, never above.

    Row weights are ratios of kernels, so the constant cancels there; and a bound
    of one on every kernel is what the truncation certificate rests on.

    Args:
        queries: Points x, (m, d).
        centres: Kernel centres c, (n, d).
        bandwidths: One h a dimension, (d,); infinity ignores the dimension.

    Returns:
        log(k_h(x, c) / k_h(c, c)), (m, n).
    """
    total = queries.new_zeros((len(queries), len(centres)))
    # One dimension at a time: no (m, n, d) tensor, and no cancellation as in
    # |x|^2 - 2 x'c + |c|^2, which loses half the digits for close points.
    for d, h in enumerate(bandwidths.tolist()):
        if not math.isinf(h):
            difference = (queries[:, d, None] - centres[None, :, d]) / h
            total.addcmul_(difference, difference, value=-0.5)
    return total


def log_density(queries: Tensor, centres: Tensor, bandwidths: Tensor) -> Tensor:
    """Logarithm of the normalised kernel k_h(x, c), (m, n)."""
    log_constant = (bandwidths * math.sqrt(2.0 * math.pi)).log().sum()
    return log_similarity(queries, centres, bandwidths) - log_constant
