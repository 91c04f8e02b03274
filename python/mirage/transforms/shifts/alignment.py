"""The alignment of a shift's dimensions with those of a value, through views and broadcasts."""

from __future__ import annotations

from mirage.semantics.ugraph import Elementwise, Op, Value, View
from mirage.transforms.shifts.shifts import Align


def widened(align: Align, shape: tuple[int, ...], result: tuple[int, ...]) -> Align:
    """Return ``align`` after broadcasting: no dimension corresponds to a repeated one."""
    lead = len(result) - len(shape)
    kept = tuple(
        a if n == result[lead + d] else None
        for d, (a, n) in enumerate(zip(align, shape, strict=True))
    )
    return (None,) * lead + kept


def viewed(op: Op, x: Value, align: Align) -> Align | None:
    """Return ``align`` for the result of a view or conversion of ``x``; None if dimensions are
    merged, split or cut, and for other ops.
    """
    if isinstance(op, Elementwise):
        return align if op.identity else None
    if isinstance(op, View) and op.whole:
        source = op.source_dims()
        if source is not None:
            dims = range(len(op.result.shape))
            return tuple(align[source[d]] if d in source else None for d in dims)
    return None
