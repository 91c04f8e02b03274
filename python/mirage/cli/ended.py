"""The error for a command that another process ends."""

from __future__ import annotations


class Ended(SystemExit):
    """The process has received SIGTERM; the running code is not at fault."""
