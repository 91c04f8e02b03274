"""Finding the line of the user's program that called into Mirage."""

from __future__ import annotations

import os
import sys

import mirage
from mirage.errors import SourceLocation

_PACKAGE = tuple(os.path.join(os.path.abspath(path), "") for path in mirage.__path__)


def is_internal(path: str) -> bool:
    """Whether an absolute path lies in this package."""
    return path.startswith(_PACKAGE)


def user_location() -> SourceLocation | None:
    """The innermost caller outside of this package; None where there is none."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if not is_internal(file):
            return SourceLocation(file, frame.f_lineno)
        frame = frame.f_back
    return None
