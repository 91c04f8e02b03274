"""One program at two sizes: the same graph but for its rows.

Two graphs are of one program if they have the same ops and constants, and every tensor and every
shape among what ops say is the same, or has as many more indices of its outermost dimension as the
size is larger.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from mirage.semantics.ugraph import KernelGraph, Op, Value


def why_different(first: KernelGraph, n: int, second: KernelGraph, m: int) -> str | None:
    """How a graph at size ``m`` differs from one at size ``n`` other than by its rows."""
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
    """The values of ``first`` that have another number of rows in ``second``, which is the same
    graph at another size."""
    firsts = [*first.inputs, *(v for op in first.ops for v in op.results)]
    seconds = [*second.inputs, *(v for op in second.ops for v in op.results)]
    return frozenset(a for a, b in zip(firsts, seconds, strict=True) if a.shape != b.shape)


def _paired(first: KernelGraph, n: int, second: KernelGraph, m: int) -> dict[Value, Value] | str:
    """Each value of ``first`` with that of ``second``; else how they differ."""
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
    """What an op says beside its operands and results."""
    return [getattr(op, f.name) for f in fields(op) if f.name not in ("operands", "results")]


def alike(a: object, b: object, n: int, m: int) -> bool:
    """Whether two descriptions are the same, but for what has as many rows for each unit of the
    size: the first number of a shape."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y, n, m) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple) and isinstance(b, tuple):
        x: tuple[Any, ...] = a
        y: tuple[Any, ...] = b
        if x and y and type(x[0]) is type(y[0]) is int and x[1:] == y[1:]:
            return x[0] == y[0] or (x[0] % n == 0 and x[0] // n * m == y[0])
        return len(x) == len(y) and all(alike(p, q, n, m) for p, q in zip(x, y, strict=True))
    return a == b
