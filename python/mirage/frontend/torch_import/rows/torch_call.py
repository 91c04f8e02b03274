"""A call of a torch op, in the form that the table's rows take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirage.frontend.torch_import.rows.foreign import Foreign
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.ugraph import TensorType, Value


class Unsupported(Exception):
    """A row cannot express the call; the text says why."""


@dataclass(frozen=True)
class Call:
    """One call of a torch op.

    ``args`` has one entry for each argument of the op's schema: a :class:`Value`, a number, a
    string, None, or a list. ``results`` are the result types; an entry is None if the result is not
    a tensor of real numbers, or has a type that kernels do not have (``foreign`` has those).
    ``used`` says which results are read."""

    op: str
    args: tuple[object, ...]
    results: tuple[TensorType | None, ...]
    used: tuple[bool, ...]
    foreign: tuple[Foreign | None, ...] = ()

    def value(self, index: int) -> Value:
        """Return argument ``index``, a tensor."""
        x = self.args[index]
        if not isinstance(x, Value):
            raise Unsupported(f"argument {index} is not a tensor of real numbers")
        return x

    def operand(self, index: int) -> Value | Number:
        """Return argument ``index``, a tensor or a constant number."""
        x = self.args[index]
        return x if isinstance(x, Value) else self.number(index)

    def optional(self, index: int) -> Value | None:
        """Return argument ``index``, a tensor or None."""
        return None if self.arg(index) is None else self.value(index)

    def arg(self, index: int, default: object = None) -> object:
        """Return argument ``index``."""
        return self.args[index] if index < len(self.args) else default

    def integer(self, index: int) -> int:
        """Return argument ``index``, an integer."""
        x = self.args[index]
        if not isinstance(x, int):
            raise Unsupported(f"argument {index} is not a fixed integer")
        return x

    def number(self, index: int, default: Number | None = None) -> Number:
        """Return argument ``index``, an exact number; ``default`` if it is None."""
        x = self.arg(index)
        if x is None and default is not None:
            return as_number(default)
        if not isinstance(x, (int, float)):
            raise Unsupported(f"argument {index} is not a fixed number")
        return as_number(x)

    def integers(self, index: int) -> tuple[int, ...]:
        """Return argument ``index``, a list of integers or one integer."""
        x = self.args[index]
        items: Sequence[object] = x if isinstance(x, list) else [x]  # pyright: ignore[reportUnknownVariableType]
        if not all(isinstance(i, int) for i in items):
            raise Unsupported(f"argument {index} is not a list of fixed integers")
        return tuple(i for i in items if isinstance(i, int))

    def values(self, index: int) -> tuple[Value, ...]:
        """Return argument ``index``, a list of tensors."""
        x = self.args[index]
        items: Sequence[object] = x if isinstance(x, list) else [x]  # pyright: ignore[reportUnknownVariableType]
        if not all(isinstance(i, Value) for i in items):
            raise Unsupported(f"argument {index} is not a list of tensors of real numbers")
        return tuple(i for i in items if isinstance(i, Value))

    @property
    def result(self) -> TensorType:
        """The type of the first result."""
        first = self.results[0]
        if first is None:
            raise Unsupported("the result is not a tensor of real numbers")
        return first
