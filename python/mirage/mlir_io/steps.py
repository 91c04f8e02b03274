"""Steps that a loop takes: from affine maps to numbers and back."""

from __future__ import annotations

from dataclasses import dataclass

from mirage import ir
from mirage.mlir_io.data import GraphIOError
from mirage.semantics.ugraph import StepNumber, Steps


def write_steps(steps: Steps) -> ir.Attribute:
    """The map from positions along ``steps.axes`` to the first step and the end."""
    axes = steps.axes
    numbers = [_written(n, axes) for n in (steps.first, steps.end)]
    return ir.AffineMapAttr.get(ir.AffineMap.get(len(axes), 0, numbers))


def _written(number: StepNumber, axes: tuple[str, ...]) -> ir.AffineExpr:
    total = ir.AffineExpr.get_constant(number.constant)
    for axis, factor in number.terms:
        total = ir.AffineExpr.get_dim(axes.index(axis)) * factor + total
    if number.divisor == 1:
        return total
    return ir.AffineExpr.get_floor_div(total, ir.AffineExpr.get_constant(number.divisor))


def read_steps(affine_map: ir.AffineMap, axes: tuple[str, ...], op: ir.Operation) -> Steps:
    """What :func:`write_steps` wrote, which MLIR may have simplified. Raises
    :class:`GraphIOError` for quotients of quotients and sums of two."""
    first, end = (_number(_read(e, op), axes) for e in affine_map.results)
    return Steps(first, end)


@dataclass(frozen=True)
class _Sum:
    """``floor((sum of factor * position + constant) / divisor)``, positions by their number."""

    factors: dict[int, int]
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
        return _Sum({e.position: 1}, 0)
    if isinstance(e, ir.AffineAddExpr):
        a, b = _read(e.lhs, op), _read(e.rhs, op)
        if 1 in (a.divisor, b.divisor):  # x / c + y is (x + c y) / c
            a, b = (x.times(y.divisor if x.divisor == 1 else 1) for x, y in ((a, b), (b, a)))
            return a.plus(b)
    if isinstance(e, ir.AffineMulExpr) and isinstance(e.rhs, ir.AffineConstantExpr):
        a = _read(e.lhs, op)
        if a.divisor == 1:
            return a.times(e.rhs.value)
    if isinstance(e, ir.AffineFloorDivExpr) and isinstance(e.rhs, ir.AffineConstantExpr):
        a = _read(e.lhs, op)
        return _Sum(a.factors, a.constant, a.divisor * e.rhs.value)
    raise GraphIOError(f"expected sums of multiples, divided by a constant, got {e}", op)


def _number(x: _Sum, axes: tuple[str, ...]) -> StepNumber:
    terms = tuple((axes[d], f) for d, f in sorted(x.factors.items()) if f)
    return StepNumber(terms, x.constant, x.divisor)
