"""Tensors that are another one but for some rows: what a program stores to a cache.

Programs are stated without side effects, so such a store gives a new tensor. No search looks inside
of one. When the kernels are chosen, the one that computes the row stores it to the old tensor
itself, where nothing else needs that (:mod:`mirage.pipeline.compile.stored_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.domain import Domain, Planes
from mirage.semantics.indexing.indices import Region
from mirage.semantics.indexing.strides import Digits, dense, in_digits
from mirage.semantics.ops.op import Boundary, Op, TensorType, UnknownOp, Value
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph


@dataclass(frozen=True, eq=False)
class IndexCopy(Boundary):
    """Operands ``(tensor, index, row)``: the tensor with the row along ``dim`` that the only index
    names replaced; as it is where there is no such row."""

    dim: int

    arity: ClassVar[tuple[int, int]] = (3, 3)
    in_block: ClassVar[bool] = False
    updates: ClassVar[bool] = True

    @property
    def names_rows(self) -> tuple[Value, int]:
        return self.operands[1], self.operands[0].shape[self.dim]

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
            # residues do not say which row they name
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
    """A part of the row of an update, all of it or what others are joined to: the value, in the
    shape that the row has, the one that a kernel computes, maybe in another shape, and where the
    part begins, in elements after the row's first one."""

    value: Value
    computed: Value
    offset: int


def row_parts(copy: IndexCopy, made: Mapping[Value, Op]) -> list[RowPart]:
    """The parts of a row, given which op makes each value."""
    tensor, _, row = copy.operands
    join = made.get(row)
    dim = None if join is None else join.joined_along
    values = (row,) if join is None or dim is None else join.operands
    step = 0 if dim is None else dense(tensor.shape)[dim]
    found: list[RowPart] = []
    offset = 0
    for value in values:
        computed = value
        while computed in made and made[computed].renames:
            computed = made[computed].operands[0]
        found.append(RowPart(value, computed, offset))
        offset += 0 if dim is None else value.shape[dim] * step
    return found


def place_of(copy: IndexCopy, part: RowPart) -> Digits | None:
    """Where the elements of what is computed lie in the tensor, from where the part begins on; None
    where that has too many of them in one of its dimensions."""
    return in_digits(part.value.shape, dense(copy.operands[0].shape), part.computed.shape)


def row_updates(graph: KernelGraph) -> list[IndexCopy]:
    """The updates of a part of a program, in order."""
    return [cast("IndexCopy", op) for op in graph.ops if op.updates]


def updated_inputs(graph: KernelGraph) -> tuple[int, ...]:
    """The numbers of the inputs that the last outputs of a part of a program are updates of."""
    copies = {op.result: op for op in row_updates(graph)}
    return tuple(graph.inputs.index(copies[v].operands[0]) for v in graph.outputs if v in copies)


def results_of(graph: KernelGraph) -> tuple[Value, ...]:
    """The outputs of a part of a program that are tensors of their own: all before its updates."""
    return graph.outputs[: len(graph.outputs) - len(updated_inputs(graph))]
