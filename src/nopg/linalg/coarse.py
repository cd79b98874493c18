"""A coarse twin of I - gamma P, inverted once, that speeds up solves with the fine one.

Rows of P at nearby next states are nearly the same, so P x is a smooth function of
the next state: all that a product leaves behind lives, nearly, in a small space of
such functions. With Z (n, C) a basis of that space and R Z = I,

    M = I + Z ((I - gamma R P Z)^-1 - I) R

is (I - gamma P)^-1 on that space and the identity beside it. M' serves the transposed
system. A solver that asks for A M y = b and takes x = M y finds the same x in a third
of the products, and its residual is checked like any other; an M of a former P is
nearly as good as one of this P. Which space: `cells` where samples are many, `modes`
where they are few.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.linalg.operators import LinearOperator

PRECISION = torch.float32
"""Of M and all it is applied to: it need not be exact, and is read at every product."""


class CoarseSpace(ABC):
    """Functions of the samples that C numbers describe: Z w.

    A space keeps what M needs of one P as a matrix of its own kind, `core`.
    """

    @property
    @abstractmethod
    def core_shape(self) -> tuple[int, int]:
        """Rows and columns of a core."""

    @abstractmethod
    def core(self, transition: LinearOperator, gamma: float) -> Tensor | None:
        """What M of this P is made of; None if there is no M."""

    @abstractmethod
    def apply(self, core: Tensor, x: Tensor) -> Tensor:
        """M x, (n,) -> (n,)."""

    @abstractmethod
    def apply_transpose(self, core: Tensor, y: Tensor) -> Tensor:
        """M' y, (n,) -> (n,)."""


def discounted_inverse(steps: Tensor, gamma: float) -> Tensor | None:
    """(I - gamma S)^-1 - I in the small precision; None if that is singular.

    Args:
        steps: S = R P Z, (C, C).
        gamma: Discount factor.
    """
    one = torch.eye(len(steps), dtype=PRECISION, device=steps.device)
    inverse: Tensor
    inverse, info = torch.linalg.inv_ex(one - gamma * steps.to(PRECISION))
    if int(info) != 0 or not bool(torch.isfinite(inverse).all()):
        return None
    return inverse - one


@dataclass(frozen=True)
class CoarseCorrection:
    """M of one P, and its transpose.

    Attributes:
        space: The functions M is made for.
        core: What M is made of, in the space's own form.
    """

    space: CoarseSpace
    core: Tensor

    @classmethod
    def of(
        cls, transition: LinearOperator, gamma: float, space: CoarseSpace
    ) -> CoarseCorrection | None:
        """M for this P; None if P has none in this space."""
        core = space.core(transition, gamma)
        return None if core is None else cls(space, core)

    @classmethod
    def kept(cls, core: Tensor, space: CoarseSpace) -> CoarseCorrection | None:
        """The one a `core` was kept of; None if that was made for another space."""
        if tuple(core.shape) != space.core_shape:
            return None
        return cls(space, core.to(PRECISION))

    def apply(self, x: Tensor) -> Tensor:
        """M x, (n,) -> (n,)."""
        return self.space.apply(self.core, x)

    def apply_transpose(self, y: Tensor) -> Tensor:
        """M' y, (n,) -> (n,)."""
        return self.space.apply_transpose(self.core, y)
