"""Conversion of the steps that a loop takes, from affine maps to numbers and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mirage import ir
from mirage.mlir_io import attributes as a
from mirage.mlir_io.data import GraphIOError
from mirage.semantics.ugraph import ExtremeFn, Reading, StepNumber, Steps

EXTREME = a.EnumCodec(tuple(ExtremeFn))

_Term: TypeAlias = "tuple[str, int]"


def write_steps(steps: Steps) -> ir.Attribute:
    """Return the map from positions along ``steps.axes``, and (as symbols) from integers that are
    read, to the first step and the end."""
    axes = steps.axes
    numbers = [_written(n, axes) for n in (steps.first, steps.end)]
    return ir.AffineMapAttr.get(ir.AffineMap.get(len(axes), len(steps.readings), numbers))


def write_reading(reading: Reading, tensor: ir.Value) -> ir.Value:
    """Write a `block.scalar` at the current insertion point."""
    attributes = {
        "fn": EXTREME.write(reading.fn),
        "map": a.MAP.write(reading.map),
        "tile": a.INTEGERS.write(reading.tile),
        "least": a.INTEGER.write(reading.least),
        "most": a.INTEGER.write(reading.most),
    }
    index = ir.IndexType.get()
    op = ir.Operation.create("block.scalar", [index], [tensor], attributes)
    return op.results[0]


def read_reading(op: ir.Operation) -> Reading:
    """Read the op that :func:`write_reading` wrote."""
    return Reading(
        EXTREME.read(op.attributes["fn"]),  # pyright: ignore[reportArgumentType]
        a.MAP.read(op.attributes["map"]),
        a.INTEGERS.read(op.attributes["tile"]),
        a.INTEGER.read(op.attributes["least"]),
        a.INTEGER.read(op.attributes["most"]),
    )


def _written(number: StepNumber, axes: tuple[str, ...]) -> ir.AffineExpr:
    total = ir.AffineExpr.get_constant(number.constant)
    for axis, factor in number.terms:
        total = ir.AffineExpr.get_dim(axes.index(axis)) * factor + total
    for i, factor in number.reads:
        total = ir.AffineExpr.get_symbol(i) * factor + total
    if number.divisor == 1:
        return total
    return ir.AffineExpr.get_floor_div(total, ir.AffineExpr.get_constant(number.divisor))


def read_steps(
    affine_map: ir.AffineMap,
    axes: tuple[str, ...],
    readings: tuple[Reading, ...],
    op: ir.Operation,
) -> Steps:
    """Read the map that :func:`write_steps` wrote, which MLIR may have simplified. Raises
    :class:`GraphIOError` for quotients of quotients and sums of two."""
    first, end = (_number(_read(e, op), axes) for e in affine_map.results)
    return Steps(first, end, readings)


@dataclass(frozen=True)
class _Sum:
    """The number ``floor((sum of factor * term + constant) / divisor)``; terms are positions (`d`)
    and integers that are read (`s`), by their number."""

    factors: dict[_Term, int]
    constant: int
    divisor: int = 1

    def times(self, n: int) -> _Sum:
        return _Sum({d: n * f for d, f in self.factors.items()}, n * self.constant, self.divisor)

    def plus(self, other: _Sum) -> _Sum:
        factors = {
            d: self.factors.get(d, 0) + other.factors.get(d, 0)
            for d in sorted(self.factors.keys() | other.factors.keys())
        }
        return _Sum(factors, self.constant + other.constant, max(self.divisor, other.divisor))


def _read(e: ir.AffineExpr, op: ir.Operation) -> _Sum:
    if isinstance(e, ir.AffineConstantExpr):
        return _Sum({}, e.value)
    if isinstance(e, ir.AffineDimExpr):
        return _Sum({("d", e.position): 1}, 0)
    if isinstance(e, ir.AffineSymbolExpr):
        return _Sum({("s", e.position): 1}, 0)
    if isinstance(e, ir.AffineAddExpr):
        x, y = _read(e.lhs, op), _read(e.rhs, op)
        if 1 in (x.divisor, y.divisor):  # x / c + y is (x + c y) / c
            x, y = (p.times(q.divisor if p.divisor == 1 else 1) for p, q in ((x, y), (y, x)))
            return x.plus(y)
    if isinstance(e, ir.AffineMulExpr) and isinstance(e.rhs, ir.AffineConstantExpr):
        x = _read(e.lhs, op)
        if x.divisor == 1:
            return x.times(e.rhs.value)
    if isinstance(e, ir.AffineFloorDivExpr) and isinstance(e.rhs, ir.AffineConstantExpr):
        x = _read(e.lhs, op)
        return _Sum(x.factors, x.constant, x.divisor * e.rhs.value)
    raise GraphIOError(f"expected sums of multiples, divided by a constant, got {e}", op)


def _number(x: _Sum, axes: tuple[str, ...]) -> StepNumber:
    factors = [(kind, i, f) for (kind, i), f in sorted(x.factors.items()) if f]
    terms = tuple((axes[i], f) for kind, i, f in factors if kind == "d")
    reads = tuple((i, f) for kind, i, f in factors if kind == "s")
    return StepNumber(terms, x.constant, x.divisor, reads)
