"""One program at two sizes: graphs that are equal except for their rows.

Two graphs belong to one program if they have the same ops and constants, and if every tensor and
every shape in the ops' attributes either is the same or grows in its outermost dimension in
proportion to the size.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from mirage.semantics.ugraph import KernelGraph, Op, Value


def why_different(first: KernelGraph, n: int, second: KernelGraph, m: int) -> str | None:
    """Say how a graph at size ``m`` differs from one at size ``n`` apart from its rows; None if it
    does not."""
    known = _paired(first, n, second, m)
    if isinstance(known, str):
        return known
    for a, b in known.items():
        if a.dtype is not b.dtype or not alike(a.shape, b.shape, n, m):
            return f"a tensor of {a.type} is one of {b.type}"
    if [known.get(v) for v in first.outputs] != list(second.outputs):
        return "it has other results"
    return None


def with_rows(first: KernelGraph, second: KernelGraph) -> frozenset[Value]:
    """Return the values of ``first`` that have another number of rows in ``second``, the same graph
    at another size."""
    firsts = [*first.inputs, *(v for op in first.ops for v in op.results)]
    seconds = [*second.inputs, *(v for op in second.ops for v in op.results)]
    return frozenset(a for a, b in zip(firsts, seconds, strict=True) if a.shape != b.shape)


def _paired(first: KernelGraph, n: int, second: KernelGraph, m: int) -> dict[Value, Value] | str:
    """Pair each value of ``first`` with that of ``second``, or say how the graphs differ."""
    if len(first.ops) != len(second.ops) or len(first.inputs) != len(second.inputs):
        return "it has other ops"
    known: dict[Value, Value] = dict(zip(first.inputs, second.inputs, strict=True))
    for a, b in zip(first.ops, second.ops, strict=True):
        operands = [known.get(v) for v in a.operands]
        if type(a) is not type(b) or operands != list(b.operands):
            return f"there is another op than {type(a).__name__.lower()}"
        if not alike(_about(a), _about(b), n, m) or len(a.results) != len(b.results):
            return f"there is another {type(a).__name__.lower()}"
        known.update(zip(a.results, b.results, strict=True))
    return known


def _about(op: Op) -> list[object]:
    """Return the attributes of an op besides its operands and results."""
    return [getattr(op, f.name) for f in fields(op) if f.name not in ("operands", "results")]


def alike(a: object, b: object, n: int, m: int) -> bool:
    """Return whether two descriptions are the same, except that the first number of a shape may be
    in proportion to the size."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y, n, m) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple) and isinstance(b, tuple):
        x: tuple[Any, ...] = a
        y: tuple[Any, ...] = b
        if x and y and type(x[0]) is type(y[0]) is int and x[1:] == y[1:]:
            return x[0] == y[0] or (x[0] % n == 0 and x[0] // n * m == y[0])
        return len(x) == len(y) and all(alike(p, q, n, m) for p, q in zip(x, y, strict=True))
    return a == b
