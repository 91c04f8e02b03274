"""A kernel problem: the values to compute, and the solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from mirage.cost.cost_report import CostReport
from mirage.cost.overlapping_views import Cut
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.problems.growth import Scales
from mirage.semantics.scalar import DType
from mirage.semantics.substitute import rename_graph, rename_ops
from mirage.semantics.ugraph import (
    Contraction,
    KernelGraph,
    Launch,
    Op,
    Reshape,
    Value,
    launches,
    values_in,
)


@dataclass(frozen=True)
class KernelProblem:
    """Compute ``outputs`` from ``leaves`` by the ops in ``definitions``.

    Several outputs have the shape of the first, or one that broadcasts to it.
    """

    outputs: tuple[Value, ...]
    leaves: tuple[Value, ...]
    definitions: dict[Value, Op]
    table: AxisTable
    combine: bool = False  # it sums partial results: no matmuls, no further grid sums
    hot: frozenset[Value] = (
        frozenset()
    )  # leaves that L2 still holds, as kernels before have just written them
    scales: Scales | None = None  # the growth of the leaves, if they are values of a larger program
    narrower: Fraction = Fraction(1)
    """How many times as many columns another problem has whose tiles are computed by the same
    blocks: tiles may be narrower than usual by this factor."""
    tables: frozenset[tuple[Value, float]] = frozenset()
    """The leaves that are rows of a table with fewer rows, and its bytes: kernels will look them
    up, and read no more from device memory."""

    cuts: frozenset[tuple[Value, Cut]] = frozenset()
    """The leaves that are blocks of tensors, which may overlap."""

    rows: frozenset[tuple[Value, int]] = frozenset()
    """The leaves that kernels will look up, and the number of dimensions of their indices, which
    come first: no view may merge these with the dimensions of a row."""

    rounded: frozenset[Value] = frozenset()
    """The values that kernels round to their types of 16 bits, as the program does, and quotients
    that are no products with an inverse."""

    def read_bytes(self, leaf: Value) -> float:
        """Return the bytes of device memory that kernels read for a leaf."""
        if leaf in self.hot:
            return 0.0
        return dict(self.tables).get(leaf, float(leaf.type.bytes))

    @property
    def tf32(self) -> bool:
        """Whether products of f32 factors may round them to TF32: all those of the program do."""
        products = [
            op.rounds_factors
            for op in self.definitions.values()
            if isinstance(op, Contraction)
            and len(op.operands) == 2
            and op.result.dtype is DType.F32
        ]
        return bool(products) and all(products)


Written = tuple[Launch | Reshape, ...]
"""The launches of a kernel, with the views that they need."""


@dataclass(frozen=True)
class Solution:
    """Launches (a kernel and perhaps its combine kernel) that compute a problem's outputs, with the
    views of tensors that they need; and their cost. ``combined`` is the program that combine
    kernels compute, whose inputs are partial results and views of leaves."""

    ops: Written
    cost: CostReport
    description: str
    combined: KernelGraph | None = None

    def renamed(self, names: Mapping[Value, Value]) -> Solution:
        """Return a copy for other inputs and outputs, which has no value in common with this
        one."""
        own = {v: Value(v.type, v.name) for v in values_in(self.ops)}
        own.update(names)
        for launch in launches(self.ops):
            for operand, param in zip(launch.operands, launch.body.params, strict=True):
                own[param] = Value(param.type, own.get(operand, operand).name)
        combined = None if self.combined is None else rename_graph(self.combined, own)
        return replace(self, ops=as_written(rename_ops(self.ops, own)), combined=combined)


def as_written(ops: Sequence[Op]) -> Written:
    """Return the ops, all of which must be launches or views, with that type."""
    written = tuple(op for op in ops if isinstance(op, Launch | Reshape))
    assert len(written) == len(ops)
    return written
