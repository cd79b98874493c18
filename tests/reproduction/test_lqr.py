"""The linear-quadratic task."""

import numpy as np
import pytest
from reproduction.tasks.lqr import Lqr

from nopg.errors import ConfigError


def test_matrices_are_checked_and_kept() -> None:
    with pytest.raises(ConfigError, match=r"`B` must have shape \(2, 2\)"):
        Lqr(B=np.ones(2))
    with pytest.raises(ConfigError, match=r"`gamma` must be in \[0, 1\)"):
        Lqr(gamma=1.0)
    with pytest.raises(ValueError, match="read-only"):
        Lqr().A[0, 0] = 3.0
