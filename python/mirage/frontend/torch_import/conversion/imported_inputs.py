"""The inputs of a graph that is being imported: the tensors that the caller passes, weights and
buffers, and tensors that are known at import and that the graph reads.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

import torch

from mirage.frontend.torch_import.capture.captured_arguments import Argument
from mirage.frontend.torch_import.rows.foreign import Carried, Foreign
from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.runtime.dispatch.carriers import carried
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import TensorType, Value


class GraphInputs:
    """Inputs with unique names, in the order in which they are added."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._all: list[tuple[Value, Argument]] = []
        self._tables: dict[bytes, Value] = {}
        self.carriers: dict[Value, str] = {}
        """The inputs of types that kernels do not have, with PyTorch's names of these types."""

    def add(self, argument: Argument, result: TensorType) -> Value:
        """Make an argument an input."""
        value = self._named(argument, result)
        if argument.folded and result.dtype.is_integer and result.size:
            assert argument.data is not None
            low, high = argument.data.min(), argument.data.max()
            self._lowering.given[value] = (float(low), float(high))
            self._lowering.held[value] = argument.data.cpu().numpy()
        return value

    def hold(self, data: torch.Tensor) -> Value:
        """Make a tensor that is known at import an input."""
        dtype = dtype_of(data)
        assert dtype is not None
        argument = Argument(self._unique("folded_table"), data, folded=True)
        return self.add(argument, TensorType(tuple(data.shape), dtype))

    def hold_once(self, data: Array) -> Value:
        """Make known elements an input, the same one for the same elements."""
        key = f"{data.dtype}{data.shape}".encode() + data.tobytes()
        if key not in self._tables:
            self._tables[key] = self.hold(torch.from_numpy(data))
        return self._tables[key]

    def carry(self, argument: Argument, foreign: Foreign) -> Carried:
        """Make an argument of a type that kernels do not have an input of the type that carries
        it."""
        data = None if argument.data is None else carried(argument.data.detach())
        value = self._named(replace(argument, data=data), foreign.carrier)
        self.carriers[value] = foreign.dtype
        return Carried(value, foreign.dtype)

    def passed(self) -> list[tuple[Value, Argument]]:
        """Return the inputs that the caller passes."""
        return [(v, a) for v, a in self._all if a.data is None]

    def bound(
        self, read: Collection[Value], updated: Collection[str]
    ) -> list[tuple[Value, Argument]]:
        """Return the inputs that are bound to tensors, if they are ``read`` or have names in
        ``updated``."""
        held = ((v, a) for v, a in self._all if a.data is not None)
        return [(v, a) for v, a in held if v in read or a.name in updated]

    def _named(self, argument: Argument, result: TensorType) -> Value:
        value = Value(result, self._unique(argument.name))
        self._all.append((value, argument))
        return value

    def _unique(self, name: str) -> str:
        """Return an identifier that no input has yet."""
        taken = {v.name for v, _ in self._all}
        base = re.sub(r"\W", "_", name)
        base = base if base.isidentifier() else f"v_{base}"
        unique, number = base, 0
        while unique in taken:
            number += 1
            unique = f"{base}_{number}"
        return unique


def dtype_of(tensor: torch.Tensor) -> DType | None:
    """Return the element type of a tensor; None for types that kernels do not have."""
    names = {getattr(torch, name): DType(short) for short, name in TORCH_NAMES.items()}
    return names.get(tensor.dtype)
