"""What can go wrong in a stage."""

from __future__ import annotations

from mirage.errors import MirageError


class StageError(MirageError):
    """A stage was given a graph that it does not take, or it found nothing."""
