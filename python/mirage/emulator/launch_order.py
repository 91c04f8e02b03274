"""Where a kernel waits for the grids before it (``griddepcontrol.wait``)."""

from __future__ import annotations

from enum import Enum


class Waits(Enum):
    """Where a kernel has to wait, so that later ones can rely on everything before it."""

    NOWHERE = "nowhere"
    FIRST = "first"
    """Before it lets later grids start, and before it ends."""
    LAST = "last"
    """Before it ends."""
