"""The location and the size limit of the cache.

``MIRAGE_CACHE_DIR`` sets the folder (the default is the user's cache folder, XDG on Linux);
``MIRAGE_CACHE_SIZE`` limits its size.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mirage.errors import MirageError

DEFAULT_SIZE = 2 << 30
"""The default size limit in bytes. A layer takes about 100 KB."""

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class BadSizeError(MirageError, ValueError):
    """``MIRAGE_CACHE_SIZE`` is not a size."""


def cache_folder() -> Path:
    """Return the folder of the cache, which need not exist."""
    override = os.environ.get("MIRAGE_CACHE_DIR")
    if override:
        return Path(override)
    from platformdirs import user_cache_path

    return user_cache_path("mirage")


def size_limit() -> int:
    """Return the limit in bytes; 0 means that nothing is kept. Raises :class:`BadSizeError`."""
    text = os.environ.get("MIRAGE_CACHE_SIZE", "")
    return parse_size(text) if text.strip() else DEFAULT_SIZE


def parse_size(text: str) -> int:
    """Parse ``500M``, ``2G`` or a number of bytes. Raises :class:`BadSizeError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise BadSizeError(
            f"expected a size like 500M or 2G in MIRAGE_CACHE_SIZE (0 keeps nothing), got {text!r}"
        )
    return int(float(found[1]) * UNITS[found[2].upper()])


def shown_size(count: int) -> str:
    """Format a number of bytes for people."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
