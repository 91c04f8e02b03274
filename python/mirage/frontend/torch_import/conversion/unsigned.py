"""Calls on unsigned integers, as calls on signed ones that carry the same bits or the same number.

Ops that only move elements move the bits. Ops that compute get i64, which represents each of the
numbers; the result is truncated to its bits, which is right for sums, products and functions of
bits.
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
from mirage.frontend.torch_import.rows.movement.indexing import INDEXING
from mirage.frontend.torch_import.rows.movement.views import VIEWS
from mirage.frontend.torch_import.rows.reductions.ranking import RANKING
from mirage.frontend.torch_import.rows.reductions.reductions import REDUCTIONS
from mirage.frontend.torch_import.rows.reductions.scans import SCANS
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import TensorType, Value
from mirage.transforms.partition.integer_regions import BIT_CALLS

BITS: Mapping[str, int] = {"uint8": 8}
"""The types, by PyTorch's names, that torch-mlir has."""
_CONVERSIONS = frozenset({"aten.to.dtype", "aten._to_copy", "aten.type_as"})
_SUMS = ("aten.sum", "aten.sum.dim_IntList", "aten.prod", "aten.prod.dim_int")
_REDUCED = frozenset({*REDUCTIONS, *SCANS, *RANKING, *_SUMS})
_COMPUTED = frozenset({*ELEMENTWISE, *ROUNDING, *COMPARISONS, *BIT_CALLS, *_REDUCED}) - frozenset(
    VIEWS
)
_STORED = frozenset({"aten.scatter.src", "aten.index_copy"})
_BY_INDEX = (frozenset(INDEXING) - {"aten.one_hot"}) | _STORED
"""The ops that move elements to or from indices, which are other tensors."""


def with_signed(
    b: Lowering, call: Call, signed: Callable[[Call], object]
) -> tuple[Value | Carried, ...] | None:
    """Return the result of ``signed`` for the call on signed integers; None for other calls."""
    given = [x.dtype for x in _tensors(call.args) if isinstance(x, Carried)]
    types = {*given, *(f.dtype for f in call.foreign if f is not None)}
    if len(types) != 1 or not types <= BITS.keys():
        return None
    (name,) = types
    if _moves(call):
        moved = replace(call, args=_each(call.args, lambda x: x.value), results=_carriers(call))
        return _carried(call, name, signed(replace(moved, foreign=())))
    numbers = call.op in (*_CONVERSIONS, *_REDUCED) or _are_kept(call, 1 << BITS[name])
    if call.op not in _COMPUTED or not numbers or any(map(_is_converted, _tensors(call.args))):
        return None
    args = _each(call.args, lambda x: _number(b, x))
    results = tuple(
        r if f is None else TensorType(f.carrier.shape, DType.I64)
        for r, f in zip(call.results, call.foreign or (None,) * len(call.results), strict=True)
    )
    return _carried(call, name, signed(replace(call, args=args, results=results, foreign=())), b)


def _moves(call: Call) -> bool:
    """Return whether a call moves unsigned integers without computing with them."""
    if call.op in _BY_INDEX:
        first, *others = call.args
        stored = others.pop() if call.op in _STORED else None
        own = isinstance(first, Carried) and (stored is None or isinstance(stored, Carried))
        return own and not any(isinstance(x, Carried) for x in _tensors(others))
    return call.op in VIEWS and all(isinstance(x, Carried) for x in _tensors(call.args))


def _number(b: Lowering, x: Carried) -> Value:
    """Return unsigned integers as i64."""
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
    for value, other in zip(values, foreign, strict=False):  # some need not be read
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
    """Return whether PyTorch converts a tensor to the type of another operand, as it does with
    numbers: this may change it."""
    return isinstance(x, Value) and x.dtype.is_integer and not x.shape


def _are_kept(call: Call, end: int) -> bool:
    """Return whether all numbers among the arguments keep their values: PyTorch converts numbers
    that the type does not have, unless the result is a float, for example because of a fraction."""
    numbers = (x for x in call.args if isinstance(x, int | float) and not isinstance(x, bool))
    floats = all(r is not None and not r.dtype.is_integer for r in call.results)
    return all((0 <= x < end and x == int(x)) or (floats and isinstance(x, float)) for x in numbers)
