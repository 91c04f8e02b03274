"""The root of Mirage's exceptions, and places in a user's program and in IR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage import ir


@dataclass(frozen=True)
class SourceLocation:
    """A line of a user's program; 0 if only the file is known."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class MirageError(Exception):
    """Base of the errors that a user can cause; ``str`` is a complete message.

    ``location`` is the place in the user's program, where it is known; it leads the message.
    """

    def __init__(self, message: str, location: SourceLocation | None = None) -> None:
        self.message = message
        self.location = location
        super().__init__(message if location is None else f"{location}: {message}")

    def locate(self, location: SourceLocation) -> None:
        """Sets the place if it was not known."""
        if self.location is None:
            self.location = location
            self.args = (f"{location}: {self.message}",)


class OperationError(MirageError):
    """Something is wrong with an operation, or with the current one if ``op`` is None."""

    def __init__(self, message: str, op: ir.Operation | None = None) -> None:
        super().__init__(message)
        self.op = op
