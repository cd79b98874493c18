"""Reproducible randomness: one seed, many named streams, no global state."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch

from nopg.errors import ConfigError


@dataclass(frozen=True)
class Seed:
    """A root seed from which named generators are derived."""

    value: int

    def __post_init__(self) -> None:
        is_integer = isinstance(self.value, (int, np.integer))
        if not is_integer or isinstance(self.value, bool) or self.value < 0:
            raise ConfigError(f"`seed` must be a whole number from 0, got {self.value!r}; try 0.")

    def derive(self, name: str) -> int:
        """A 63-bit integer that depends on the seed and on `name` alone."""
        digest = hashlib.sha256(f"{int(self.value)}/{name}".encode()).digest()
        return int.from_bytes(digest[:8], "little") >> 1

    def numpy(self, name: str) -> np.random.Generator:
        """A numpy generator for the stream `name`."""
        return np.random.default_rng(self.derive(name))

    def torch(self, name: str, device: str | torch.device = "cpu") -> torch.Generator:
        """A torch generator for the stream `name`, on `device`."""
        return torch.Generator(device=device).manual_seed(self.derive(name))
