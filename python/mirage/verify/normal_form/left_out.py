"""Whole numbers that name an element of a row, or are one number that means "leave this one out".

Losses ignore targets of -100: ``t`` is compared with that number, and where it is equal another
element is picked, whose loss does not count. So ``t`` is either that number or a place, and this is
written into both programs: with a truth value ``m`` and a place ``u`` as inputs, ``t`` is ``u``
where ``m`` is true and -100 elsewhere. Everything that depends on ``t`` row by row is computed
twice, for ``u`` and for -100, and chosen by ``m`` where rows meet (in sums over them, and at the
end). This changes no program, for any ``u`` and ``m``; but the ranges of ``u`` decide what each of
the two computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import as_number
from mirage.semantics.ops.kinds import Contraction, Elementwise, Lookup, View, is_cast
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.substitute import rename_graph, with_operands
from mirage.semantics.ugraph import KernelGraph, Structure, TensorType

_Parts = tuple[Value, Value, Value]
"""A truth value (of a shape that broadcasts), and what a value is where it is true and where it is
not."""


def numbers_left_out(graph: KernelGraph) -> Mapping[int, int]:
    """Return the inputs of a program of primitive ops, by number, that are replaced by zero where
    they equal a number, and this number; only the first one of each input."""
    found: dict[int, int] = {}
    for _, i, number in _replaced(graph):
        found.setdefault(i, number)
    return found


def where_counted(graph: KernelGraph, left_out: Mapping[int, int]) -> KernelGraph:
    """Return what a program computes where no input is the number in ``left_out``: with the inputs
    themselves in place of their replacements."""
    names = {v: graph.inputs[i] for v, i, number in _replaced(graph) if left_out.get(i) == number}
    shapes = {v: x for v, x in names.items() if v.type == x.type}
    ops = tuple(op for op in graph.ops if not shapes.keys() & set(op.results))
    return rename_graph(replace(graph, ops=ops), shapes)


def _replaced(graph: KernelGraph) -> list[tuple[Value, int, int]]:
    """Return the values that are an input, or zero where it equals a number, with both."""
    sources = _Sources(graph)
    found: list[tuple[Value, int, int]] = []
    for op in graph.ops:
        if op.function is not BinaryFn.KEEP:
            continue
        mask, wanted = sources.maker(op.operands[0]), BinaryFn.NE
        if mask is not None and mask.function is UnaryFn.NOT:
            mask, wanted = sources.maker(mask.operands[0]), BinaryFn.EQ
        x = sources.numbers.get(sources.of(op.operands[1]))
        if mask is not None and x is not None:
            at = sources.compared(mask, wanted)
            found += [(op.results[0], i, number) for i, number in at if i == x]
    return found


class _Sources:
    """The values that others have the elements of, and the inputs of whole numbers."""

    def __init__(self, graph: KernelGraph) -> None:
        self.numbers = {v: i for i, v in enumerate(graph.inputs) if v.dtype.is_integer}
        self.makers = {v: op for op in graph.ops for v in op.results}

    def of(self, x: Value) -> Value:
        """Return the value whose elements ``x`` has."""
        while (op := self.makers.get(x)) is not None and (is_cast(op) or _is_view(op)):
            x = op.operands[0]
        return x

    def maker(self, x: Value) -> Op | None:
        """Return the op that computes the elements."""
        return self.makers.get(self.of(x))

    def compared(self, op: Op, function: BinaryFn) -> list[tuple[int, int]]:
        """Return the inputs that an op of this ``function`` compares with whole numbers, and
        these."""
        if op.function is not function:
            return []
        found: list[tuple[int, int]] = []
        for one, other in (op.operands, op.operands[::-1]):
            i, made = self.numbers.get(self.of(one)), self.maker(other)
            number = None if made is None or made.number is None else as_number(made.number)
            if i is not None and isinstance(number, Fraction) and number.denominator == 1:
                found.append((i, int(number)))
        return found


def _is_view(op: Op) -> bool:
    return isinstance(op, View) and op.whole


def with_choices(graph: KernelGraph, left_out: Mapping[int, int]) -> KernelGraph | None:
    """Return a program of primitive ops in which the inputs in ``left_out`` stand for the numbers
    where further inputs, truth values of the same shape, are true; elsewhere these numbers are
    those in ``left_out``. None for programs with kernels or loops."""
    if any(isinstance(op, Structure) for op in graph.ops):
        return None
    for i, number in sorted(left_out.items()):
        graph = _Split(graph, graph.inputs[i], number).graph()
    return graph


@dataclass
class _Split:
    """The values of a program for an input ``x`` that is a ``number`` at some places."""

    source: KernelGraph
    x: Value
    number: int
    ops: list[Op] = field(default_factory=list[Op])
    parts: dict[Value, _Parts] = field(default_factory=dict[Value, _Parts])
    joined: dict[Value, Value] = field(default_factory=dict[Value, Value])
    shapes: dict[tuple[Value, tuple[int, ...]], Value] = field(
        default_factory=dict[tuple[Value, tuple[int, ...]], Value]
    )
    renamed: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def graph(self) -> KernelGraph:
        """Return the program, with one more input."""
        mask = Value(TensorType(self.x.shape, DType.I1))
        b = Builder()
        other = b.broadcast(b.constant(Fraction(self.number), self.x.dtype), self.x.shape)
        self.ops += b.ops
        self.parts[self.x] = mask, self.x, other
        for op in self.source.ops:
            self._add(op)
        outputs = tuple(self._whole(v) for v in self.source.outputs)
        inputs = (*self.source.inputs, mask)
        return KernelGraph(self.source.name, inputs, tuple(self.ops), outputs)

    def _add(self, op: Op) -> None:
        if not any(v in self.parts for v in op.operands):
            self.ops.append(op)
            return
        mask = self._mask_of(op)
        if mask is None:
            self.ops.append(with_operands(op, tuple(self._whole(v) for v in op.operands)))
            return
        (result,) = op.results
        there, elsewhere = (
            self._apply(op, tuple(self.parts[v][i] if v in self.parts else v for v in op.operands))
            for i in (1, 2)
        )
        self.parts[result] = mask, there, elsewhere

    def _apply(self, op: Op, operands: tuple[Value, ...]) -> Value:
        result = Value(op.results[0].type)
        self.ops.append(replace(op, operands=operands, results=(result,)))
        return result

    def _mask_of(self, op: Op) -> Value | None:
        """Return the truth value that chooses between the two results of an op; None if the op
        combines elements of which one is chosen differently from another."""
        masks = [self.parts[v][0] for v in op.operands if v in self.parts]
        if len(op.results) != 1 or not all(m is masks[0] for m in masks):
            return None
        (result,), mask = op.results, masks[0]
        if isinstance(op, Elementwise):
            return mask
        if isinstance(op, View) and len(op.operands) == 1:
            return self._viewed(op, mask)
        if isinstance(op, Contraction) and len(op.operands) == 1:
            (x,), (dims,) = op.operands, op.over
            lead = len(x.shape) - len(mask.shape)
            same = all(d < lead or mask.shape[d - lead] == 1 for d in dims)
            return mask if same and len(result.shape) == len(x.shape) else None
        named = op.names_rows if isinstance(op, Lookup) else None
        if named is None or len(op.operands) != 2 or op.operands[0] in self.parts:
            return None
        rows = op.operands[1].shape
        if mask.shape != rows or result.shape[: len(rows)] != rows:
            return None
        return self._reshaped(mask, (*rows, *(1 for _ in result.shape[len(rows) :])))

    def _viewed(self, op: View, mask: Value) -> Value:
        """Return the truth value at the places to which a view moves elements."""
        x, result = op.operands[0], op.results[0]
        if mask.shape != x.shape:
            mask = self._write(lambda b: b.broadcast(mask, x.shape))
        if op.renames:
            return self._reshaped(self.renamed.get(mask, mask), result.shape)
        moved = Value(TensorType(result.shape, DType.I1))
        self.ops.append(replace(op, operands=(mask,), results=(moved,)))
        return moved

    def _reshaped(self, mask: Value, shape: tuple[int, ...]) -> Value:
        """Return a truth value in another shape; the same one whenever it is asked for."""
        if mask.shape == shape:
            return mask
        if (mask, shape) not in self.shapes:
            found = self._write(lambda b: b.reshape(mask, shape))
            self.shapes[mask, shape] = found
            self.renamed[found] = mask
        return self.shapes[mask, shape]

    def _whole(self, x: Value) -> Value:
        """Return all elements of a value, as one tensor."""
        if x not in self.parts:
            return x
        if x not in self.joined:
            mask, there, elsewhere = self.parts[x]

            def chosen(b: Builder) -> Value:
                fn = BinaryFn.AND if x.dtype is DType.I1 else BinaryFn.KEEP
                join = BinaryFn.OR if x.dtype is DType.I1 else BinaryFn.ADD
                wide = b.broadcast(mask, x.shape)
                one = b.binary(fn, wide, there)
                return b.binary(join, one, b.binary(fn, b.unary(UnaryFn.NOT, wide), elsewhere))

            self.joined[x] = self._write(chosen)
        return self.joined[x]

    def _write(self, written: Callable[[Builder], Value]) -> Value:
        b = Builder()
        found = written(b)
        self.ops += b.ops
        return found
