"""The memory that values of a compiled graph occupy: reshapes are names for the same memory, slices
for a part of it, and joins for the memory of which their operands are parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirage.compiler.lowered_ops import integer, maker_of, strides_of, tensor_type
from mirage.runtime.serialization.manifest import ELEMENT_BYTES, Argument
from mirage.semantics.indexing.strides import dense

if TYPE_CHECKING:
    from mirage import ir


@dataclass(eq=False)
class Buffer:
    """Memory that holds one value of the graph (and its reshapes and slices)."""

    shape: tuple[int, ...]
    dtype: str
    place: Argument | None = None  # an input or output; else workspace
    first: int = -1
    last: int = -1


@dataclass(frozen=True)
class MemoryView:
    """A value in memory: ``offset`` bytes into its buffer."""

    buffer: Buffer
    offset: int = 0


def reshaped_of(value: ir.Value) -> ir.Value:
    """Return the value of which a value is a reshape, or the value itself."""
    while maker_of(value) == "kernel.reshape":
        value = value.owner.operands[0]
    return value


def parts_of_joins(block: ir.Block) -> dict[ir.Value, MemoryView]:
    """Return the results of kernels that are parts of a ``kernel.concat``, and their places."""
    found: dict[ir.Value, MemoryView] = {}
    for op in block.operations:
        is_join = op.operation.name == "kernel.concat" and strides_of(op.operands[0]) is not None
        if is_join and strides_of(op.results[0]) is None:
            whole = Buffer(*tensor_type(op.results[0]))
            found.update(_parts_of(op.operation, MemoryView(whole), dense(whole.shape)))
    return found


def _parts_of(
    join: ir.Operation, view: MemoryView, steps: tuple[int, ...]
) -> Iterator[tuple[ir.Value, MemoryView]]:
    """Yield the results of kernels that a join consists of, which begins at ``view`` in a tensor
    with these steps."""
    dim = integer(join, "dim")
    offset = view.offset
    for operand in join.operands:
        part, place = operand, MemoryView(view.buffer, offset)
        while part.owner.name == "kernel.reshape":
            part = part.owner.operands[0]
        if maker_of(part) == "kernel.concat":
            yield from _parts_of(part.owner.operation, place, steps)
        else:
            yield part, place
        shape, dtype = tensor_type(operand)
        offset += shape[dim] * steps[dim] * ELEMENT_BYTES[dtype]
