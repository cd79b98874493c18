"""Controllers from logged data alone, and what to expect of them.

    policy = nopg.learn(nopg.Dataset.load("cart.csv"))
    print(policy.expected_return(interval=0.95), policy.verdict())

`nopg.NOPG(gamma=0.97).fit(data)` is the paper's algorithm and returns a `FittedPolicy`, too.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _IS_CHECKED
from typing import Any

from nopg.errors import ConfigError as ConfigError
from nopg.errors import DataError as DataError
from nopg.errors import NopgError as NopgError
from nopg.errors import NopgWarning as NopgWarning
from nopg.errors import NotFittedError as NotFittedError
from nopg.errors import PolicyFileError as PolicyFileError
from nopg.errors import SolverError as SolverError
from nopg.errors import SupportWarning as SupportWarning

if _IS_CHECKED:
    from nopg.algorithms.nopg.batch import fit_batch as fit_batch
    from nopg.algorithms.nopg.nopg import NOPG as NOPG
    from nopg.algorithms.search.cost import learning_cost as learning_cost
    from nopg.algorithms.search.learn import learn as learn
    from nopg.bellman.equation import BellmanEquation as BellmanEquation
    from nopg.bellman.solution import Objective as Objective
    from nopg.data.dataset import Dataset as Dataset
    from nopg.evaluation.intervals import Estimate as Estimate
    from nopg.evaluation.rollouts import Rollouts as Rollouts
    from nopg.evaluation.support import Support as Support
    from nopg.export import export_policy as export_policy
    from nopg.fitted.history import History as History
    from nopg.fitted.load import load as load
    from nopg.fitted.policy import FittedPolicy as FittedPolicy
    from nopg.fitted.safe_policy import SafePolicy as SafePolicy
    from nopg.kernels.bandwidths import Bandwidths as Bandwidths
    from nopg.kernels.bandwidths import CrossValidated as CrossValidated
    from nopg.kernels.bandwidths import LeaveOneOut as LeaveOneOut
    from nopg.policies.build import linear_policy as linear_policy
    from nopg.report import write_report as write_report

__version__ = "0.2.0"
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
    "learning_cost": "nopg.algorithms.search.cost",
    "linear_policy": "nopg.policies.build",
    "load": "nopg.fitted.load",
    "write_report": "nopg.report",
}
"""Where names come from; imported when first asked for, since torch takes seconds and
`nopg --help` needs none of it."""
_ERRORS = [name for name in dir() if name.endswith(("Error", "Warning"))]
__all__ = sorted([*_LAZY, *_ERRORS])


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        found = globals()[name] = getattr(_import_module(_LAZY[name]), name)
        return found
    # With `obj` the interpreter says which name was meant.
    text = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(text, name=name, obj=_sys.modules[__name__])


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
