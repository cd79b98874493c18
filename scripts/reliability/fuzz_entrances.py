"""Observations at every entrance: the library, the guard, the numpy reader, C."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scripts.reliability.fuzz_child import Target
from scripts.reliability.fuzz_mutations import odd_observation

import nopg
from nopg.errors import NopgError
from nopg.export.numpy_reader import NumpyPolicy
from nopg.export.verify import STRICT

LIMIT = 2.0
"""Largest torque of the pendulum."""
NUMPYS = (TypeError, ValueError, OverflowError)
GOOD = b"0.0, 0.0, 0.0"
_GLUE = """
#include "policy.h"
int act(const double *seen, double *action) {
  policy_state state;
  policy_reset(&state);
  return policy_act(&state, seen, action);
}
"""


def entrances(folder: Path, policy: Any) -> list[Target]:
    """A target per entrance; the bytes of its files are seeds of odd observations."""
    nopg.export_policy(policy, folder / "policy.npz", "numpy")
    reader = NumpyPolicy(folder / "policy.npz")
    safe = nopg.SafePolicy(policy, lambda observation: [0.0])
    actions: dict[str, Callable[[Any], Any]] = {
        "predict": lambda seen: policy.predict(seen)[0],
        "guard": lambda seen: safe.predict(seen)[0],
        "numpy reader": reader,
    }
    if shutil.which("cc"):
        actions["c header"] = _compiled(folder, policy)
    others: dict[str, Callable[[Any], Any]] = {
        "value": policy.value,
        "support": lambda seen: policy.support(seen, [[0.0]]).distance,
    }
    return [
        Target(
            f"observation, {name}",
            GOOD,
            folder / name,
            _asking(ask, LIMIT if name in actions else np.inf),
            # The reader needs numpy alone, and so has no errors of its own.
            refusals=(NopgError, *(NUMPYS if ask is reader else ())),
        )
        for name, ask in (actions | others).items()
    ]


def _asking(ask: Callable[[Any], Any], limit: float) -> Callable[[Path], object]:
    """What `ask` says of the observation that the bytes of a file stand for."""

    def read(path: Path) -> object:
        content = path.read_bytes()
        is_good = content == GOOD
        seen = [0.0] * 3 if is_good else odd_observation(random.Random(content))
        said = np.asarray(ask(seen), dtype=np.float64)
        if not (np.abs(said) <= limit).all():
            raise AssertionError(f"the answer to {str(seen)[:80]} is {str(said)[:80]}")
        return said

    return read


def _compiled(folder: Path, policy: Any) -> Callable[[Any], Any]:
    """The C header behind the same question; what are no three numbers is refused."""
    nopg.export_policy(policy, folder / "policy.h")
    (folder / "act.c").write_text(_GLUE)
    command = ["cc", *STRICT, "-shared", "-fPIC", "act.c", "-o", "act.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "act.so"))

    def act(seen: Any) -> Any:
        try:
            row = np.ascontiguousarray(seen, dtype=np.float64)
            assert row.shape == (3,)
        except (TypeError, ValueError, AssertionError, OverflowError):
            raise NopgError("no three numbers") from None
        action = (ctypes.c_double * 1)(0.125)
        library.act(row.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), action)
        return action[0]

    return act
