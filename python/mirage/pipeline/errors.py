"""The errors of stages."""

from __future__ import annotations

from mirage.errors import MirageError


class StageError(MirageError):
    """A stage was given a graph that it does not accept, or it found nothing."""
