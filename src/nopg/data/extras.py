"""Optional packages, imported where they are needed and named when they are missing."""

import importlib
from typing import Any

from nopg.errors import MissingExtraError


def require_extra(module: str, extra: str) -> Any:
    """Import `module`, which comes with the extra `extra` of this package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"This needs the package `{module.split('.')[0]}`, which is not installed; "
            f'run pip install "nopg[{extra}]".'
        ) from error
