"""What can be wrong with a program that a user writes or imports."""

from __future__ import annotations

from mirage.errors import MirageError


class FrontendError(MirageError):
    """Base of the errors of :mod:`mirage.frontend`."""


class GraphShapeError(FrontendError, ValueError):
    """Shapes, ranks or dimensions that do not fit the op."""


class GraphTypeError(FrontendError, TypeError):
    """Element types that do not fit the op, or an argument that is not a tensor, tile or number."""


class ForeignValueError(FrontendError, ValueError):
    """A value of one graph used in another."""


class InvalidGraphError(FrontendError, ValueError):
    """A graph as a whole that is no program: empty, no outputs, an input that nothing reads."""


class BlockPhaseError(FrontendError, ValueError):
    """A value of a loop's steps used outside of the loop without an accumulator, or the other way
    round.
    """


class UnsupportedOpError(FrontendError, NotImplementedError):
    """An op of an imported module that has no meaning here; ``op`` is its name."""

    op: str = ""


class DynamicShapeError(FrontendError, ValueError):
    """A tensor whose shape is not known when the program is imported."""


class ImportFailedError(FrontendError, RuntimeError):
    """PyTorch or torch-mlir could not capture the module."""
