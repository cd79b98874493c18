"""Controllers from logged data alone, and what to expect of them.

    data = nopg.Dataset.load("cart.csv", observations=["x", "v"], actions=["u"], ...)
    print(data.describe())                     # what the log means for learning
    policy = nopg.learn(data)                  # learned models, planning, refinement
    policy.expected_return(interval=0.95)      # what it will earn, between which ends
    action, _ = policy.predict(observation)    # as in stable-baselines3
    policy.save("cart.nopg")                   # nopg.load("cart.nopg")

`nopg.NOPG(gamma=0.97).fit(data)` is the paper's algorithm, the nonparametric off-policy
policy gradient; it returns the same kind of `FittedPolicy`.
"""

from importlib import import_module as _import_module

from nopg.algorithms.nopg.batch import fit_batch
from nopg.algorithms.nopg.nopg import NOPG
from nopg.bellman.certificate import Objective
from nopg.bellman.equation import BellmanEquation
from nopg.data.dataset import Dataset
from nopg.errors import (
    ConfigError,
    DataError,
    NopgError,
    NopgWarning,
    NotFittedError,
    PolicyFileError,
    SolverError,
    SupportWarning,
)
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.rollouts import Rollouts
from nopg.evaluation.support import Support
from nopg.fitted.history import History
from nopg.fitted.load import load
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.safe_policy import SafePolicy
from nopg.kernels.bandwidths import Bandwidths
from nopg.kernels.selection import CrossValidated, LeaveOneOut
from nopg.policies.build import linear_policy

__version__ = "0.2.0"
__all__ = [
    "NOPG",
    "Bandwidths",
    "BellmanEquation",
    "ConfigError",
    "CrossValidated",
    "DataError",
    "Dataset",
    "Estimate",
    "FittedPolicy",
    "History",
    "LeaveOneOut",
    "NopgError",
    "NopgWarning",
    "NotFittedError",
    "Objective",
    "PolicyFileError",
    "Rollouts",
    "SafePolicy",
    "SolverError",
    "Support",
    "SupportWarning",
    "export_policy",
    "fit_batch",
    "learn",
    "linear_policy",
    "load",
    "write_report",
]

_LAZY = {
    "learn": "nopg.algorithms.search.learn",
    "write_report": "nopg.report",
    "export_policy": "nopg.export",
}
"""Names whose modules are imported when first asked for."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(_import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
