"""The line of the user's program that called into Mirage."""

from __future__ import annotations

import os
import sys

import mirage
from mirage.errors import SourceLocation

_PACKAGE = tuple(os.path.join(os.path.abspath(path), "") for path in mirage.__path__)
_COMMAND = tuple(os.path.join(path, "cli", "") for path in _PACKAGE)


def is_internal(path: str) -> bool:
    """Return whether an absolute path lies in this package."""
    return path.startswith(_PACKAGE)


def user_location() -> SourceLocation | None:
    """Return the innermost caller outside of this package; None if there is none, or only the
    script that starts the command.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    inner = ""
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if not is_internal(file):
            return None if inner.startswith(_COMMAND) else SourceLocation(file, frame.f_lineno)
        inner, frame = file, frame.f_back
    return None
