"""Triton, and the few sizes every kernel agrees on."""

from dataclasses import dataclass
from typing import Self

from nopg.errors import MissingExtraError

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise MissingExtraError(
        'GPU kernels need the package `triton`, it is not installed; run pip install "nopg[gpu]".'
    ) from error

__all__ = ["Tile", "padded", "tl", "triton"]

ENTRIES = 1024  # entries a program holds in registers: eight for each of 128 threads


@dataclass(frozen=True)
class Tile:
    """How much of a matrix one program takes."""

    rows: int  # rows (or columns of a transposed product) of one program
    width: int  # entries of a row read at once; a power of two
    warps: int = 4  # warps that share the work

    @classmethod
    def of_rows(cls, k: int, entries: int = ENTRIES, warps: int = 4) -> Self:
        """Whole rows of k entries, as many as make a program worth starting."""
        width = padded(k)
        return cls(max(1, entries // width), width, 2 * warps if width > 2 * entries else warps)

    def programs(self, rows: int) -> int:
        """Programs that cover so many rows."""
        return -(-rows // self.rows)


def padded(k: int) -> int:
    """The power of two at or above k: tiles have no other widths."""
    return 1 << max(k - 1, 0).bit_length()
