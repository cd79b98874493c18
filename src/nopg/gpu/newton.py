"""A step of Newton's method for the tilts of a tile of rows, in registers.

Tuples hold one number per row for each of d features, or for each pair of them, packed by rows of
the lower triangle; z holds one number per entry for each feature.
"""

from nopg.gpu.toolchain import tl, triton


@triton.jit
def wall(t, reach, steepness: tl.constexpr, d: tl.constexpr):
    """Slope of the wall per tilt, and what its curvature has along t t'."""
    square = t[0] * t[0]
    for f in tl.static_range(1, d):
        square += t[f] * t[f]
    share = square / (reach * reach)
    steep = share * 0.0 + 1.0 / reach
    for _ in tl.static_range(steepness // 2 - 1):
        steep *= share
    return steep, (steepness - 2) * steep / tl.maximum(square, 1e-30)


@triton.jit
def _factor(A, ridge, d: tl.constexpr):
    """Cholesky factor of A, packed by rows, with inverses on its diagonal."""
    L = ()
    for i in tl.static_range(d):
        for j in tl.static_range(i + 1):
            x = A[i * (i + 1) // 2 + j]
            for p in tl.static_range(j):
                x -= L[i * (i + 1) // 2 + p] * L[j * (j + 1) // 2 + p]
            if i == j:
                L += (1.0 / tl.sqrt(tl.maximum(x, ridge)),)
            else:
                L += (x * L[j * (j + 1) // 2 + j],)
    return L


@triton.jit
def solve(L, b, d: tl.constexpr):
    """x with A x = b, and b' x."""
    y = ()
    for i in tl.static_range(d):
        value = b[i]
        for p in tl.static_range(i):
            value -= L[i * (i + 1) // 2 + p] * y[p]
        y += (value * L[i * (i + 1) // 2 + i],)
    x = ()  # the last first
    for i in tl.static_range(d - 1, -1, -1):
        value = y[i]
        for p in tl.static_range(i + 1, d):
            value -= L[p * (p + 1) // 2 + i] * x[d - 1 - p]
        x += (value * L[i * (i + 1) // 2 + i],)
    forward, square = (), y[0] * y[0]
    for i in tl.static_range(d):
        forward += (x[d - 1 - i],)
        if i > 0:
            square += y[i] * y[i]
    return forward, square


@triton.jit
def _share(step, z, is_entry, longest, d: tl.constexpr):
    """How much of a Newton step to take: log(1 + s) / s of one whose logits span s."""
    # Then the dual falls for sure (Sun and Tran-Dinh, 2019); else some rows go to and fro.
    square, along = step[0] * step[0], step[0][:, None] * z[0]
    for f in tl.static_range(1, d):
        square += step[f] * step[f]
        along += step[f][:, None] * z[f]
    share = longest / tl.maximum(tl.sqrt(square), longest)
    most = tl.max(tl.where(is_entry, along, -float("inf")), axis=1)
    least = tl.min(tl.where(is_entry, along, float("inf")), axis=1)
    span = tl.maximum(share * (most - least), 1.0)
    return share * tl.where(span > 1.0, tl.log(1.0 + span) / span, 1.0)


@triton.jit
def evaluate(base, z, t, is_row, reach, ridge, longest, steepness: tl.constexpr, d: tl.constexpr):
    """Rows at tilts t: weights, mean, factor of the curvature, what is left, step."""
    logits = base
    for f in tl.static_range(d):
        logits += t[f][:, None] * z[f]
    # Rows beyond the last are all -inf; give them a peak and a sum to divide by.
    peak = tl.where(is_row, tl.max(logits, axis=1), 0.0)
    p = tl.exp(logits - peak[:, None])
    p = p / tl.where(is_row, tl.sum(p, axis=1), 1.0)[:, None]
    steep, radial = wall(t, reach, steepness, d)
    mean, slope, curvature = (), (), ()
    for f in tl.static_range(d):
        average = tl.sum(p * z[f], axis=1)
        moved = p * (z[f] - average[:, None])
        mean += (average,)
        slope += (average + steep * t[f],)
        for g in tl.static_range(f + 1):
            entry = tl.sum(moved * z[g], axis=1) + radial * t[f] * t[g]
            if f == g:
                entry += steep + ridge
            curvature += (entry,)
    L = _factor(curvature, ridge, d)
    step, square = solve(L, slope, d)
    share = _share(step, z, base > -float("inf"), longest, d)
    shortened = ()
    for f in tl.static_range(d):
        shortened += (share * step[f],)
    return p, mean, L, tl.sqrt(square), shortened
