"""Pictures of the environment in the form a browser shows."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from nopg.record.server import missing_extra

_QUALITY = 88


def as_jpeg(picture: NDArray[np.uint8]) -> bytes:
    """JPEG bytes of a picture (height, width, 3), colours at full resolution.

    Raises:
        MissingExtraError: If Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise missing_extra(error) from error
    stream = io.BytesIO()
    image = Image.fromarray(picture)
    image.save(stream, "JPEG", quality=_QUALITY, subsampling=0)
    return stream.getvalue()
