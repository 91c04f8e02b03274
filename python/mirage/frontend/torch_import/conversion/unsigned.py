"""Calls on unsigned integers, as calls on signed ones that carry the same bits or the same number.

What only moves elements moves the bits. What computes with them gets them as i64, in which each is
the number that it is; the result is cut to its bits, as sums, products and functions of bits of the
lowest bits are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from mirage.frontend.torch_import.rows.elements.comparisons import COMPARISONS
from mirage.frontend.torch_import.rows.elements.elementwise import ELEMENTWISE
from mirage.frontend.torch_import.rows.elements.floors_and_remainders import ROUNDING
from mirage.frontend.torch_import.rows.foreign import Carried
from mirage.frontend.torch_import.rows.lowering import Call, Lowering
from mirage.frontend.torch_import.rows.movement.views import VIEWS
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import TensorType, Value
from mirage.transforms.partition.integer_regions import BIT_CALLS

BITS: Mapping[str, int] = {"uint8": 8}
"""The types, by PyTorch's names, that torch-mlir has."""
_CONVERSIONS = frozenset({"aten.to.dtype", "aten._to_copy", "aten.type_as"})
_COMPUTED = frozenset({*ELEMENTWISE, *ROUNDING, *COMPARISONS, *BIT_CALLS}) - frozenset(VIEWS)


def with_signed(
    b: Lowering, call: Call, signed: Callable[[Call], object]
) -> tuple[Value | Carried, ...] | None:
    """Return what ``signed`` makes of the call on signed integers; None if it is no such call."""
    given = [x.dtype for x in _tensors(call.args) if isinstance(x, Carried)]
    types = {*given, *(f.dtype for f in call.foreign if f is not None)}
    if len(types) != 1 or not types <= BITS.keys():
        return None
    (name,) = types
    if call.op in VIEWS and all(isinstance(x, Carried) for x in _tensors(call.args)):
        moved = replace(call, args=_each(call.args, lambda x: x.value), results=_carriers(call))
        return _carried(call, name, signed(replace(moved, foreign=())))
    numbers = call.op in _CONVERSIONS or _are_below(call.args, 1 << BITS[name])
    if call.op not in _COMPUTED or not numbers or any(map(_is_converted, _tensors(call.args))):
        return None
    args = _each(call.args, lambda x: _number(b, x))
    results = tuple(
        r if f is None else TensorType(f.carrier.shape, DType.I64)
        for r, f in zip(call.results, call.foreign or (None,) * len(call.results), strict=True)
    )
    return _carried(call, name, signed(replace(call, args=args, results=results, foreign=())), b)


def _number(b: Lowering, x: Carried) -> Value:
    """Return unsigned integers as the numbers that they are."""
    return b.combine(BinaryFn.REMAINDER, b.cast(x.value, DType.I64), 1 << BITS[x.dtype])


def _carriers(call: Call) -> tuple[TensorType | None, ...]:
    found = call.foreign or (None,) * len(call.results)
    return tuple(r if f is None else f.carrier for r, f in zip(call.results, found, strict=True))


def _carried(
    call: Call, name: str, got: object, b: Lowering | None = None
) -> tuple[Value | Carried, ...]:
    """Return the results of the call, whose numbers are cut to their bits by ``b``."""
    values: list[Value] = [got] if isinstance(got, Value) else list(got)  # pyright: ignore
    results: list[Value | Carried] = []
    foreign = call.foreign or (None,) * len(values)
    if call.results == foreign == (None,):  # a list of tensors
        return tuple(Carried(v, name) for v in values)
    for value, other in zip(values, foreign, strict=True):
        if other is None:
            results.append(value)
        else:
            cut = value if b is None else b.typed(value, other.carrier.dtype)
            results.append(Carried(cut, name))
    return tuple(results)


def _tensors(args: object) -> list[Value | Carried]:
    if isinstance(args, Value | Carried):
        return [args]
    items = cast("list[object]", args) if isinstance(args, list | tuple) else []
    return [x for item in items for x in _tensors(item)]


def _each(args: tuple[object, ...], new: Callable[[Carried], Value]) -> tuple[object, ...]:
    """Return the arguments with ``new`` ones in place of unsigned integers."""

    def of(x: object) -> object:
        if isinstance(x, list):
            return [of(item) for item in cast("list[object]", x)]
        return new(x) if isinstance(x, Carried) else x

    return tuple(map(of, args))


def _is_converted(x: Value | Carried) -> bool:
    """Return whether PyTorch converts a tensor to the type of another operand, as it does numbers:
    this may change it."""
    return isinstance(x, Value) and x.dtype.is_integer and not x.shape


def _are_below(args: tuple[object, ...], end: int) -> bool:
    """Return whether all numbers among the arguments are ones that the type has: PyTorch converts
    other ones."""
    numbers = (x for x in args if isinstance(x, int | float) and not isinstance(x, bool))
    return all(0 <= x < end and x == int(x) for x in numbers)
