"""Types of the torch dialect that kernels do not have, and values of them."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.semantics.ugraph import TensorType, Value


@dataclass(frozen=True)
class Foreign:
    """The type of a tensor that kernels do not have: PyTorch's name, and that of what carries
    it."""

    dtype: str
    carrier: TensorType


@dataclass(frozen=True)
class Carried:
    """A tensor of a type that kernels do not have: calls see what ``value`` carries."""

    value: Value
    dtype: str
