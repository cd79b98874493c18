"""Compile every kernel for an H100 or H200 without owning one.

The interpreter checks what kernels compute, not that they compile: types that
change in a loop, or a number that became a constant, only show here. Launches are
caught and compiled for sm_90 instead; run in a process of its own, without
TRITON_INTERPRET, since a kernel is one or the other from its definition on.

    python tests/gpu/compile_for_hopper.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

sys.path.insert(0, str(Path(__file__).parents[2]))

from nopg.gpu.nearest import NearestSamples
from tests.gpu.launches import Case, launch_all

CASES = (
    Case(n=64, k=64, d_a=1, n_batch=2, dtype=torch.float32),
    # Every size becomes a constant.
    Case(n=1, k=1, d_a=2, dtype=torch.float32),
)

POINTERS = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.uint8: "*u8",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
DIVISIBLE = [["tt.divisibility", 16]]


def compile_instead(
    kernel: JITFunction, *args: Any, grid: Any, warmup: bool, **options: Any
) -> None:
    """Stand in for a launch: compile as it would, for sm_90, and say at what cost."""
    chosen = {k: options.pop(k) for k in ("num_warps", "maxnreg") if k in options}
    given = {**dict(zip(kernel.arg_names, args, strict=False)), **options}
    signature, constants, attributes = {}, {}, {}
    for place, parameter in enumerate(kernel.params):
        value = given[parameter.name]
        if parameter.is_constexpr or (type(value) is int and value == 1):
            signature[parameter.name] = "constexpr"
            constants[(place,)] = value
        elif isinstance(value, torch.Tensor):
            signature[parameter.name] = POINTERS[value.dtype]
            attributes[(place,)] = DIVISIBLE
        elif isinstance(value, float):
            signature[parameter.name] = "fp32"
        else:
            signature[parameter.name] = "i32" if value < 2**31 else "i64"
            if value % 16 == 0:
                attributes[(place,)] = DIVISIBLE
    source = ASTSource(kernel, signature, constants, attributes)
    target = GPUTarget("cuda", 90, 32)
    compiled = triton.compile(source, target=target, options=chosen)
    print(kernel.__name__, len(compiled.asm["cubin"]), "bytes")


def main() -> None:
    """Compile what the cases launch."""
    JITFunction.run = compile_instead
    for case in CASES:
        launch_all(case)
    points = torch.zeros((9, 2), dtype=torch.float64)
    NearestSamples(points).search(points, 4)  # the plain path has it, too
    print("all compiled")


if __name__ == "__main__":
    main()
