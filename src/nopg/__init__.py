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

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _IS_CHECKED
from typing import Any

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

if _IS_CHECKED:
    from nopg.algorithms.nopg.batch import fit_batch
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.algorithms.search.learn import learn
    from nopg.bellman.equation import BellmanEquation
    from nopg.bellman.solution import Objective
    from nopg.data.dataset import Dataset
    from nopg.evaluation.intervals import Estimate
    from nopg.evaluation.rollouts import Rollouts
    from nopg.evaluation.support import Support
    from nopg.export import export_policy
    from nopg.fitted.history import History
    from nopg.fitted.load import load
    from nopg.fitted.policy import FittedPolicy
    from nopg.fitted.safe_policy import SafePolicy
    from nopg.kernels.bandwidths import Bandwidths, CrossValidated, LeaveOneOut
    from nopg.policies.build import linear_policy
    from nopg.report import write_report

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
    "NOPG": "nopg.algorithms.nopg.nopg",
    "Bandwidths": "nopg.kernels.bandwidths",
    "BellmanEquation": "nopg.bellman.equation",
    "CrossValidated": "nopg.kernels.bandwidths",
    "Dataset": "nopg.data.dataset",
    "Estimate": "nopg.evaluation.intervals",
    "FittedPolicy": "nopg.fitted.policy",
    "History": "nopg.fitted.history",
    "LeaveOneOut": "nopg.kernels.bandwidths",
    "Objective": "nopg.bellman.solution",
    "Rollouts": "nopg.evaluation.rollouts",
    "SafePolicy": "nopg.fitted.safe_policy",
    "Support": "nopg.evaluation.support",
    "export_policy": "nopg.export",
    "fit_batch": "nopg.algorithms.nopg.batch",
    "learn": "nopg.algorithms.search.learn",
    "linear_policy": "nopg.policies.build",
    "load": "nopg.fitted.load",
    "write_report": "nopg.report",
}
"""Where names come from; imported when first asked for, since torch takes seconds and
`nopg --help` needs none of it."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        found = globals()[name] = getattr(_import_module(_LAZY[name]), name)
        return found
    # With `obj` the interpreter says which name was meant.
    text = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(text, name=name, obj=_sys.modules[__name__])


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
