"""The indices of calls, for callers who want an error for those that are outside.

Rows write many lookups and stores by index as comparisons with positions, for which every number is
defined. So which numbers PyTorch accepts is recorded here, for each call, as it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.frontend.program import IndexLimit
from mirage.frontend.torch_import.conversion.index_expressions import steps_of
from mirage.frontend.torch_import.rows.torch_call import Call
from mirage.runtime.serialization.index_steps import inputs_of
from mirage.semantics.builder import normalize_dims
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import Op, Value, View


@dataclass(frozen=True)
class Named:
    """Indices of ``below`` places, counted from the end if they are negative and ``from_end``
    holds; with ``first``, the first one alone."""

    index: Value
    below: int
    from_end: bool = False
    first: bool = False


def named_by(call: Call) -> tuple[Named, ...]:
    """Return the indices of a call of a torch op, with the numbers of places that they name; of
    other ops there are none."""
    row = _OPS.get(call.op)
    return () if row is None else tuple(row(call.args))


def limits_of(
    named: Iterable[Named], inputs: Sequence[Value], makers: Mapping[Value, Op]
) -> tuple[IndexLimit, ...]:
    """Return the limits of a program's inputs: of those that are used as indices as they are, or
    except for a number that a mask replaces, and of integers that are computed from them."""
    numbers = {v: i for i, v in enumerate(inputs)}
    found: dict[IndexLimit, None] = {}
    for one in named:
        index, ignored = _source(one.index, makers)
        if index in numbers and not one.first:
            found[IndexLimit(numbers[index], one.below, one.from_end, ignored)] = None
            continue
        steps = steps_of(index, numbers, makers)
        if steps is not None:
            if one.first:
                steps = (*steps, f"reshape {len(steps) - 1} -1", f"slice {len(steps)} 0 0 1")
            (place, *_) = inputs_of(steps)
            found[IndexLimit(place, one.below, one.from_end, ignored, steps)] = None
    return tuple(found)


def _source(index: Value, makers: Mapping[Value, Op]) -> tuple[Value, int | None]:
    """Return the value whose elements an index has, and the number in it that a mask replaces by
    zero."""
    ignored: int | None = None
    while (op := makers.get(index)) is not None:
        if (is_cast(op) and not op.cuts) or (isinstance(op, View) and op.whole):
            index = op.operands[0]
            continue
        if op.function is not BinaryFn.KEEP or ignored is not None:
            break
        mask, kept = op.operands
        test = makers.get(mask)
        if test is None or test.function is not BinaryFn.NE or test.operands[0] is not kept:
            break
        made = makers.get(test.operands[1])
        number = None if made is None else made.number
        if number is None or number != int(number):
            break
        index, ignored = kept, int(number)
    return index, ignored


Args = tuple[object, ...]


def _along(args: Args) -> Iterator[Named]:
    """``(x, dim, index, …)``."""
    x, dim, index = args[:3]
    if isinstance(x, Value) and isinstance(index, Value) and isinstance(dim, int) and x.shape:
        (dim,) = normalize_dims((dim,), len(x.shape))
        yield Named(index, x.shape[dim])


def _filled(args: Args) -> Iterator[Named]:
    """``(x, dim, index, …)``, where an index may count from the end."""
    return (replace(one, from_end=True) for one in _along(args))


def _rows(args: Args) -> Iterator[Named]:
    """``(table, index, …)``."""
    table, index = args[:2]
    if isinstance(table, Value) and isinstance(index, Value):
        yield Named(index, table.shape[0])


def _bags(args: Args) -> Iterator[Named]:
    """``(table, index, offsets, …)``: bags start at offsets, the first one at zero."""
    yield from _rows(args)
    index, offsets = args[1:3]
    if isinstance(index, Value) and isinstance(offsets, Value):
        yield Named(offsets, index.type.size + 1)
        yield Named(offsets, 1, first=True)


def _several(args: Args) -> Iterator[Named]:
    """``(x, indices, …)``: an index or None for each of the first dimensions of ``x``."""
    x, indices = args[:2]
    if not isinstance(x, Value) or not isinstance(indices, list):
        return
    given: list[object] = indices  # pyright: ignore[reportUnknownVariableType]
    if any(isinstance(v, Value) and not v.dtype.is_number for v in given):
        return  # a mask stands for several dimensions
    for size, index in zip(x.shape, given, strict=False):
        if isinstance(index, Value):
            yield Named(index, size, from_end=True)


def _elements(args: Args) -> Iterator[Named]:
    """``(x, index, …)``: of all elements of ``x``."""
    x, index = args[:2]
    if isinstance(x, Value) and isinstance(index, Value):
        yield Named(index, x.type.size, from_end=True)


def _classes(args: Args) -> Iterator[Named]:
    """``(index, number of classes)``."""
    index, count = args[:2]
    if isinstance(index, Value) and isinstance(count, int) and count > 0:
        yield Named(index, count)


_OPS: Mapping[str, Callable[[Args], Iterator[Named]]] = {
    "aten.gather": _along,
    "aten.index_select": _along,
    "aten.scatter.src": _along,
    "aten.scatter.value": _along,
    "aten.scatter_add": _along,
    "aten.scatter_reduce.two": _along,
    "aten.index_copy": _along,
    "aten.index_fill.int_Scalar": _filled,
    "aten.index_fill.int_Tensor": _filled,
    "aten.index_add": _along,
    "aten.index_reduce": _along,
    "aten.embedding": _rows,
    "aten.embedding_bag": _bags,
    "aten.embedding_bag.padding_idx": _bags,
    "aten._embedding_bag": _bags,
    "aten._embedding_bag_forward_only": _bags,
    "aten.index.Tensor": _several,
    "aten.index_put": _several,
    "aten.put": _elements,
    "aten.one_hot": _classes,
}
