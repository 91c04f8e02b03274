"""What can go wrong between a chosen µGraph and an artifact."""

from __future__ import annotations

from mirage.errors import MirageError


class CompileError(MirageError):
    """A program cannot be compiled; the message has the diagnostics."""


class UnsupportedChipError(CompileError):
    """No code is generated for that chip."""


class PtxasError(CompileError):
    """The assembler rejects the code that was generated."""
