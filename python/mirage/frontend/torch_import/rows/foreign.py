"""Types of the torch dialect that kernels do not have, and values of them."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.semantics.ugraph import TensorType, Value


@dataclass(frozen=True)
class Foreign:
    """The type of a tensor that kernels do not have: PyTorch's name of it, and the type that
    carries it."""

    dtype: str
    carrier: TensorType


@dataclass(frozen=True)
class Carried:
    """A tensor of a type that kernels do not have; in calls it is the tensor that ``value``
    carries."""

    value: Value
    dtype: str
