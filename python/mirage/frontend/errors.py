"""The errors in programs that a user writes or imports."""

from __future__ import annotations

from mirage.errors import MirageError


class FrontendError(MirageError):
    """Base of the errors of :mod:`mirage.frontend`."""


class GraphShapeError(FrontendError, ValueError):
    """Shapes, ranks or dimensions are not valid for the op."""


class GraphTypeError(FrontendError, TypeError):
    """Element types are not valid for the op, or an argument is not a tensor, tile or number."""


class ForeignValueError(FrontendError, ValueError):
    """A value of one graph is used in another."""


class InvalidGraphError(FrontendError, ValueError):
    """A graph as a whole is not a valid program: it is empty, has no outputs, or has an unused
    input."""


class BlockPhaseError(FrontendError, ValueError):
    """A value of a loop's steps is used outside of the loop without an accumulator, or a value from
    after the loop is used inside of it.
    """


class UnsupportedOpError(FrontendError, NotImplementedError):
    """An op of an imported module is not supported; ``op`` is its name."""

    op: str = ""


class DynamicShapeError(FrontendError, ValueError):
    """The shape of a tensor is not known when the program is imported."""


class ImportFailedError(FrontendError, RuntimeError):
    """PyTorch or torch-mlir could not capture the module."""
