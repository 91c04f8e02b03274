"""Adjacent dimensions that no op separates, merged into one dimension.

A kernel may read 2 x 48 rows as 96 and cut them into tiles of 32: multiples of 48 and of 32 have no
common digits. But if no op needs the 2 and the 48 separately, then both programs are equally
functions of tensors with 96 rows. Tensors keep their elements in row-major order, so two dimensions
that are adjacent in *every* value that has one of them may be read as one, in both programs alike.
The meaning of elementwise ops, of reductions over both or neither, of matrix products with both on
one side, and of movements of both together does not change. ``docs/verification.md`` has the
argument.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from math import prod

from mirage.semantics.indexing.relations import Same
from mirage.semantics.ops.kinds import relations_of
from mirage.semantics.ugraph import (
    Broadcast,
    Concat,
    Elementwise,
    KernelGraph,
    Matmul,
    Movement,
    Op,
    Reduce,
    Reshape,
    Slice,
    Structure,
    TensorType,
    Transpose,
    Value,
    unknown,
)
from mirage.verify.compression.index_relations import Irregular, Union

_Groups = tuple[tuple[int, ...], ...]
"""The dimensions of a value, in order, as groups; each group becomes one dimension."""

_REWRITTEN = Transpose | Reshape | Broadcast | Slice | Concat
"""The movements that can be written on merged dimensions; the dimensions of other movements stay
separate."""


def merged(graphs: tuple[KernelGraph, ...]) -> tuple[KernelGraph, ...] | None:
    """Merge such dimensions in all graphs in the same way (primitive ops only, same signature);
    None if there are none. Raises :class:`Irregular`.
    """
    sides = _Sides(graphs)
    if not sides.follows:
        return None
    return tuple(_Merger(sides).graph(g) for g in graphs)


# ---- which dimensions ----------------------------------------------------------------------------


class _Sides:
    """Classes of dimensions that hold the same indices, and which class always follows another.

    ``follows[c]`` is the class that stands after ``c`` wherever either of them stands.
    """

    def __init__(self, graphs: Sequence[KernelGraph]) -> None:
        self._union = Union()
        self._apart: set[Hashable] = set()  # dimensions that stay separate
        for graph in graphs:
            for op in graph.ops:
                self._op(op)
        first = graphs[0]
        for other in graphs[1:]:
            pairs = (*zip(first.inputs, other.inputs, strict=True),)
            for a, b in (*pairs, *zip(first.outputs, other.outputs, strict=True)):
                self._aligned(a, b)
        self.follows = self._find(list(_values(graphs)))

    def _find(self, values: list[Value]) -> dict[Hashable, Hashable]:
        after: dict[Hashable, set[Hashable]] = {}
        before: dict[Hashable, set[Hashable]] = {}
        apart = {self._union.find(d) for d in self._apart}
        for v in values:
            row = [self.of(v, d) for d in range(len(v.shape))]
            for i, c in enumerate(row):
                if c is None:
                    continue
                if row.count(c) > 1:
                    apart.add(c)
                after.setdefault(c, set()).add(row[i + 1] if i + 1 < len(row) else None)
                before.setdefault(c, set()).add(row[i - 1] if i else None)
        return {
            c: n
            for c, nexts in after.items()
            if len(nexts) == 1
            for n in nexts
            if n is not None and before[n] == {c} and not apart & {c, n}
        }

    def of(self, value: Value, dim: int) -> Hashable:
        """Return the class of a dimension; None for a dimension of size 1."""
        return None if value.shape[dim] == 1 else self._union.find((value, dim))

    def groups(self, value: Value) -> _Groups:
        """Return the groups of a value's dimensions."""
        groups: list[list[int]] = []
        last: Hashable = None
        for d in range(len(value.shape)):
            c = self.of(value, d)
            if c is not None and last is not None and self.follows.get(last) == c:
                groups[-1].append(d)
            else:
                groups.append([d])
            last = c
        return tuple(map(tuple, groups))

    def _aligned(self, a: Value, b: Value, skip: int = 0) -> None:
        """State that trailing dimensions (except the last ``skip``) hold the same indices, unless
        one has size 1.
        """
        for back in range(skip + 1, min(len(a.shape), len(b.shape)) + 1):
            if a.shape[-back] == b.shape[-back]:
                self._same(a, len(a.shape) - back, b, len(b.shape) - back)

    def _same(self, a: Value, i: int, b: Value, j: int) -> None:
        if a.shape[i] != 1:
            self._union.join((a, i), (b, j))

    def _stay(self, op: Op) -> None:
        for v in (*op.operands, *op.results):
            self._apart.update((v, d) for d in range(len(v.shape)))

    def _op(self, op: Op) -> None:
        if isinstance(op, Structure):
            self._stay(op)
        elif isinstance(op, Matmul):
            (a, b), y = op.operands, op.result
            self._same(a, len(a.shape) - 1, b, len(b.shape) - 2)
            self._same(a, len(a.shape) - 2, y, len(y.shape) - 2)
            self._same(b, len(b.shape) - 1, y, len(y.shape) - 1)
            self._aligned(a, y, skip=2)
            self._aligned(b, y, skip=2)
        elif isinstance(op, Movement):
            relations = relations_of(op, "which dimensions an op keeps together")
            for same in (r for r in relations if isinstance(r, Same)):
                self._same(op.operands[same.operand], same.dim, op.result, same.result)
            if not isinstance(op, _REWRITTEN):
                self._stay(op)
        elif isinstance(op, Elementwise | Reduce):
            # The dimensions that a reduction keeps.
            for v in op.operands:
                self._aligned(v, op.result)
        elif op.number is None:
            raise unknown(op, "which dimensions an op keeps together")


def _values(graphs: Sequence[KernelGraph]) -> Iterator[Value]:
    for graph in graphs:
        yield from graph.inputs
        for op in graph.ops:
            yield from op.results


# ---- the programs with merged dimensions ---------------------------------------------------------


class _Merger:
    def __init__(self, sides: _Sides) -> None:
        self._sides = sides
        self._names: dict[Value, Value] = {}
        self._ops: list[Op] = []

    def graph(self, graph: KernelGraph) -> KernelGraph:
        """Rewrite one of the graphs."""
        self._ops = []
        inputs = tuple(self._new(v) for v in graph.inputs)
        for op in graph.ops:
            self._op(op)
        outputs = tuple(self._names[v] for v in graph.outputs)
        return KernelGraph(graph.name, inputs, tuple(self._ops), outputs)

    def _new(self, value: Value) -> Value:
        shape = _grouped(value.shape, self._sides.groups(value))
        if value not in self._names:
            same = shape == value.shape
            self._names[value] = (
                value if same else Value(TensorType(shape, value.dtype), value.name)
            )
        return self._names[value]

    def _reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        if value.shape == shape:
            return value
        if value.type.size != prod(shape):
            raise Irregular(f"dimensions of {value.shape} do not merge to {shape}")
        result = Value(TensorType(shape, value.dtype))
        self._ops.append(Reshape((value,), (result,)))
        return result

    def _add(self, op: Op, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        """Append ``op`` with operands of ``shapes`` and a result of ``shape``. The result's
        replacement may differ from it in dimensions of size 1.
        """
        xs = tuple(
            self._reshaped(self._names[v], s) for v, s in zip(op.operands, shapes, strict=True)
        )
        known = self._new(op.result)
        result = known if known.shape == shape else Value(TensorType(shape, known.dtype))
        self._ops.append(replace(op, operands=xs, results=(result,)))
        if result is not known:
            self._ops.append(Reshape((result,), (known,)))

    def _op(self, op: Op) -> None:
        if isinstance(op, Structure):
            operands = tuple(self._names[v] for v in op.operands)
            self._ops.append(replace(op, operands=operands))
            self._names.update((v, v) for v in op.results)
            return
        y = op.result
        groups = self._sides.groups(y)
        if op.renames:
            x, known = self._names[op.operands[0]], self._new(y)
            if x.shape == known.shape:
                self._names[y] = x
            else:
                self._ops.append(Reshape((x,), (known,)))
        elif isinstance(op, Matmul):
            self._matmul(op, groups)
        elif isinstance(op, Reduce):
            (x,) = op.operands
            groups = self._sides.groups(x)
            dims = tuple(i for i, g in enumerate(groups) if g[0] in op.dims)
            shape = tuple(1 if i in dims else n for i, n in enumerate(_grouped(x.shape, groups)))
            self._add(replace(op, dims=dims), [_grouped(x.shape, groups)], shape)
        elif isinstance(op, Transpose):
            (x,) = op.operands
            place = {g: i for i, g in enumerate(self._sides.groups(x))}
            moved = tuple(place[tuple(op.permutation[d] for d in g)] for g in groups)
            shape = _grouped(y.shape, groups)
            self._add(replace(op, permutation=moved), [self._names[x].shape], shape)
        elif not isinstance(op, Elementwise | Movement) and op.number is None:
            raise unknown(op, "an op on merged dimensions")
        else:
            new = op
            if isinstance(op, Concat):
                new = replace(op, dim=next(i for i, g in enumerate(groups) if op.dim in g))
            if isinstance(op, Slice):
                new = replace(op, offsets=tuple(op.offsets[g[0]] for g in groups))
            shapes = [_aligned_shape(v.shape, groups, len(y.shape)) for v in op.operands]
            self._add(new, shapes, _grouped(y.shape, groups))

    def _matmul(self, op: Matmul, groups: _Groups) -> None:
        (a, b), y = op.operands, op.result
        rank = len(y.shape)
        left = _aligned_shape(a.shape, groups, rank)
        # The other operand does not have the dimensions merged with the rows, or has them with size
        # 1.
        lead = tuple(g for g in groups if g[-1] < rank - 2)
        right = _aligned_shape(b.shape[:-2], lead, rank - 2)
        self._add(op, [left, (*right, *b.shape[-2:])], _grouped(y.shape, groups))


def _grouped(shape: tuple[int, ...], groups: _Groups) -> tuple[int, ...]:
    return tuple(prod(shape[d] for d in g) for g in groups)


def _aligned_shape(shape: tuple[int, ...], groups: _Groups, rank: int) -> tuple[int, ...]:
    """Return ``shape`` with its dimensions in ``groups`` merged; ``shape`` is aligned at the end
    with the ``rank`` dimensions that the groups number. Dimensions in no group are left out.
    """
    missing = rank - len(shape)
    inside = [[d - missing for d in g if d >= missing] for g in groups]
    return tuple(prod(shape[d] for d in g) for g in inside if g)
