"""The errors between a chosen µGraph and an artifact."""

from __future__ import annotations

from mirage.errors import MirageError


class CompileError(MirageError):
    """A program cannot be compiled; the message has the diagnostics. ``kernels`` are the numbers,
    among the launches of the program, of those that are known to be the cause.
    """

    def __init__(self, message: str, kernels: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.kernels = kernels


class UnsupportedChipError(CompileError):
    """No code is generated for that chip."""


class PtxasError(CompileError):
    """The assembler rejects the generated code; ``entries`` are the functions that it names."""

    def __init__(
        self, message: str, entries: tuple[str, ...] = (), kernels: tuple[int, ...] = ()
    ) -> None:
        super().__init__(message, kernels)
        self.entries = entries
