"""Values that are nonzero, or positive, because a value computed from them is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from mirage.semantics.indexing.indices import Region, region_shape
from mirage.semantics.numbers import nearest
from mirage.semantics.ops.kinds import Elementwise, View, is_cast
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.region import Demand
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, RealDomain, UnaryFn
from mirage.semantics.ugraph import KernelGraph

Part = tuple[Value, Region]
"""A part of a value."""
_MOST = 32


def not_zero(graph: KernelGraph, wanted: Demand) -> list[Part]:
    """Return parts of values that are nonzero wherever the wanted parts are defined: the arguments
    that an operation needs to be nonzero, the values whose product, magnitude, root or view such an
    argument is, and so on. ``graph`` is free of composites."""
    made = {op.result: op for op in graph.ops if len(op.results) == 1}
    found: list[Part] = []
    open_ = [
        part
        for op in graph.ops
        if len(op.results) == 1 and op.result in wanted.regions
        for part in _owed(op, wanted.regions[op.result])
    ]
    while open_ and len(found) < _MOST:
        value, region = open_.pop()
        op = made.get(value)
        if op is None:
            continue
        parts = list(_made_of(op, region))
        found += parts
        open_ += parts
    return found


def positive(graph: KernelGraph, wanted: Demand) -> list[Part]:
    """Return parts of values that are positive wherever the wanted parts are defined: two values of
    which the logarithm of a product or quotient is taken, and whose sum is a positive constant
    (``log(x / (1 - x))``). Not both of these can be negative. ``graph`` is free of composites."""
    made = {op.result: op for op in graph.ops if len(op.results) == 1}
    found: list[Part] = []
    for op in graph.ops:
        fn = op.function
        logarithm = isinstance(fn, UnaryFn) and UNARY[fn].domain is RealDomain.POSITIVE
        if not logarithm or op.result not in wanted.regions:
            continue
        value, region = op.operands[0], op.needs(wanted.regions[op.result])[0]
        while (inner := made.get(value)) is not None and is_cast(inner):
            value = inner.operands[0]
        if inner is None or inner.function not in (BinaryFn.MUL, BinaryFn.DIV):
            continue
        x, y = inner.operands
        if _add_up(x, y, made) or _add_up(y, x, made):
            found += zip(inner.operands, inner.needs(region), strict=True)
    return found


def _add_up(x: Value, y: Value, made: Mapping[Value, Op]) -> bool:
    """Return whether ``y`` is a positive constant minus ``x``."""
    op = made.get(y)
    if op is None or op.function is not BinaryFn.SUB or op.operands[1] is not x:
        return False
    constant = made.get(op.operands[0])
    number = None if constant is None else constant.number
    return number is not None and nearest(number) > 0


def _owed(op: Op, region: Region) -> Iterator[Part]:
    """Yield the operands that the op divides by or takes a logarithm of, for a part of its
    result."""
    fn, needs = op.function, op.needs(region)
    nonzero = (RealDomain.POSITIVE, RealDomain.NONZERO)
    if isinstance(fn, UnaryFn) and UNARY[fn].domain in nonzero and not UNARY[fn].logic:
        yield op.operands[0], needs[0]
    if fn in (BinaryFn.DIV, BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):
        yield op.operands[1], needs[1]


def _made_of(op: Op, region: Region) -> Iterator[Part]:
    """Yield the operands that are nonzero wherever this part of the op's result is."""
    fn, parts = op.function, list(zip(op.operands, op.needs(region), strict=True))
    if isinstance(fn, UnaryFn):
        yield from parts if UNARY[fn].zero_at_zero else ()
    elif fn is BinaryFn.DIV:
        yield parts[0]
    elif isinstance(fn, BinaryFn):
        yield from parts if BINARY[fn].zero_at_either else ()
    elif isinstance(op, Elementwise) and op.identity:
        yield from parts
    elif isinstance(op, View) and _size(parts[0]) <= _size((op.result, region)):
        yield from parts  # no elements besides those that are examined


def _size(part: Part) -> int:
    value, region = part
    return prod(region_shape(region, value.shape))
