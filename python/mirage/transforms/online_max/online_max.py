"""Rewrites the block graph of a launch so that its exponentials are taken relative to a maximum.

For each shift the maximum ``m`` of its argument is taken over the dimensions that are summed later;
inside a loop that accumulates, it is a running maximum and the accumulators are rescaled (Milakov &
Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135). Values that carry different maxima are
brought to the larger one where they are added; partial results of several blocks are brought to
their common maximum by the launch that reads them.

``m`` is never below ``FLOOR``, or below ``LOWEST`` where scores may be finite numbers below
``FLOOR``. A tile whose scores are all minus infinity (keys beyond the end, or masked by the
program) would otherwise give ``-inf - (-inf)``, which is NaN. With a finite ``m`` its exponentials
are ``exp(-inf) = 0``, exactly, and the next real score ``x`` rescales what was summed before
(zeros) by ``exp(FLOOR - x) = 0``. Scores themselves are never replaced by ``FLOOR``: ``exp(FLOOR)``
is not zero in exact arithmetic, ``exp(-inf)`` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, prod

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Binary,
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
from mirage.transforms.online_max.far_scores import FarScores
from mirage.transforms.online_max.maxima import FLOOR, LOWEST, Maxima, arrange
from mirage.transforms.online_max.padding import Pad, Padding
from mirage.transforms.online_max.summands import Missing
from mirage.transforms.shifts.facts import LaunchFacts
from mirage.transforms.shifts.shifts import Align, NotHomogeneous, Origin, Shift, TensorShift


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
    """Apply every shift in ``facts`` to ``launch``; ``maxima`` are the kernel-level values of the
    shifts that it reads.
    """
    return _Rewriter(launch, facts, padding, maxima).run()


class _Rewriter:
    def __init__(
        self,
        launch: Launch,
        facts: LaunchFacts,
        padding: Padding,
        stored: Mapping[TensorShift, Value],
    ) -> None:
        self.launch = launch
        self.facts = facts
        self.padding = padding
        self.stored = stored
        self.new: dict[Value, Value] = {}
        self.params: dict[TensorShift, Value] = {}
        self.masked: dict[Value, set[tuple[int, Pad]]] = {}  # where exponentials are 0 already
        self.stepped: dict[tuple[Shift, Fraction, TileMap, Loop | None], Value] = {}
        self.builders: dict[Loop | None, Builder] = {None: Builder(in_block=True)}
        self.far = FarScores(launch)
        self.maxima = Maxima(self.builders.__getitem__)
        self.missing = Missing(self._maximum)
        self.parts: dict[tuple[Shift, Loop], set[tuple[TileMap, tuple[int, ...]]]] = {}

    def run(self) -> Rewritten:
        top = self.builders[None]
        self._run(self.launch.body.ops, None)
        outputs = [Output(self._value(o.value), o.map) for o in self.launch.body.outputs]
        stored: list[Value] = []
        for entry in self.facts.stored:
            align: Align = tuple(None if d < 0 else d for d in entry.dims)
            tile = arrange(top, self.maxima.shifted[entry.shift], align)
            outputs.append(Output(tile, entry.map))
            stored.append(Value(TensorType(entry.shape, tile.dtype), "m"))
        operands = (*self.launch.operands, *(self.stored[t] for t in self.params))
        body = BlockGraph(
            (*self.launch.body.params, *self.params.values()), tuple(top.ops), tuple(outputs)
        )
        launch = replace(
            self.launch, operands=operands, results=(*self.launch.results, *stored), body=body
        )
        return Rewritten(launch, tuple(stored))

    def _value(self, value: Value) -> Value:
        new = self.new.get(value, value)
        if value in self.missing:
            new = self.new[value] = self.missing.restore(value, new)
        return new

    def _run(self, ops: Sequence[Op], loop: Loop | None) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._loop(op, self.builders[loop])
            elif isinstance(op, Load) and op in self.facts.loads:
                self._load(op, loop)
            elif isinstance(op, Unary) and op in self.facts.exps:
                self._exp(op, self.builders[loop])
            elif op.function in (UnaryFn.LOG, UnaryFn.NEG):
                self._log(op, loop)
            elif isinstance(op, Binary) and op in self.facts.rebased:
                self._rebase(op, self.builders[loop])
            elif isinstance(op, Binary) and any(v in self.missing for v in op.operands):
                self._add_to_log(op, self.builders[loop])
            elif isinstance(op, Mask) and self._is_zero_there(op):
                self.new[op.result] = self._value(op.operands[0])
            else:
                self._copy(op, self.builders[loop])

    def _is_zero_there(self, op: Mask) -> bool:
        masked = self.masked.get(op.operands[0], set())
        return op.fill == 0.0 and (op.dim, Pad(op.axes, op.extent)) in masked

    def _copy(self, op: Op, b: Builder) -> Value:
        return self._with(op, tuple(map(self._value, op.operands)), b)

    def _with(self, op: Op, operands: tuple[Value, ...], b: Builder) -> Value:
        """Return the op on other operands, of the same shapes or of shapes that give the same
        result."""
        if operands == op.operands:
            b.ops.append(op)
            return op.result
        result = Value(op.result.type, op.result.name)
        b.ops.append(replace(op, operands=operands, results=(result,)))
        self.new[op.result] = result
        return result

    # ---- where shifts start

    def _exp(self, op: Unary, b: Builder) -> None:
        taken = self.facts.exps[op]
        argument = self._value(op.operands[0])
        if argument.dtype.is_half:
            argument = b.cast(argument, DType.F32)
        for dim in taken.covered:
            for pad in self.padding.exposed(op.operands[0], dim):
                argument = b.mask(argument, dim, pad.axes, pad.extent, -inf)
                self.masked.setdefault(op.result, set()).add((dim, pad))
        if not taken.again:
            floor = LOWEST if op.operands[0] in self.far else FLOOR
            self.maxima.take(taken.shift, argument, b, floor=floor)
        elif taken.shift.origin is Origin.LOADED:
            self._take_loaded(taken.shift)
        maximum = arrange(b, self.maxima.shifted[taken.shift], taken.align)
        self.new[op.result] = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, argument, maximum))

    def _load(self, op: Load, loop: Loop | None) -> None:
        b = self.builders[loop]
        loaded = self._copy(op, b)
        for carried in self.facts.loads[op]:
            shift = carried.shift
            # values that do not change in a loop are computed once, before it
            home = self.builders[shift.loop]
            self._take_loaded(shift)
            if not carried.whole and loop is not None:
                self.parts.setdefault((shift, loop), set()).add((carried.map, carried.tile))
            if not shift.moves:
                continue
            term = self.facts.terms[op.result][shift]
            if carried.whole:
                factor = self.maxima.factor(shift, term.power, home)
            else:
                key = (shift, term.power, carried.map, loop)
                if key not in self.stepped:
                    tile = self._maximum_tile(shift, carried.map, carried.tile, b)
                    self.stepped[key] = self.maxima.difference(shift, tile, term.power, b)
                factor = self.stepped[key]
            loaded = b.binary(BinaryFn.MUL, loaded, arrange(b, factor, term.align))
        self.new[op.result] = loaded

    def _maximum(self, shift: Shift, loop: Loop | None) -> Value:
        """Return ``m``; of a stored one of which the steps of ``loop`` read parts, the part."""
        parts = self.parts.get((shift, loop), set()) if loop is not None else set()
        if not parts or loop is None:
            return self.maxima.shifted[shift]
        if len(parts) > 1 or shift.moves:
            raise NotHomogeneous(shift.exps, "a logarithm of parts of what a maximum covers")
        ((tile_map, tile),) = parts
        return self._maximum_tile(shift, tile_map, tile, self.builders[loop])

    def _take_loaded(self, shift: Shift) -> None:
        """Take the maximum of stored maxima, once."""
        if shift in self.maxima.shifted:
            return
        home = self.builders[shift.loop]
        argument = self._maximum_tile(shift, shift.map, shift.shape, home)
        overhang = self._overhang(shift, shift.map, shift.shape)
        absent = any(d in overhang for d in shift.reduced)
        self.maxima.take(shift, argument, home, floor=LOWEST if absent else None)

    def _maximum_tile(
        self, shift: Shift, tile_map: TileMap, tile: tuple[int, ...], b: Builder
    ) -> Value:
        """Return a tile of the stored ``m``; minus infinity where there is none."""
        tensor = shift.tensor
        assert tensor is not None
        if tensor not in self.params:
            self.params[tensor] = Value(self.stored[tensor].type, "m")
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

    # ---- where shifts meet, and where they end

    def _rebase(self, op: Binary, b: Builder) -> None:
        operands = list(map(self._value, op.operands))
        for entry in self.facts.rebased[op]:
            self.maxima.merge(entry.whole)
            factor = self.maxima.part_factor(entry.whole, entry.part, entry.power)
            scale = arrange(b, factor, entry.align)
            operands[entry.operand] = b.binary(BinaryFn.MUL, operands[entry.operand], scale)
        self._with(op, tuple(operands), b)

    def _log(self, op: Op, loop: Loop | None) -> None:
        """Write a logarithm, or the negative of a value that may be one."""
        b, (x,) = self.builders[loop], op.operands
        if op.function is UnaryFn.NEG and x in self.missing:
            self._with(op, (self.new.get(x, x),), b)
            self.missing.negate(op.result, x)
            return
        self._copy(op, b)
        if op.function is UnaryFn.LOG:
            terms = self.facts.terms.get(x, {}).items()
            powers = {
                (s, loop if (s, loop) in self.parts else None, t.align): t.power for s, t in terms
            }
            self.missing.note(op.result, powers, b)

    def _add_to_log(self, op: Binary, b: Builder) -> None:
        x, y = op.operands
        if op.fn not in (BinaryFn.ADD, BinaryFn.SUB):
            self._copy(op, b)
        elif x in self.missing and y in self.missing:
            if x.shape != y.shape:
                self._copy(op, b)
                return
            self._with(op, (self.new.get(x, x), self.new.get(y, y)), b)
            self.missing.cancel(op.fn, op.result, x, y, b)
        else:
            log, other = (x, y) if x in self.missing else (y, x)
            rank = len(op.result.shape)
            moved = self.missing.move(op.fn, log, self._value(other), rank, b)
            plain = self.new.get(log, log)
            self._with(op, (plain, moved) if log is x else (moved, plain), b)

    # ---- loops

    def _loop(self, op: Loop, outer: Builder) -> None:
        self.builders[op] = Builder(in_block=True)
        self._run(op.body, op)
        accumulators = [self._accumulator(a, op) for a in op.accumulators]
        shifts = self.facts.looped.get(op, ())
        for after in shifts:
            assert after.inner is not None
            accumulators.append(Accumulator(AccumulateFn.LAST, self.maxima.shifted[after.inner]))
        body = tuple(self.builders.pop(op).ops)
        results = outer.loop(op.axis, body, tuple(accumulators))
        self.new.update(zip(op.results, results, strict=False))
        for after, argument in zip(shifts, results[len(op.results) :], strict=True):
            self.maxima.take(after, argument, outer)
        for original in op.results:
            for shift in self.facts.terms.get(original, {}):
                if shift in shifts and shift.moves:
                    term = self.facts.terms[original][shift]
                    factor = self.maxima.factor(shift, term.power, outer)
                    scale = arrange(outer, factor, term.align)
                    self.new[original] = outer.binary(BinaryFn.MUL, self.new[original], scale)

    def _accumulator(self, accumulator: Accumulator, loop: Loop) -> Accumulator:
        value = self._value(accumulator.value)
        rescale = None if accumulator.rescale is None else self._value(accumulator.rescale)
        if accumulator.fn is AccumulateFn.SUM:
            for shift, term in self.facts.terms.get(accumulator.value, {}).items():
                if shift.loop is loop:
                    b = self.builders[loop]
                    rescale = self.maxima.rescale(shift, term.power, term.align, b)
        return Accumulator(accumulator.fn, value, rescale)
