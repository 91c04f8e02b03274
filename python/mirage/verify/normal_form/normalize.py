"""Functions written out in terms of others, so that fewer of them stay uninterpreted, and
consecutive reshapes merged.

These are written out: functions with a definition in the table of scalar functions (``silu(x) = x
sigmoid(x)``, ``rsqrt(x) = 1 / sqrt(x)``, ``relu(x) = max(x, 0)``); powers with a constant exponent
that is an integer or plus or minus a half; elementwise ops that consist of functions, comparisons
and logic (:mod:`~mirage.verify.normal_form.predicates`); and exponentials of logarithms
(:mod:`~mirage.verify.normal_form.exponents`). A reshape of a reshape becomes one reshape, so the
shape in between (the rows of all matrices of a batch) need not be understood. A launch whose
results have no op in common becomes several launches
(:mod:`~mirage.verify.normal_form.split_launches`). Only the verifier does this, to both programs,
before it reads them in a finite field.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, UnaryFn
from mirage.semantics.substitute import rename_ops, with_operands
from mirage.semantics.ugraph import (
    Elementwise,
    KernelGraph,
    Launch,
    Loop,
    Op,
    Reshape,
    Structure,
    Unary,
    Value,
    all_ops,
)
from mirage.verify.normal_form.exponents import (
    WRITTEN,
    exponential_rule,
    masked_exponential_rule,
)
from mirage.verify.normal_form.idle_limits import without_idle_limits
from mirage.verify.normal_form.infinite_terms import (
    has_infinite_terms,
    infinite_term_rule,
)
from mirage.verify.normal_form.logarithms_of_sums import shift_rule
from mirage.verify.normal_form.predicates import masks_rule, predicate_rule
from mirage.verify.normal_form.real_functions import real_rule
from mirage.verify.normal_form.rounded_limits import with_limits_outside
from mirage.verify.normal_form.split_launches import with_launches_split
from mirage.verify.normal_form.traced import traced

_MAX_POWER = 8


class Depth(enum.Enum):
    """How far functions are written out.

    ``USUAL`` is the usual form. ``EXPONENTIALS`` also writes out functions that are made of
    exponentials (sigmoid, tanh), which then stand in denominators, adds masks of exponentials to
    their arguments, and adds several masks as one. ``REALS`` uses identities of
    real numbers: maxima of two values as magnitudes, logarithms and roots of products."""

    USUAL = enum.auto()
    EXPONENTIALS = enum.auto()
    REALS = enum.auto()


def normalize(graph: KernelGraph, depth: Depth = Depth.USUAL) -> KernelGraph:
    """Write out functions in ``graph``, at both levels."""
    graph = with_limits_outside(graph)
    if depth is Depth.REALS:  # expansions may contain further functions to expand
        graph = without_idle_limits(graph)
        graph = _written(_written(graph, depth), depth)
    graph = _written(graph, depth)
    return _written(graph, None) if has_infinite_terms(graph) else graph


def has_exponentials(*graphs: KernelGraph) -> bool:
    """Return whether a program is written in another way with ``Depth.EXPONENTIALS``."""
    for graph in graphs:
        ops = list(all_ops(decompose(graph).ops))
        makers = {v: op for op in ops for v in op.results}
        numbers = {op.result: op.number for op in ops if op.number is not None}
        if any(op.function in WRITTEN or _of_masks(op, makers, numbers) for op in ops):
            return True
    return False


def _of_masks(
    op: Op, makers: Mapping[Value, Op], constants: Mapping[Value, Number]
) -> Callable[[Builder], Value] | None:
    return masked_exponential_rule(op, makers, constants) or masks_rule(op, makers)


def _written(graph: KernelGraph, depth: Depth | None) -> KernelGraph:
    """Apply the rules of a depth once, or with None only that for products with infinite terms."""
    state = _Rewriter(False, depth)
    ops = state.rewrite(graph.ops)
    outputs = tuple(map(state.now, graph.outputs))
    ops = _without_dead_reshapes(ops, set(outputs))
    return with_launches_split(KernelGraph(graph.name, graph.inputs, ops, outputs))


class _Rewriter:
    def __init__(self, in_block: bool, depth: Depth | None) -> None:
        self.in_block, self.depth = in_block, depth
        self.names: dict[Value, Value] = {}
        self.constants: dict[Value, Number] = {}
        self.reshaped: dict[Value, Value] = {}
        self.makers: dict[Value, Op] = {}  # of values in the new graph

    def now(self, value: Value) -> Value:
        return self.names.get(value, value)

    def rewrite(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        result: list[Op] = []
        for old in ops:
            op = with_operands(old, tuple(map(self.now, old.operands)))
            self.makers.update((v, op) for v in op.results)
            if op.number is not None:
                self.constants[op.result] = op.number
            if isinstance(op, Reshape):
                if (only := self._one_reshape(op)) is not None:
                    result.append(only)
                continue
            if isinstance(op, Loop):
                result.append(op.rebuilt(self.rewrite(op.body), self.now))
                continue
            if isinstance(op, Launch):
                inner = _Rewriter(True, self.depth)
                pairs = zip(op.body.params, op.operands, strict=True)
                inner.makers = self.makers | {
                    param: self.makers[v] for param, v in pairs if v in self.makers
                }
                new = op.rebuilt(inner.rewrite(op.inside), inner.now)
                self.makers |= inner.makers
                kept = _without_dead_reshapes(new.inside, set(new.ends))
                result.append(new.rebuilt(kept, lambda v: v))
                continue
            shifted = self.depth and shift_rule(op, self.makers, self.reshaped)
            rule = shifted or self._rule(op)
            if rule is None:
                result.append(op)
                continue
            builder = Builder(self.in_block)
            value = rule(builder)
            made = {result for new in builder.ops for result in new.results}
            # keep the identity of the value, to which others may refer
            if value.type == op.result.type and value in made:
                renamed = rename_ops(tuple(builder.ops), {value: op.result})
                result.extend(renamed)
                chosen = self.depth is Depth.REALS and op.function is BinaryFn.ADD
                seen = shifted is not None or chosen or op.function is UnaryFn.LOG1P
                if seen or self.depth is None:
                    # rules for exponentials and sums look for the logarithm, roots for a maximum,
                    # products for the terms of sums
                    self.makers.update((v, new) for new in renamed for v in new.results)
                    self.constants.update(
                        (new.result, new.number) for new in renamed if new.number is not None
                    )
            else:
                self.names[old.result] = value
                result.extend(builder.ops)
        return tuple(result)

    def _one_reshape(self, op: Reshape) -> Reshape | None:
        """Return ``op`` applied to the source of its operand, if that is a reshape itself; None if
        the result has the type of that source."""
        source = self.reshaped.get(op.operands[0], op.operands[0])
        if source.type == op.result.type:
            self.names[op.result] = source
            return None
        self.reshaped[op.result] = source
        return replace(op, operands=(source,))

    def _is_of_integers(self, value: Value) -> bool:
        """Return whether a value is computed only from integers and truth values (of any numbers),
        whatever the type in which tiles hold it: other proofs know positions and their
        remainders."""
        if value.dtype.is_integer:
            return True
        op = self.makers.get(value)
        if op is None:
            return False
        if isinstance(op.function, BinaryFn) and BINARY[op.function].truth:
            return True
        if op.number is not None:
            return float(op.number).is_integer()
        return bool(op.operands) and all(map(self._is_of_integers, op.operands))

    def _power(self, op: Op) -> Callable[[Builder], Value] | None:
        if op.function is BinaryFn.POW and op.operands[1] in self.constants:
            x, exponent = op.operands[0], self.constants[op.operands[1]]
            if exponent in (0.5, -0.5):
                root = UnaryFn.SQRT
                if exponent > 0:
                    return lambda b: b.unary(root, x)
                return lambda b: b.unary(UnaryFn.RECIPROCAL, b.unary(root, x))
            if exponent == int(exponent) and abs(exponent) <= _MAX_POWER:
                return lambda b: _integer_power(b, x, int(exponent))
        return None

    def _rule(self, op: Op) -> Callable[[Builder], Value] | None:
        if self.depth is None:
            return infinite_term_rule(op, self.makers, self.constants)
        if self.depth is Depth.REALS:
            found = real_rule(op, self.makers, self.constants)
            if found is not None:
                return found
        if op.function is BinaryFn.POW:
            return self._power(op)
        if isinstance(op, Elementwise) and not op.scalar and traced(op, Builder(self.in_block)):
            return lambda b: cast(Value, traced(op, b))
        if isinstance(op, Unary):
            (x,) = op.operands
            definition = UNARY[op.fn].definition
            if self.depth is not Depth.USUAL and (op.fn, self.depth) != (UnaryFn.ABS, Depth.REALS):
                definition = WRITTEN.get(op.fn, definition)
            if definition is not None:
                return lambda b: definition(b, x)
        fn = op.function
        if isinstance(fn, BinaryFn) and not self._is_of_integers(op.operands[0]):
            written = BINARY[fn].definition
            if written is not None:
                return lambda b: written(b, *op.operands)
        if (product := exponential_rule(op, self.makers)) is not None:
            return product
        if self.depth is Depth.EXPONENTIALS:
            masked = _of_masks(op, self.makers, self.constants)
            if masked is not None:
                return masked
        if (predicate := predicate_rule(op, self.makers, self.constants)) is not None:
            return predicate
        return None


def _without_dead_reshapes(ops: tuple[Op, ...], needed: set[Value]) -> tuple[Op, ...]:
    """Remove reshapes that nothing reads from ``ops``; ``needed`` are the values that other ops
    read."""
    kept: list[Op] = []
    for op in reversed(ops):
        if op.renames and op.result not in needed:
            continue
        if isinstance(op, Structure):
            needed.update(op.ends)
            op = op.rebuilt(_without_dead_reshapes(op.inside, needed), lambda v: v)
        needed.update(op.operands)
        kept.append(op)
    return tuple(reversed(kept))


def _integer_power(b: Builder, x: Value, n: int) -> Value:
    if n == 0:
        return b.binary(BinaryFn.ADD, b.binary(BinaryFn.MUL, x, b.constant(0.0)), b.constant(1.0))
    y = x
    for _ in range(abs(n) - 1):
        y = b.binary(BinaryFn.MUL, y, x)
    if n > 0:
        return b.binary(BinaryFn.MUL, x, b.constant(1.0)) if n == 1 else y
    return b.unary(UnaryFn.RECIPROCAL, y)
