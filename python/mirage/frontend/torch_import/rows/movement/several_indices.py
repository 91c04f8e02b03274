"""Lookups by several indices: one index of a line of all elements, or elements that are picked one
by one."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.frontend.torch_import.rows.torch_call import Call
from mirage.semantics.builder import broadcast_shapes
from mirage.semantics.picked_elements import Index, picked_elements
from mirage.semantics.positions import counted_from_start
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import Elementwise, Value, View

_LITTLE = 1 << 25
"""The bytes of a result for which writing and reading it takes longer than launching the kernels
that combine several indices into one."""


def places_from_the_end(b: Lowering, index: Value, size: int) -> Value:
    """Return ``index``, counting negative indices from the end."""
    low, high = b.range_of(index)
    if low >= 0:
        return index
    if high < 0:
        return b.combine(BinaryFn.ADD, index, size)
    if -size <= low and high < size:
        return b.combine(BinaryFn.REMAINDER, index, size)
    return counted_from_start(b, index, size)


def inside_of(b: Lowering, index: Value, size: int) -> Value | None:
    """Return where an index is within a dimension; None if all are known to be."""
    low, high = b.range_of(index)
    tests: list[Value] = []
    if low < 0:
        tests.append(b.combine(BinaryFn.LE, 0, index))
    if high >= size:
        tests.append(b.combine(BinaryFn.LT, index, size))
    return None if not tests else tests[0] if len(tests) == 1 else b.binary(BinaryFn.AND, *tests)


_COMPUTED_AGAIN = 1 << 20
"""Bytes of rows for which computing the index of each element takes less than a launch."""


def is_picked(b: Lowering, indices: Sequence[Value], sizes: Sequence[int], c: Call) -> bool:
    """Return whether elements are picked one by one: by several indices that are not known to be
    inside, unless the result is large. A program that may have calls could check these indices."""
    places = zip(indices, sizes, strict=True)
    outside = len(sizes) > 1 and any(inside_of(b, i, n) is not None for i, n in places)
    (found,) = c.results
    return outside and b.may_stay and bool(found and found.shape and found.bytes <= _LITTLE)


def is_computed_nearby(b: Lowering, table: Value, index: Value) -> bool:
    """Return whether the kernel that looks rows up should compute their index for each element: it
    is an exact function of given integers, and a kernel for it alone would take longer."""
    elements = index.type.size * (table.type.size // max(table.shape[0], 1))
    if elements * table.dtype.bytes > _COMPUTED_AGAIN or b.sized:
        return False
    made = {v: op for op in b.ops for v in op.results}
    op, given = made.get(index), b.as_given(index)
    while isinstance(op, View):
        op = made.get(op.operands[0])
    return isinstance(op, Elementwise) and given is index and is_moved_by_formulas(b, table)


def is_moved_by_formulas(b: Lowering, x: Value) -> bool:
    """Return whether formulas pick elements of a tensor, where lookups of rows would need it in
    another order. Programs without calls keep the lookups, which proofs know."""
    return b.may_stay and x.dtype is not DType.F64 and not x.dtype.is_eight_bits


def linear(b: Lowering, indices: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Return the row-major place of ``indices`` within ``sizes``; -1 if one of them is outside."""
    place: Value | None = None
    inside: Value | None = None
    for index, size in zip(indices, sizes, strict=True):
        index = b.typed(index, DType.I64)
        if place is not None:
            place = b.combine(BinaryFn.MUL, place, size)
            place = b.binary(BinaryFn.ADD, place, index)
        else:
            place = index
        # a single index does not change
        test = inside_of(b, index, size) if len(sizes) > 1 else None
        if test is not None:
            inside = test if inside is None else b.binary(BinaryFn.AND, inside, test)
    assert place is not None
    return place if inside is None else choose(b, inside, place, -1, DType.I64)


def picked_rows(
    b: Lowering, x: Value, entries: Sequence[tuple[int, Value]], *, from_end: bool = True
) -> Value:
    """Return the elements of ``x`` that index tensors select; negative indices may count
    ``from_end``."""
    dims = [d for d, _ in entries]
    common: tuple[int, ...] = ()
    for _, i in entries:
        common = broadcast_shapes(common, i.shape)
    lead = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    rest = [d for d in range(len(x.shape)) if d not in dims]
    others = [x.shape[d] for d in rest]
    own = [*range(lead), *range(lead + len(common), len(others) + len(common))]
    where = {d: Index((at,)) for d, at in zip(rest, own, strict=True)}
    for d, i in entries:
        end = lead + len(common)
        along = tuple(range(end - len(i.shape), end))
        where[d] = Index(along, i, from_end=from_end and b.range_of(i)[0] < 0)
    shape = (*others[:lead], *common, *others[lead:])
    return picked_elements(b, x, [where[d] for d in range(len(x.shape))], shape)
