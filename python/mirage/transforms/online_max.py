"""Rewrites the block graph of a launch so that its exponentials are taken relative to a maximum.

For each shift the maximum ``m`` of its argument is taken over the dimensions that are summed later;
inside a loop that accumulates, it is a running maximum and the accumulators are rescaled (Milakov &
Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135). Partial results of several blocks are
brought to their common maximum by the launch that reads them.

``m`` is never below ``FLOOR``. A tile all of whose scores are minus infinity (keys beyond the end,
or masked by the program) would otherwise give ``-inf - (-inf)``, which is NaN. With a finite ``m``
its exponentials are ``exp(-inf) = 0``, exactly, and the next real score ``x`` rescales what was
summed before (zeros) by ``exp(FLOOR - x) = 0``. Scores themselves are never replaced by ``FLOOR``:
``exp(FLOOR)`` is not zero in exact arithmetic, ``exp(-inf)`` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf

from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    BlockGraph,
    Builder,
    Launch,
    Load,
    Loop,
    Mask,
    Op,
    Output,
    TensorType,
    Unary,
    Value,
)
from mirage.transforms.homogeneity import LaunchFacts
from mirage.transforms.padding import LOW, Pad, Padding
from mirage.transforms.shifts import Align, Shift, TensorShift

FLOOR = LOW
"""Smallest maximum: far below any real score, and finite, so that ``FLOOR - FLOOR`` is 0."""


@dataclass(frozen=True)
class Rewritten:
    """The new launch; ``stored`` are its additional results, in the order of
    ``LaunchFacts.stored``.
    """

    launch: Launch
    stored: tuple[Value, ...]


def rewrite_launch(
    launch: Launch, facts: LaunchFacts, padding: Padding, maxima: Mapping[TensorShift, Value]
) -> Rewritten:
    """``launch`` with every shift in ``facts`` applied; ``maxima`` are the kernel-level values of
    the shifts it reads.
    """
    return _Rewriter(launch, facts, padding, maxima).run()


@dataclass
class _Scope:
    """The ops of the block or of one loop body, and what its loop must return in addition."""

    loop: Loop | None
    builder: Builder = field(default_factory=lambda: Builder(in_block=True))


class _Rewriter:
    def __init__(
        self,
        launch: Launch,
        facts: LaunchFacts,
        padding: Padding,
        maxima: Mapping[TensorShift, Value],
    ) -> None:
        self.launch = launch
        self.facts = facts
        self.padding = padding
        self.maxima = maxima
        self.new: dict[Value, Value] = {}
        self.arguments: dict[Shift, Value] = {}  # what the values carried before
        self.shifted: dict[Shift, Value] = {}  # what they carry now: the maximum
        self.local: dict[Shift, Value] = {}  # the maximum over this step only
        self.rescales: dict[tuple[Shift, Fraction, Align, int], Value] = {}
        self.factors: dict[tuple[Shift, Fraction], Value] = {}  # exp of the difference of the two
        self.params: dict[TensorShift, Value] = {}
        self.masked: dict[Value, set[tuple[int, Pad]]] = {}  # where exponentials are 0 already

    def run(self) -> Rewritten:
        scope = _Scope(None)
        self._run(self.launch.body.ops, scope)
        outputs = [Output(self._value(o.value), o.map) for o in self.launch.body.outputs]
        stored: list[Value] = []
        for entry in self.facts.stored:
            align: Align = tuple(None if d < 0 else d for d in entry.dims)
            tile = self._arrange(scope.builder, self.shifted[entry.shift], align)
            outputs.append(Output(tile, entry.map))
            stored.append(Value(TensorType(entry.shape, tile.dtype), "m"))
        operands = (*self.launch.operands, *(self.maxima[t] for t in self.params))
        body = BlockGraph(
            (*self.launch.body.params, *self.params.values()),
            tuple(scope.builder.ops),
            tuple(outputs),
        )
        launch = replace(
            self.launch, operands=operands, results=(*self.launch.results, *stored), body=body
        )
        return Rewritten(launch, tuple(stored))

    def _value(self, value: Value) -> Value:
        return self.new.get(value, value)

    def _run(self, ops: Sequence[Op], scope: _Scope) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._loop(op, scope)
            elif isinstance(op, Load) and op in self.facts.loads:
                self._load(op, scope)
            elif isinstance(op, Unary) and op in self.facts.exps:
                self._exp(op, scope)
            elif (
                isinstance(op, Unary)
                and op.fn is UnaryFn.LOG
                and self.facts.terms.get(op.operands[0])
            ):
                self._log(op, scope)
            elif isinstance(op, Mask) and self._is_zero_there(op):
                self.new[op.result] = self._value(op.operands[0])
            else:
                self._copy(op, scope)

    def _is_zero_there(self, op: Mask) -> bool:
        masked = self.masked.get(op.operands[0], set())
        return op.fill == 0.0 and (op.dim, Pad(op.axes, op.extent)) in masked

    def _copy(self, op: Op, scope: _Scope) -> Value:
        operands = tuple(map(self._value, op.operands))
        if operands == op.operands:
            scope.builder.ops.append(op)
            return op.result
        result = Value(op.result.type, op.result.name)
        scope.builder.ops.append(replace(op, operands=operands, results=(result,)))
        self.new[op.result] = result
        return result

    # ---- where shifts start

    def _exp(self, op: Unary, scope: _Scope) -> None:
        b = scope.builder
        shift = self.facts.exps[op]
        argument = self._value(op.operands[0])
        if argument.dtype.is_half:
            argument = b.cast(argument, DType.F32)
        for dim in shift.reduced:
            for pad in self.padding.exposed(op.operands[0], dim):
                argument = b.mask(argument, dim, pad.axes, pad.extent, -inf)
                self.masked.setdefault(op.result, set()).add((dim, pad))
        self._take_maximum(shift, argument, b, floor=True)
        self.new[op.result] = b.unary(
            UnaryFn.EXP, b.binary(BinaryFn.SUB, argument, self.shifted[shift])
        )

    def _load(self, op: Load, scope: _Scope) -> None:
        b = scope.builder
        loaded = self._copy(op, scope)
        for shift in self.facts.loads[op]:
            if shift not in self.shifted:
                self._load_maximum(shift, b)
            loaded = self._move(loaded, op.result, shift, b)
        self.new[op.result] = loaded

    def _load_maximum(self, shift: Shift, b: Builder) -> None:
        tensor = shift.tensor
        assert tensor is not None
        if tensor not in self.params:
            self.params[tensor] = Value(self.maxima[tensor].type, "m")
        argument = b.load(self.params[tensor], shift.map, shift.shape)
        probe = self._overhang(shift)
        for dim in shift.reduced:
            if dim in probe:
                argument = b.mask(argument, dim, probe[dim].axes, probe[dim].extent, -inf)
        self._take_maximum(shift, argument, b, floor=any(d in probe for d in shift.reduced))

    def _overhang(self, shift: Shift) -> dict[int, Pad]:
        assert shift.tensor is not None
        found: dict[int, Pad] = {}
        for d, (size, tile, axes) in enumerate(
            zip(shift.tensor.shape, shift.shape, shift.map, strict=True)
        ):
            parts = 1
            for a in axes:
                parts *= self.padding.extents[a]
            if parts * tile > size:
                found[d] = Pad(axes, size)
        return found

    def _take_maximum(self, shift: Shift, argument: Value, b: Builder, *, floor: bool) -> None:
        self.arguments[shift] = argument
        maximum = argument
        if shift.reduced:
            maximum = b.reduce(ReduceFn.MAX, maximum, shift.reduced)
        if floor:
            maximum = b.binary(BinaryFn.MAX, maximum, b.constant(FLOOR, _wide(maximum.dtype)))
        self.local[shift] = maximum
        if shift.running:
            maximum = b.running_max(maximum)
            identity: Align = tuple(range(len(shift.shape)))
            self.rescales[(shift, Fraction(1), identity, len(shift.shape))] = maximum
        self.shifted[shift] = maximum

    def _move(self, value: Value, original: Value, shift: Shift, b: Builder) -> Value:
        """``value``, which carries ``arguments[shift]``, brought to ``shifted[shift]``."""
        if not shift.moves:
            return value
        term = self.facts.terms[original][shift]
        key = (shift, term.power)
        if key not in self.factors:
            difference = b.binary(BinaryFn.SUB, self.arguments[shift], self.shifted[shift])
            self.factors[key] = b.unary(UnaryFn.EXP, self._scaled(b, difference, term.power))
        return b.binary(BinaryFn.MUL, value, self._arrange(b, self.factors[key], term.align))

    def _log(self, op: Unary, scope: _Scope) -> None:
        b = scope.builder
        result = self._copy(op, scope)
        for shift, term in self.facts.terms[op.operands[0]].items():
            summand = self._arrange(b, self.shifted[shift], term.align)
            result = b.binary(BinaryFn.ADD, result, self._scaled(b, summand, term.power))
        self.new[op.result] = result

    # ---- loops

    def _loop(self, op: Loop, outer: _Scope) -> None:
        scope = _Scope(op)
        self._run(op.body, scope)
        accumulators = [self._accumulator(a, op, scope) for a in op.accumulators]
        shifts = self.facts.looped.get(op, ())
        for after in shifts:
            assert after.inner is not None
            accumulators.append(Accumulator(AccumulateFn.LAST, self.shifted[after.inner]))
        results = outer.builder.loop(op.axis, tuple(scope.builder.ops), tuple(accumulators))
        self.new.update(zip(op.results, results, strict=False))
        for after, argument in zip(shifts, results[len(op.results) :], strict=True):
            self._take_maximum(after, argument, outer.builder, floor=False)
        for original in op.results:
            for shift in self.facts.terms.get(original, {}):
                if shift in shifts:
                    self.new[original] = self._move(
                        self.new[original], original, shift, outer.builder
                    )

    def _accumulator(self, accumulator: Accumulator, loop: Loop, scope: _Scope) -> Accumulator:
        value = self._value(accumulator.value)
        rescale = None if accumulator.rescale is None else self._value(accumulator.rescale)
        if accumulator.fn is AccumulateFn.SUM:
            for shift, term in self.facts.terms.get(accumulator.value, {}).items():
                if shift.loop is loop:
                    rescale = self._rescale(shift, term.power, term.align, scope.builder)
        return Accumulator(accumulator.fn, value, rescale)

    def _rescale(self, shift: Shift, power: Fraction, align: Align, b: Builder) -> Value:
        """The running maximum of ``power * m`` in the layout of a value. (It is ``power`` times
        that of ``m``.)
        """
        kept: Align = tuple(
            a if a is not None and shift.result_shape[a] > 1 else None for a in align
        )
        natural = len(kept) == len(shift.shape) and all(
            a == d for d, a in enumerate(kept) if shift.result_shape[d] > 1 or a is not None
        )
        key = (shift, power, tuple(range(len(shift.shape))) if natural else kept, len(align))
        if key not in self.rescales:
            local = self._arrange(b, self.local[shift], kept)
            self.rescales[key] = b.running_max(self._scaled(b, local, power))
        return self.rescales[key]

    # ---- helpers ---------------------------------------------------------------------------------

    @staticmethod
    def _scaled(b: Builder, x: Value, power: Fraction) -> Value:
        if power == 1:
            return x
        return b.binary(BinaryFn.MUL, x, b.constant(float(power), _wide(x.dtype)))

    @staticmethod
    def _arrange(b: Builder, x: Value, align: Align) -> Value:
        """``x``, whose dimensions are a shift's, with its dimension ``align[d]`` at dimension
        ``d``.
        """
        order = [a for a in align if a is not None and x.shape[a] > 1]
        assert set(order) == {d for d, n in enumerate(x.shape) if n > 1}, (
            "a value lost a dimension of its shift"
        )
        shape = tuple(1 if a is None else x.shape[a] for a in align)
        if order != sorted(order):
            rest = [d for d in range(len(x.shape)) if d not in order]
            x = b.transpose(x, (*rest, *order))
        return x if x.shape == shape else b.reshape(x, shape)


def _wide(dtype: DType) -> DType:
    return DType.F64 if dtype is DType.F64 else DType.F32
