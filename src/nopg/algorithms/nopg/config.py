"""All settings of NOPG in one record: checked at construction, kept in model files."""

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import torch

from nopg.bellman.problem import EstimatorConfig
from nopg.errors import ConfigError, did_you_mean, require_choice
from nopg.errors import require_count as require_count
from nopg.policies.adam import cosine_decay
from nopg.randomness import Seed

N_UPDATES, N_AFTER_SEARCH = 200, 150  # policy updates by default; with a start that was searched
_PLAIN: dict[Any, tuple[type, str]] = {float: (Real, "number"), str: (str, "text")}
_DTYPES = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the policy is improved."""

    learning_rate: float = 1e-2  # Adam's step size at the start
    schedule: str = "cosine"  # the step size falls to zero; "constant" keeps it, as the paper does
    # Relative residual of the solves in training: errors hardly matter, J is corrected for them.
    rtol: float = 1e-2
    final_rtol: float = 1e-6  # that of the last solve, whose q and mu are kept
    # With matched rows: whether a few short ascents look for a start, and whether the policy is put
    # back to it should its mean path earn more in the end.
    search_start: bool = True

    def __post_init__(self) -> None:
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise ConfigError(
                f"`learning_rate` must be positive, got {self.learning_rate}; 1e-2 is the paper's."
            )
        require_choice("schedule", self.schedule, ("cosine", "constant"))

    def rate(self, step: int, n_updates: int) -> float:
        """Step size of update `step`, counted from 0."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * cosine_decay(step, n_updates)


@dataclass(frozen=True, kw_only=True)
class NOPGConfig(EstimatorConfig, TrainingConfig):
    """Settings of a model, as plain values; those of its two parts are among them."""

    policy: str = "deterministic"  # or "stochastic", "discrete", "custom" for a module
    hidden: tuple[int, ...] = (50,)  # widths of the policy's hidden layers
    standardise: bool = True  # of states inside the policy; False is the paper's way
    # Largest deviation per dimension of a stochastic policy; by default a quarter of the range.
    max_std: tuple[float, ...] | None = None
    device: str = "cpu"  # where tensors live
    dtype: str = "float64"  # precision of everything
    seed: int = 0  # of every draw
    # Bytes a job may take; by default what machine, container or GPU have free. More is refused.
    max_memory: float | None = None

    def __post_init__(self) -> None:
        EstimatorConfig.__post_init__(self)
        TrainingConfig.__post_init__(self)
        if self.policy not in ("deterministic", "stochastic", "discrete", "custom"):
            raise ConfigError(
                '`policy` must be "deterministic", "stochastic", "discrete" or a torch '
                f"module, got {self.policy!r}."
            )
        require_choice("dtype", self.dtype, _DTYPES)
        Seed(self.seed)  # refuses what is no seed
        for name in ("hidden", "max_std"):
            given = getattr(self, name)
            if isinstance(given, list):
                object.__setattr__(self, name, tuple(given))
            elif given is not None and not isinstance(given, tuple):
                raise ConfigError(
                    f"`{name}` must be a list of numbers, got {given!r}; write "
                    f"({given!r},) for a single one."
                )
        if self.max_memory is not None and not self.max_memory > 0:
            raise ConfigError(
                f"`max_memory` must be a positive number of bytes, got "
                f"{self.max_memory!r}; 4e9 is four gigabytes."
            )
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise ConfigError(
                f'`device` must exist, torch sees no GPU for {self.device!r}; use device="cpu".'
            )

    @classmethod
    def of(cls, **settings: Any) -> "NOPGConfig":
        """A configuration from settings by name.

        Raises:
            ConfigError: If a setting does not exist; the known ones are listed.
        """
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(settings) - known):
            raise ConfigError(
                f"There is no setting {', '.join(unknown)}; known are "
                f"{', '.join(sorted(known))}{did_you_mean(unknown, known)}"
            )
        for field in fields(cls):
            kind, called = _PLAIN.get(field.type, (object, ""))
            if not isinstance(settings.get(field.name, field.default), kind):
                raise ConfigError(
                    f"`{field.name}` must be a {called}, got "
                    f"{settings[field.name]!r}; {field.default!r} is the default."
                )
        return cls(**settings)

    @property
    def estimator(self) -> EstimatorConfig:
        """The integrals and the sparsity of the rows alone."""
        names = (f.name for f in fields(EstimatorConfig))
        return EstimatorConfig(**{name: getattr(self, name) for name in names})

    @property
    def torch_dtype(self) -> torch.dtype:
        """`dtype` as torch names it."""
        return _DTYPES[self.dtype]
