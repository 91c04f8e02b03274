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
from math import inf, prod

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    BlockGraph,
    Launch,
    Load,
    Loop,
    Mask,
    Op,
    Output,
    TensorType,
    TileMap,
    Unary,
    Value,
)
from mirage.transforms.facts import LaunchFacts
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

        self.stepped: dict[tuple[Shift, Fraction, TileMap, Loop | None], Value] = {}
        self.top = _Scope(None)

    def run(self) -> Rewritten:
        scope = self.top
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
        for carried in self.facts.loads[op]:
            shift = carried.shift
            # what does not step with a loop is computed once, before it
            home = scope if shift.loop is scope.loop else self.top
            if shift not in self.shifted:
                argument = self._maximum_tile(shift, shift.map, shift.shape, home.builder)
                floor = any(
                    d in self._overhang(shift, shift.map, shift.shape) for d in shift.reduced
                )
                self._take_maximum(shift, argument, home.builder, floor=floor)
            if not shift.moves:
                continue
            term = self.facts.terms[op.result][shift]
            if carried.whole:
                factor = self._factor(shift, self.arguments[shift], term.power, home.builder)
            else:
                key = (shift, term.power, carried.map, scope.loop)
                if key not in self.stepped:
                    tile = self._maximum_tile(shift, carried.map, carried.tile, b)
                    self.stepped[key] = self._difference(shift, tile, term.power, b)
                factor = self.stepped[key]
            loaded = b.binary(BinaryFn.MUL, loaded, self._arrange(b, factor, term.align))
        self.new[op.result] = loaded

    def _maximum_tile(
        self, shift: Shift, tile_map: TileMap, tile: tuple[int, ...], b: Builder
    ) -> Value:
        """A tile of the stored ``m``; minus infinity where there is none."""
        tensor = shift.tensor
        assert tensor is not None
        if tensor not in self.params:
            self.params[tensor] = Value(self.maxima[tensor].type, "m")
        argument = b.load(self.params[tensor], tile_map, tile)
        for dim, pad in self._overhang(shift, tile_map, tile).items():
            if dim in shift.reduced:
                argument = b.mask(argument, dim, pad.axes, pad.extent, -inf)
        return argument

    def _overhang(self, shift: Shift, tile_map: TileMap, tile: tuple[int, ...]) -> dict[int, Pad]:
        assert shift.tensor is not None
        found: dict[int, Pad] = {}
        for d, (size, n, axes) in enumerate(zip(shift.tensor.shape, tile, tile_map, strict=True)):
            if n * prod(self.padding.extents[a] for a in axes) > size:
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

    def _factor(self, shift: Shift, before: Value, power: Fraction, b: Builder) -> Value:
        """What brings values that carry ``before`` to ``shifted[shift]``, for the whole shift."""
        key = (shift, power)
        if key not in self.factors:
            self.factors[key] = self._difference(shift, before, power, b)
        return self.factors[key]

    def _difference(self, shift: Shift, before: Value, power: Fraction, b: Builder) -> Value:
        difference = b.binary(BinaryFn.SUB, before, self.shifted[shift])
        return b.unary(UnaryFn.EXP, self._scaled(b, difference, power))

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
                if shift in shifts and shift.moves:
                    b, term = outer.builder, self.facts.terms[original][shift]
                    factor = self._factor(shift, self.arguments[shift], term.power, b)
                    scale = self._arrange(b, factor, term.align)
                    self.new[original] = b.binary(BinaryFn.MUL, self.new[original], scale)

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
