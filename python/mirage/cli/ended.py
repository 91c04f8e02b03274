"""What ends a command from outside."""

from __future__ import annotations


class Ended(SystemExit):
    """SIGTERM has come: no fault of whatever ran then."""
