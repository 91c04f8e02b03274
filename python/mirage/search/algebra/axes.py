"""Axis labels for the dimensions of a positional tensor program.

Every dimension of size greater than one is a list of *axes*, outermost first (one axis, unless a
reshape merges or splits dimensions: then a dimension is factored, and a flattened ``heads*width``
dimension is the list ``[heads, width]``). The program says which axes are the same: a matmul
identifies the last dimension of its left operand with the second last of its right one,
elementwise ops identify what they align, a reshape identifies factors. :class:`AxisTable` solves
these equations by union-find with splitting.

The table only *suggests names*. What is computed follows from substitution from the outputs
inwards (``normalizer.Normalizer``), which renames a bound axis where its name is already taken
(``X @ X.T``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, count
from math import prod

from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Cumulate,
    KernelGraph,
    Matmul,
    Op,
    Reduce,
    Transpose,
    Unary,
    Value,
)

Labels = tuple[str, ...]
"""The axes of one dimension, outermost first; empty for a dimension of size 1."""
Dims = tuple[Labels, ...]
"""The axes of every dimension of a value."""


class UnlabelableError(ValueError):
    """Axis labels cannot follow how an op moves data; the op stays a separate kernel."""


@dataclass
class AxisTable:
    """Axis names for all values of a graph, and the extent of each axis."""

    sizes: dict[str, int] = field(default_factory=dict[str, int])
    _vars: dict[Value, tuple[tuple[int, ...], ...]] = field(
        default_factory=dict[Value, tuple[tuple[int, ...], ...]]
    )
    _parent: list[int] = field(default_factory=list[int])
    _extent: list[int] = field(default_factory=list[int])
    _split: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    _names: dict[int, str] = field(default_factory=dict[int, str])

    @staticmethod
    def of(graph: KernelGraph, together: bool = False) -> AxisTable:
        """Solve the axis equations of ``graph``; ops that cannot be labelled contribute none. With
        ``together``, one kernel computes all outputs: outputs with as many elements as the first
        one have its axes, whatever their shapes."""
        table = AxisTable()
        for value in graph.inputs:
            table._declare(value)
        for op in graph.ops:
            for value in op.results:
                table._declare(value)
            table._equate(op)
        first, *others = graph.outputs if together else (None,)
        for other in others:
            if first is not None and other.type.size == first.type.size:
                table._unify(table._flat(first), table._flat(other))
        table._name(graph)
        return table

    def dims(self, value: Value) -> Dims:
        """Return the axis names of each dimension of ``value``."""
        return tuple(tuple(self._names[v] for v in self._resolve(dim)) for dim in self._vars[value])

    def fresh(self, label: str, taken: Iterable[str]) -> str:
        """Return ``label``, or the first of ``label_1``, ``label_2``, ... that is not taken; the
        extent is recorded."""
        used = set(taken)
        name, count = label, 0
        while name in used:
            count += 1
            name = f"{label}_{count}"
        self.sizes[name] = self.sizes[label]
        return name

    # ---- union-find with splitting

    def _new(self, extent: int) -> int:
        self._parent.append(len(self._parent))
        self._extent.append(extent)
        return len(self._parent) - 1

    def _declare(self, value: Value) -> None:
        self._vars[value] = tuple((self._new(n),) if n > 1 else () for n in value.shape)

    def _find(self, v: int) -> int:
        while self._parent[v] != v:
            self._parent[v] = self._parent[self._parent[v]]
            v = self._parent[v]
        return v

    def _resolve(self, items: tuple[int, ...]) -> list[int]:
        out: list[int] = []
        for item in items:
            root = self._find(item)
            if root in self._split:
                out.extend(self._resolve(self._split[root]))
            else:
                out.append(root)
        return out

    def _unify(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        """Make two axis lists equal, from the innermost axis on; return False if the sizes do not
        factor."""
        left, right = self._resolve(a), self._resolve(b)
        while left and right:
            x, y = left.pop(), right.pop()
            if x == y:
                continue
            n, m = self._extent[x], self._extent[y]
            if n == m:
                self._parent[max(x, y)] = min(x, y)
            elif n > m and n % m == 0:
                self._cut(x, m)
                left.extend(self._resolve((x,)))
                right.append(y)
                left, right = self._refresh(left), self._refresh(right)
            elif m > n and m % n == 0:
                self._cut(y, n)
                right.extend(self._resolve((y,)))
                left.append(x)
                left, right = self._refresh(left), self._refresh(right)
            else:
                return False
            left, right = self._refresh(left), self._refresh(right)
        return not left and not right

    def _refresh(self, items: list[int]) -> list[int]:
        return self._resolve(tuple(items))

    def _cut(self, v: int, inner: int) -> None:
        self._split[v] = (self._new(self._extent[v] // inner), self._new(inner))

    # ---- equations of each op

    def _equate(self, op: Op) -> None:
        if isinstance(op, Unary | Binary | Cast | Broadcast | Reduce | Cumulate):
            for operand in op.operands:
                self._align(self._vars[operand], self._vars[op.result])
        elif isinstance(op, Matmul):
            a, b = (self._vars[v] for v in op.operands)
            out = self._vars[op.result]
            self._unify(a[-1], b[-2])
            self._align(a[:-1], out[:-1])
            self._align((*b[:-2], (), b[-1]), out)
        elif isinstance(op, Transpose):
            source = self._vars[op.operands[0]]
            for i, p in enumerate(op.permutation):
                self._unify(source[p], self._vars[op.result][i])
        elif op.renames:
            self._unify(self._flat(op.operands[0]), self._flat(op.result))

    def _flat(self, value: Value) -> tuple[int, ...]:
        return tuple(v for dim in self._vars[value] for v in dim)

    def _align(self, a: tuple[tuple[int, ...], ...], b: tuple[tuple[int, ...], ...]) -> None:
        for x, y in zip(reversed(a), reversed(b), strict=False):
            if x and y:
                self._unify(x, y)

    # ---- readable names

    def _name(self, graph: KernelGraph) -> None:
        used: set[str] = set()

        def give(items: tuple[int, ...], pool: str) -> None:
            for v in self._resolve(items):
                if v in self._names:
                    continue
                names = (c + n for n in chain(("",), map(str, count(1))) for c in pool)
                name = next(n for n in names if n not in used)
                used.add(name)
                self._names[v] = name
                self.sizes[name] = self._extent[v]

        for op in graph.ops:
            if isinstance(op, Matmul):
                a, b = (self._vars[v] for v in op.operands)
                give(a[-1], "kl")
                give(a[-2], "m")
                give(b[-1], "nde")
                for dim in (*a[:-2], *b[:-2]):
                    give(dim, "bh")
        for value in self._vars:
            for i, dim in enumerate(reversed(self._vars[value])):
                give(dim, ("n", "m")[i] if i < 2 else "bh")


def regroup(labels: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]) -> Dims:
    """Distribute a flat list of axes over the dimensions of ``shape``. Raises
    :class:`UnlabelableError`."""
    rest = list(labels)
    dims: list[Labels] = []
    for n in reversed(shape):
        group: list[str] = []
        while prod(sizes[x] for x in group) < n and rest:
            group.append(rest.pop())
        if prod(sizes[x] for x in group) != n:
            raise UnlabelableError(f"expected axes that factor shape {shape}, got {labels}")
        dims.append(tuple(reversed(group)))
    return tuple(reversed(dims))
