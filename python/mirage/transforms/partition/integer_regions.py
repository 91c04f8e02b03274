"""Ops on integers that f32 does not hold, together as formulas of exact arithmetic.

Kernels can compute them with integers of 64 bits instead (:mod:`mirage.semantics.integers`),
element by element. Ops that follow each other become one formula, with the views between them: the
formula says along which dimensions its operands lie. Each value that something else reads has its
own formula; common parts of several formulas are computed several times. Ops without a formula,
other than totals, stay calls of PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from mirage.semantics.integer_functions import is_exact
from mirage.semantics.integer_ops import BIT_BASES
from mirage.semantics.integers import Integers
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Elementwise, External, KernelGraph, View
from mirage.transforms.computed_integers import places
from mirage.transforms.formula_writer import FormulaWriter, named_function

BIT_CALLS = {
    **{
        f"{base}.{kind}": name
        for base, name in BIT_BASES.items()
        for kind in ("Tensor", "Scalar", "Scalar_Tensor")
    },
    **{
        f"aten.__{way}shift__.{kind}": f"shift_{side}"
        for way, side in (("l", "left"), ("r", "right"))
        for kind in ("Tensor", "Scalar")
    },
}
"""The functions of bits, by the calls that compute them; of a tensor and a number, in either order,
too."""
_FLOATS = (DType.F16, DType.BF16, DType.F32)
_KEPT = (BinaryFn.MIN, BinaryFn.MAX, BinaryFn.KEEP)
"""Functions of truth values that are truth values."""


@dataclass(frozen=True)
class Regions:
    """The formulas of a program: ``formulas`` by the op whose result each computes; ``inside`` are
    the other ops that they compute, which nothing else needs."""

    formulas: Mapping[Op, Integers]
    inside: Set[Op]


def regions_of(graph: KernelGraph, called: Set[Op]) -> Regions:
    """Return the formulas of ops that would be ``called`` otherwise."""
    return _Finder(graph, called).run()


class _Finder:
    def __init__(self, graph: KernelGraph, called: Set[Op]) -> None:
        self.graph = graph
        self.made = {v: op for op in graph.ops for v in op.results}
        steps = [op for op in graph.ops if has_formula(op)]
        self.exact = {op for op in steps if op in called or computes_bits(op)}
        self.exact |= {op for op in graph.ops if op in called and _joins(op)}
        self.steps = {op for op in steps if all(v.dtype.is_integer for v in op.operands)}
        self.steps |= self.exact
        self.readers: dict[Value, list[Op]] = {}
        for op in graph.ops:
            for v in op.operands:
                self.readers.setdefault(v, []).append(op)
        self.formulas: dict[Op, Integers] = {}
        self.views = {op for op in graph.ops if isinstance(op, View) and self._is_followed(op)}
        self.moves = self.views | {op for op in self.exact if op.joined_along is not None}

    def _is_followed(self, op: View) -> bool:
        """Return whether formulas pick the elements of a view from its operand; otherwise they load
        the view."""
        if places(op) is not None or not op.result.dtype.is_integer:
            return places(op) is not None
        return op.cut_at is not None or (op.renames and self._is_computed(op.operands[0]))

    def _is_computed(self, value: Value) -> bool:
        op = self.made.get(value)
        return op in self.exact or (isinstance(op, View) and self._is_computed(op.operands[0]))

    def run(self) -> Regions:
        roots = [op for op in self.graph.ops if op in self.exact and self._is_root(op)]
        for op in roots:
            found = FormulaWriter(op.result, self.made, self.steps, self.moves, _named).formula()
            if found is not None:
                self.formulas[op] = found
        return Regions(self.formulas, self._inside())

    def _is_root(self, op: Op) -> bool:
        readers = self.readers.get(op.result, ())
        if op.result in self.graph.outputs or (readers and not op.result.dtype.is_integer):
            return True
        return not all(map(self._is_inlined, readers))

    def _is_inlined(self, op: Op) -> bool:
        """Return whether an op that reads an exact value computes it again: another exact op, or a
        view that only such ops read."""
        if op in self.exact:
            return True
        if op not in self.views or op.result in self.graph.outputs:
            return False
        return all(map(self._is_inlined, self.readers.get(op.result, ())))

    def _inside(self) -> set[Op]:
        """Return the ops other than roots that only formulas read."""
        inside: set[Op] = set()
        kept = {v for made in self.formulas.values() for v in made.operands}
        kept.update(self.graph.outputs)
        for op in reversed(self.graph.ops):
            if not (op in self.exact or op in self.views) or op in self.formulas:
                continue
            readers = self.readers.get(op.result, [])
            gone = all(r in inside or r in self.formulas for r in readers)
            if readers and gone and op.result not in kept:
                inside.add(op)
        return inside


def has_formula(op: Op) -> bool:
    """Return whether an op can be a step of formulas."""
    if len(op.results) != 1:
        return False
    result = op.result.dtype
    if computes_bits(op):
        return True
    if not isinstance(op, Elementwise):
        return False
    given = [v.dtype for v in op.operands]
    if op.cuts or op.identity:
        if result.is_integer:
            return result is not DType.I1 and all(d.is_integer or d in _FLOATS for d in given)
        return result in _FLOATS and given[0].is_integer
    if not is_exact(op.function) or not all(d.is_integer for d in given):
        return False
    fn = op.function
    truth = (isinstance(fn, UnaryFn) and UNARY[fn].truth) or (
        isinstance(fn, BinaryFn) and BINARY[fn].truth
    )
    return truth or (result.is_integer and (result is not DType.I1 or fn in _KEPT))


def _joins(op: Op) -> bool:
    """Return whether an op joins integers, or repeats a number."""
    return op.joined_along is not None and op.results[0].dtype.is_integer


def computes_bits(op: Op) -> bool:
    """Return whether a call of PyTorch is a function of bits, which formulas compute."""
    return _bits(op) is not None


def _bits(op: Op) -> tuple[str, tuple[Value | int, ...]] | None:
    """Return the name and the operands of a function of bits; None for other ops."""
    if not isinstance(op, External) or op.target not in BIT_CALLS or op.seen_as:
        return None
    others = dict(op.arguments)
    numbers = others.pop("self", None), others.pop("other", None)
    first, last = ((n,) if isinstance(n, int) else () for n in numbers)
    found = (*first, *op.operands, *last)
    if others or len(found) != 2 or not all(v.dtype.is_integer for v in op.operands):
        return None
    return BIT_CALLS[op.target], found


def _named(op: Op) -> tuple[str, tuple[Value | int, ...]]:
    return _bits(op) or (named_function(op), op.operands)
