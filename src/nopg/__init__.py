"""Policies from a few logged transitions: the nonparametric off-policy policy gradient.

data = nopg.Dataset(observations, actions, rewards, next_observations, terminations)
model = nopg.NOPG()
history = model.fit(data, initial_states)
action, _ = model.predict(observation)
"""

from typing import TYPE_CHECKING, Any

from nopg.algorithms.nopg.batch import fit_batch
from nopg.algorithms.nopg.nopg import NOPG
from nopg.bellman.certificate import Objective
from nopg.bellman.equation import BellmanEquation
from nopg.data.dataset import Dataset
from nopg.errors import (
    ConfigError,
    DataError,
    PolicyFileError,
    NopgError,
    NopgWarning,
    NotFittedError,
    SolverError,
    SupportWarning,
)
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.safe_policy import SafePolicy
from nopg.evaluation.support import Support
from nopg.fitted.history import History
from nopg.fitted.storage import load
from nopg.kernels.bandwidths import Bandwidths
from nopg.kernels.selection import CrossValidated, LeaveOneOut
from nopg.policies.build import linear_policy

if TYPE_CHECKING:
    from nopg.algorithms.search.learn import learn

__version__ = "0.1.0"
__all__ = [
    "NOPG",
    "Bandwidths",
    "BellmanEquation",
    "ConfigError",
    "CrossValidated",
    "DataError",
    "Dataset",
    "History",
    "Estimate",
    "LeaveOneOut",
    "PolicyFileError",
    "NopgError",
    "NopgWarning",
    "NotFittedError",
    "Objective",
    "SafePolicy",
    "SolverError",
    "Support",
    "SupportWarning",
    "fit_batch",
    "learn",
    "linear_policy",
    "load",
]


def __getattr__(name: str) -> Any:
    """`learn` and the models it needs, imported when first asked for."""
    if name == "learn":
        from nopg.algorithms.search.learn import learn

        return learn
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
