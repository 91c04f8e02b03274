"""A bound on the number of indices of one axis that a program's values can relate to each other.

Clear all denominators in the statement "reference equals candidate". What remains is a sum of terms
in which a number of index variables run over each digit of the index structure. If ``v`` variables
at most run over a digit, then the statement holds for all inputs as soon as it holds for inputs
that are constant but for ``v`` indices of that digit: a sum of functions of at most ``v`` indices'
data is determined by its values there (Moebius inversion over the subsets of at most ``v``
indices). So ``v`` single indices and the bulk are enough cells. This module bounds ``v`` for each
digit, and the degrees of the polynomials for the probability of an error. ``docs/verification.md``
has the argument in full.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from mirage.semantics.scalar import UNARY, Algebra, BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Binary,
    Cast,
    Elementwise,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Mask,
    Matmul,
    Movement,
    Op,
    Reduce,
    RunningMax,
    Unary,
    Value,
    unknown,
)
from mirage.verify.compression.index_relations import Slot
from mirage.verify.compression.small_program import Cells
from mirage.verify.compression.term_bounds import (
    Count,
    Places,
    TermBounds,
    add,
    loaded,
    most,
    moved,
    multiply,
    rearranged,
    stored,
    tile_place,
)


@dataclass
class Requirements:
    """The cells, number sizes and degrees that the comparison of two programs requires."""

    singles: Count = field(default_factory=Count)  # single indices of each digit
    bits: int = 64  # of the largest number that is a factor: a constant, or the weight of a cell
    degree: int = 1  # degree of an output's numerator after clearing denominators
    argument_degree: int = 1  # the same for arguments of uninterpreted functions
    exponent_degree: int = 1  # of a difference of two exponents


class RelatedIndices:
    """Bounds for two programs (primitive ops) with the cells that were chosen so far."""

    def __init__(
        self,
        graphs: tuple[KernelGraph, KernelGraph],
        cells: Cells,
        *,
        reciprocals_as_symbols: bool = False,
        signs: bool = False,
    ) -> None:
        self._reciprocals_as_symbols = reciprocals_as_symbols
        self._signs = signs
        self.cells = cells
        self.structure = cells.structure
        self.needs = Requirements()
        self._arguments: list[tuple[TermBounds, Count]] = []  # of uninterpreted functions
        self._exponents: list[tuple[TermBounds, Count]] = []
        self._factors = 1
        self._around = Count()  # digits of the grid and of the loops around the current op
        self._axes_around: list[str] = []
        results = [self._graph(g) for g in graphs]
        self._finish(graphs[0], results)

    # ---- requirements ----------------------------------------------------------------------------

    def _finish(self, reference: KernelGraph, results: list[list[TermBounds]]) -> None:
        for value, a, b in zip(reference.outputs, results[0], results[1], strict=True):
            bound = most(a.top + b.bottom, b.top + a.bottom)
            self._require(bound, self._free(value))
            degree = max(a.degree[0] + b.degree[1], b.degree[0] + a.degree[1], 1)
            self.needs.degree = max(self.needs.degree, degree)
            self._factors = max(self._factors, a.exps[0] + b.exps[1], b.exps[0] + a.exps[1])
        for which, bounds in (("argument", self._arguments), ("exponent", self._exponents)):
            if not bounds:
                continue
            top, bottom, free = Count(), Count(), Count()
            degree = [0, 0]
            for s, f in bounds:
                top, bottom, free = most(top, s.top), most(bottom, s.bottom), most(free, f)
                degree = [max(degree[0], s.degree[0]), max(degree[1], s.degree[1])]
                self._factors = max(self._factors, s.exps[0] + s.exps[1])
            # Values at two different positions are compared, hence twice the free indices.
            self._require(top + bottom, free + free)
            if which == "argument":
                self.needs.argument_degree = max(1, degree[0] + degree[1])
            else:
                factors = 1 if degree[1] == 0 else 2 * self._factors
                self.needs.exponent_degree = max(1, degree[0], factors * (degree[0] + degree[1]))

    def _require(self, bound: Count, free: Count) -> None:
        for digit in {*bound, *free}:
            # Without summed indices the bulk serves as one of the free indices.
            need = bound[digit] + free[digit] - (bound[digit] == 0)
            self.needs.singles[digit] = max(self.needs.singles[digit], need, 1)

    def _free(self, value: Value) -> Count:
        """Return the index variables of one element of ``value``: those of its dimensions and, in a
        block, those of its block and step.
        """
        count = +self._around
        for d in range(len(value.shape)):
            count.update(self._digits(self.structure.slot(value, d)))
        return count

    def _places(self, value: Value) -> Places:
        """Return all dimensions and axes along which a value may vary."""
        rank = len(value.shape)
        dims = (d - rank for d, n in enumerate(value.shape) if n > 1)
        return frozenset((*dims, *self._axes_around))

    def _digits(self, slot: Slot) -> tuple[Hashable, ...]:
        return self.structure.digits_of(slot)

    def _dims(self, value: Value, dims: tuple[int, ...]) -> tuple[Hashable, ...]:
        return tuple(d for dim in dims for d in self._digits(self.structure.slot(value, dim)))

    # ---- rules -----------------------------------------------------------------------------------

    def _graph(self, graph: KernelGraph) -> list[TermBounds]:
        bounds: dict[Value, TermBounds] = {v: TermBounds(degree=(1, 0)) for v in graph.inputs}
        for op in graph.ops:
            if isinstance(op, Launch):
                self._launch(op, bounds)
            else:
                bounds[op.result] = self._op(op, bounds)
        return [bounds[v] for v in graph.outputs]

    def _launch(self, launch: Launch, outer: dict[Value, TermBounds]) -> None:
        bounds = {p: outer[v] for p, v in zip(launch.body.params, launch.operands, strict=True)}
        for axis in launch.grid:
            self._around.update(self._digits(self.structure.axis(launch, axis.name)))
            self._axes_around.append(axis.name)
        self._block(launch, launch.body.ops, bounds)
        self._around.clear()
        self._axes_around.clear()
        for output, result in zip(launch.body.outputs, launch.results, strict=True):
            s = bounds[output.value]
            place = tile_place(launch, output.map, output.value.shape)
            outer[result] = moved(s, ("store", s.key, place), stored(s.varies, output.map))

    def _block(self, launch: Launch, ops: tuple[Op, ...], bounds: dict[Value, TermBounds]) -> None:
        for op in ops:
            if isinstance(op, Load):
                s = bounds[op.operands[0]]
                place = tile_place(launch, op.map, op.result.shape)
                bounds[op.result] = moved(s, ("load", s.key, place), loaded(s.varies, op.map))
            elif isinstance(op, Loop):
                digits = self._digits(self.structure.axis(launch, op.axis.name))
                self._around.update(digits)
                self._axes_around.append(op.axis.name)
                self._block(launch, op.body, bounds)
                for a, result in zip(op.accumulators, op.results, strict=True):
                    s = bounds[a.value]
                    if a.rescale is not None:
                        s = multiply(s, TermBounds(exps=(1, 0), power_degree=1))
                    if a.fn is AccumulateFn.SUM:
                        s = self._summed(s, digits, result, frozenset({op.axis.name}))
                    elif a.fn is AccumulateFn.MAX:
                        s = self._uninterpreted(s, self._free(a.value) + Count(digits))
                    else:
                        s = moved(s, ("last", result), s.varies - {op.axis.name})
                    if a.rescale is not None:
                        self._exponents.append((TermBounds(degree=(1, 0)), self._free(a.rescale)))
                    bounds[result] = s
                self._around.subtract(digits)
                self._axes_around.pop()
            else:
                bounds[op.result] = self._op(op, bounds)

    def _summed(
        self, s: TermBounds, digits: tuple[Hashable, ...], result: Hashable, over: Places
    ) -> TermBounds:
        """Sum over the indices made of ``digits``, which belong to the places ``over``."""
        more = Count(digits)
        if s.key is None or not s.varies & over:
            return replace(s, top=s.top + more)
        # Denominators differ from term to term: their product over the cells becomes the common
        # one.
        cells = 1
        for d in digits:
            cells *= len(self.cells.cells[d])
        bottom = Count({d: n * cells for d, n in s.bottom.items()})
        top = s.top + more + Count({d: n * (cells - 1) for d, n in s.bottom.items()})
        degree = (s.degree[0] + (cells - 1) * s.degree[1], cells * s.degree[1])
        exps = (s.exps[0] + (cells - 1) * s.exps[1], cells * s.exps[1])
        return TermBounds(
            top,
            bottom,
            degree,
            exps,
            s.varies - over,
            ("summed", result),
            s.power,
            s.power_degree,
        )

    def _uninterpreted(self, s: TermBounds, free: Count) -> TermBounds:
        self._arguments.append((s, free))
        return TermBounds(degree=(1, 0))

    def _op(self, op: Op, bounds: Mapping[Value, TermBounds]) -> TermBounds:
        if op.number is not None:
            return TermBounds(degree=(1, 0))  # counts for the size of coefficients
        xs = [bounds[v] for v in op.operands]
        if isinstance(op, Unary):
            return self._unary(op, xs[0])
        if isinstance(op, Binary):
            return self._binary(op, xs)
        if isinstance(op, Matmul):
            a = op.operands[0]
            digits = self._dims(a, (len(a.shape) - 1,))
            # The contracted dimension is the last one of the left, the second last of the right.
            contracted = -1 in xs[0].varies or -2 in xs[1].varies
            left = moved(xs[0], xs[0].key, xs[0].varies - {-1})
            right = moved(xs[1], xs[1].key, xs[1].varies - {-2})
            product = multiply(left, right)
            over: Places = frozenset({"contracted"} if contracted else ())
            product = moved(product, product.key, product.varies | over)
            return self._summed(product, digits, op.result, over)
        if isinstance(op, Reduce):
            digits = self._dims(op.operands[0], op.dims)
            if op.fn is ReduceFn.SUM:
                rank = len(op.operands[0].shape)
                return self._summed(xs[0], digits, op.result, frozenset(d - rank for d in op.dims))
            return self._uninterpreted(xs[0], self._free(op.operands[0]))
        if isinstance(op, RunningMax):
            return self._uninterpreted(xs[0], self._free(op.operands[0]))
        if isinstance(op, Elementwise) and (op.cuts or op.unknown):
            return self._uninterpreted(xs[0], self._free(op.operands[0]))
        if isinstance(op, (Cast, Mask)):
            return xs[0]
        if isinstance(op, Movement):
            result = xs[0]
            for x in xs[1:]:
                result = add(result, x)
            # The same denominators at other places.
            return moved(result, ("moved", op.result), rearranged(op, result.varies))
        raise unknown(op, "how many indices a value depends on")

    def _unary(self, op: Unary, x: TermBounds) -> TermBounds:
        algebra, degree = UNARY[op.fn].algebra, UNARY[op.fn].degree
        if algebra is Algebra.RING:
            assert degree is not None, op.fn
            return reduce(multiply, [x] * degree)
        if algebra is Algebra.FIELD:
            return self._divided(TermBounds(), x, op.operands[0])
        free = self._free(op.operands[0])
        if algebra is Algebra.EXP:
            # An exponential of an exponential is uninterpreted: count it as both.
            self._exponents.append((x, free))
            if x.exps != (0, 0):
                return self._uninterpreted(x, free)
            return TermBounds(exps=(1, 0), power=x.top, power_degree=x.degree[0])
        if self._signs and op.fn in (UnaryFn.ABS, UnaryFn.SQRT, UnaryFn.LOG):
            # Arguments are compared up to a factor that is one of their terms.
            self._arguments.append((multiply(x, x), free))
            if op.fn is not UnaryFn.LOG:  # its product with a sign, a root of it
                return multiply(x, TermBounds(degree=(1, 0)))
        result = self._uninterpreted(x, free)
        if self._signs and op.fn in (UnaryFn.SIN, UnaryFn.COS):  # exponentials of i times x
            self._exponents.append((x, free))
            return TermBounds(degree=(1, 0), exps=(1, 0), power=x.top, power_degree=x.degree[0])
        if op.fn is UnaryFn.LOG:
            # log(e^c a) = c + log(a): a part of an exponent comes out.
            return TermBounds(top=x.power, degree=(max(1, x.power_degree), 0))
        return result

    def _divided(self, a: TermBounds, b: TermBounds, divisor: Value) -> TermBounds:
        if self._reciprocals_as_symbols:
            # Arguments are compared up to a factor that is one of their terms.
            self._arguments.append((multiply(b, b), self._free(divisor)))
            factor = TermBounds(degree=(1, 0), power=b.power, power_degree=b.power_degree)
            return multiply(a, factor)
        inverse = TermBounds(
            b.bottom,
            b.top,
            (b.degree[1], b.degree[0]),
            (b.exps[1], b.exps[0]),
            b.varies | self._places(divisor),
            ("divisor", divisor),
            b.power,
            b.power_degree,
        )
        return multiply(a, inverse)

    def _binary(self, op: Binary, xs: list[TermBounds]) -> TermBounds:
        a, b = xs
        if op.fn in (BinaryFn.ADD, BinaryFn.SUB):
            return add(a, b)
        if op.fn is BinaryFn.MUL:
            return multiply(a, b)
        if op.fn is BinaryFn.DIV:
            return self._divided(a, b, op.operands[1])
        free = self._free(op.result)
        self._uninterpreted(a, free)
        return self._uninterpreted(b, free)
