"""Rules of ops that occur in blocks only: masks, positions, types of loaded tiles."""

from __future__ import annotations

import math
from math import prod

from mirage.semantics.check.axis_rules import LaunchScope
from mirage.semantics.check.op_rules import InvalidGraph
from mirage.semantics.integer_formula import FormulaError
from mirage.semantics.integers import TileIntegers
from mirage.semantics.positions import MAX_POSITIONS, TileIota
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Mask, Op, Value


class TileRules(LaunchScope):
    """The rules of ops on tiles that name axes."""

    def tile_type(self, at: str, op: Op, source: DType) -> None:
        """Check the type of a tile that is read from memory: the tensor's type, or f32 for whole
        numbers, or i64 for integers."""
        exact = source.is_integer and source is not DType.I1 and op.result.dtype is DType.I64
        if not exact and op.result.dtype is not source.in_tile:
            raise InvalidGraph(
                "C2",
                at,
                f"expected element type {source.in_tile.value}, got {op.result.dtype.value}",
            )

    def iota(self, op: TileIota, scope: frozenset[str], at: str) -> None:
        self.tile_type(at, op, DType.I32)
        shape = op.result.shape
        if not 0 <= op.dim < len(shape):
            raise InvalidGraph("C2", at, f"expected a dimension of {op.result.type}, got {op.dim}")
        self.check_axes(at, op.axes, scope)
        covered = prod(self.extents[a] for a in op.axes) * shape[op.dim]
        if not 1 <= op.extent <= min(covered, MAX_POSITIONS):
            raise InvalidGraph(
                "C7",
                at,
                f"expected an extent between 1 and {min(covered, MAX_POSITIONS)}, got {op.extent}",
            )

    def integers(
        self, op: TileIntegers, params: frozenset[Value], scope: frozenset[str], at: str
    ) -> None:
        """Check the type of a tile of exact arithmetic: f32, the type in which integers are loaded,
        or i64."""
        if not params.issuperset(op.operands):
            raise InvalidGraph("C4", at, "expected params of the block, got a tile")
        try:
            op.formula.check([(v.shape, v.dtype) for v in op.operands], op.shape)
            dtype = op.computed.dtype
        except FormulaError as error:
            raise InvalidGraph("C2", at, str(error)) from error
        self.tile_type(at, op, dtype)
        self.check_map(at, op.map, op.result.shape, op.shape, scope)

    def mask(self, op: Mask, scope: frozenset[str], at: str) -> None:
        x = op.operands[0]
        if op.result.type != x.type:
            raise InvalidGraph(
                "C2", at, f"expected a result of type {x.type}, got {op.result.type}"
            )
        if not 0 <= op.dim < len(x.shape):
            raise InvalidGraph("C2", at, f"expected a dimension of {x.type}, got {op.dim}")
        self.check_axes(at, op.axes, scope)
        covered = prod(self.extents[a] for a in op.axes) * x.shape[op.dim]
        if not 1 <= op.extent <= covered:
            raise InvalidGraph(
                "C10", at, f"expected an extent between 1 and {covered}, got {op.extent}"
            )
        if math.isnan(op.fill):
            raise InvalidGraph("C10", at, "expected a number to fill with, got NaN")
