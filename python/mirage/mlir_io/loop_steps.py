"""Conversion of the steps that a loop takes, from affine maps to numbers and back."""

from __future__ import annotations

from mirage import ir
from mirage.mlir_io import attributes as a
from mirage.mlir_io.data import GraphIOError
from mirage.semantics.ugraph import ExtremeFn, Reading, StepNumber, Steps

EXTREME = a.EnumCodec(tuple(ExtremeFn))


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
    for quotient, factor in number.quotients:
        total = _written(quotient, axes) * factor + total
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
    :class:`GraphIOError` for anything but sums of multiples and quotients."""
    first, end = (_read(e, axes, op) for e in affine_map.results)
    return Steps(first, end, readings)


def _read(e: ir.AffineExpr, axes: tuple[str, ...], op: ir.Operation) -> StepNumber:
    if isinstance(e, ir.AffineConstantExpr):
        return StepNumber((), e.value)
    if isinstance(e, ir.AffineDimExpr):
        return StepNumber(((axes[e.position], 1),))
    if isinstance(e, ir.AffineSymbolExpr):
        return StepNumber((), reads=((e.position, 1),))
    if isinstance(e, ir.AffineAddExpr):
        return _read(e.lhs, axes, op).plus(_read(e.rhs, axes, op))
    if isinstance(e, ir.AffineMulExpr) and isinstance(e.rhs, ir.AffineConstantExpr):
        return _read(e.lhs, axes, op).times(e.rhs.value)
    if isinstance(e, ir.AffineFloorDivExpr) and isinstance(e.rhs, ir.AffineConstantExpr):
        return _read(e.lhs, axes, op).over(e.rhs.value)
    raise GraphIOError(f"expected sums of multiples, divided by constants, got {e}", op)
