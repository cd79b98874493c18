"""Other libraries, imported without what they print on the way."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from nopg.errors import require_extra


def import_quietly(module: str, extra: str) -> Any:
    """Import `module` of the extra `extra`.

    Both bridges load the old package `gym` where it is installed, and `gym` prints
    a notice to anyone who does.

    Raises:
        MissingExtraError: If it is not installed.
    """
    silent = io.StringIO()
    with contextlib.redirect_stderr(silent), contextlib.redirect_stdout(silent):
        return require_extra(module, extra)
