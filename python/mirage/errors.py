"""The root of Mirage's exceptions, and places in a user's program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLocation:
    """A line of a user's program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class MirageError(Exception):
    """Base of the errors that a user can cause; ``str`` is a complete message.

    ``location`` is the place in the user's program, where it is known; it leads the message.
    """

    def __init__(self, message: str, location: SourceLocation | None = None) -> None:
        self.message = message
        self.location = location
        super().__init__(message if location is None else f"{location}: {message}")
