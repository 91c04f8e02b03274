"""Tensors that equal another tensor except for some rows: the result of a program's store to a
cache.

Programs have no side effects, so such a store gives a new tensor. The search does not look inside
of it. When the kernels are chosen, the kernel that computes the row stores it directly to the old
tensor, if nothing else needs that (:mod:`mirage.pipeline.compile.stored_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.domain import Domain, Planes
from mirage.semantics.indexing.indices import Region
from mirage.semantics.indexing.strides import Digits, Strides, dense, in_digits, reshaped
from mirage.semantics.ops.kinds import Boundary
from mirage.semantics.ops.op import NamedRows, Op, TensorType, UnknownOp, Value
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph


@dataclass(frozen=True, eq=False)
class IndexCopy(Boundary):
    """The operand ``tensor`` with one row along ``dim`` replaced by ``row``; the only element of
    ``index`` selects the row. The tensor is unchanged if there is no such row. Operands: ``(tensor,
    index, row)``."""

    dim: int

    arity: ClassVar[tuple[int, int]] = (3, 3)
    in_block: ClassVar[bool] = False
    updates: ClassVar[bool] = True

    @property
    def names_rows(self) -> NamedRows:
        return NamedRows(self.operands[1], self.operands[0].shape[self.dim])

    def result_type(self, b: Builder) -> TensorType:
        tensor, index, row = self.operands
        if not 0 <= self.dim < len(tensor.shape):
            raise ShapeError(f"expected a dimension of {tensor.type}, got {self.dim}")
        shape = (*tensor.shape[: self.dim], 1, *tensor.shape[self.dim + 1 :])
        if row.type != TensorType(shape, tensor.dtype):
            wanted = TensorType(shape, tensor.dtype)
            raise ShapeError(f"expected a row of type {wanted}, got {row.type}")
        if index.dtype not in (DType.I32, DType.I64) or index.type.size != 1:
            raise ShapeError(f"expected one index of type i32 or i64, got {index.type}")
        return tensor.type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        tensor, index, row = xs
        if len(index) != 1 or lead:
            # a residue does not determine a row
            raise UnknownOp("expected an index that is a known number, got residues")
        at = int(index[0].reshape(-1)[0])
        if not 0 <= at < self.operands[0].shape[self.dim]:
            return tensor
        found: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = []
        for old, new in zip(tensor, row, strict=True):
            whole = np.array(old, dtype=np.result_type(old, new))
            whole[(*[slice(None)] * self.dim, slice(at, at + 1))] = new
            found.append(whole)
        return tuple(found)

    def needs(self, region: Region) -> tuple[Region, ...]:
        _, index, row = self.operands
        return region, (None,) * len(index.shape), (None,) * len(row.shape)


@dataclass(frozen=True)
class RowPart:
    """All of an update's row, or one of the parts that are concatenated to it: the value, the value
    that a kernel computes (possibly in another shape), the offset of the part in the row, and the
    strides of ``value`` in the updated tensor, in elements."""

    value: Value
    computed: Value
    offset: int
    strides: Strides


def names_of(value: Value, made: Mapping[Value, Op]) -> list[Value]:
    """Return a value and the values of which it is a reshape; ``made`` maps values to the ops that
    define them."""
    found = [value]
    while found[-1] in made and made[found[-1]].renames:
        found.append(made[found[-1]].operands[0])
    return found


def row_parts(copy: IndexCopy, made: Mapping[Value, Op]) -> list[RowPart]:
    """Return the parts of a row, which may be joined in another shape."""
    tensor, _, row = copy.operands
    joined = names_of(row, made)[-1]
    join, steps = made.get(joined), dense(tensor.shape)
    dim = None if join is None else join.joined_along
    inside = reshaped(row.shape, steps, joined.shape)
    if join is None or dim is None or inside is None:
        return [RowPart(row, joined, 0, steps)]
    found: list[RowPart] = []
    offset = 0
    for value in join.operands:
        found.append(RowPart(value, names_of(value, made)[-1], offset, inside))
        offset += value.shape[dim] * inside[dim]
    return found


def place_of(part: RowPart) -> Digits | None:
    """Return the places of the computed elements in the tensor, relative to the start of the part;
    None if a dimension would need too many digits."""
    return in_digits(part.value.shape, part.strides, part.computed.shape)


def row_updates(graph: KernelGraph) -> list[IndexCopy]:
    """Return the updates of a part of a program, in order."""
    return [cast("IndexCopy", op) for op in graph.ops if op.updates]


def updated_inputs(graph: KernelGraph) -> tuple[int, ...]:
    """Return the numbers of the inputs that the last outputs of a part of a program update."""
    copies = {op.result: op for op in row_updates(graph)}
    return tuple(graph.inputs.index(copies[v].operands[0]) for v in graph.outputs if v in copies)


def results_of(graph: KernelGraph) -> tuple[Value, ...]:
    """Return the outputs of a part of a program that are new tensors; they precede its updates."""
    return graph.outputs[: len(graph.outputs) - len(updated_inputs(graph))]
