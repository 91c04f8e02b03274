"""The shared memory that a launch may need: an upper bound on what the code generator plans.

Loads that feed matmuls, and those that run ahead of a loop, are staged in shared memory, padded to
whole tensor-core fragments; loads of a loop have one slot for each stage. Besides, ops that
exchange values between warps need scratch memory while they run: changes of layout, reductions
across warps, and above all the sums of warps that share the contraction of a matmul (each holds a
whole result). How the warps share a matmul is decided late, by costs that are not known here, so
the worst plausible case counts.

Rings are alive during their loop, other tiles from the start; scratch memory is alive during its
op alone, so that the memory of a loop's rings is free again for the sums after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod

from mirage import _target
from mirage.cost.block_analysis import BlockAnalysis, round_up
from mirage.cost.boxes import is_box
from mirage.cost.skewed_rows import skewed_factors
from mirage.semantics.ugraph import (
    Elementwise,
    Launch,
    Load,
    Loop,
    Matmul,
    Op,
    Rearrangement,
    Reduce,
    Source,
    TensorType,
    Value,
    all_ops,
)

STAGED_BYTES = _target.MIN_STAGED_BYTES
"""The bytes below which tiles of a loop are loaded into registers."""
SLACK = 2.0
"""The factor on the best cost up to which sharings of a matmul count as possible."""
BARRIER_BYTES = _target.SLOT_BARRIER_BYTES
"""The bytes of the two mbarriers of a slot that another warp fills."""
STORE_BYTES = 128
"""The bytes of a row that one copy of the tensor memory accelerator stores."""
ROW_PAD = _target.EXCHANGE_PAD
"""The elements of padding between the rows of an exchanged tile."""


@dataclass(frozen=True)
class SharedBytes:
    """The bytes of shared memory of a block."""

    staged: int
    """The bytes of loaded tiles when most of them are alive."""
    total: int
    """The bytes including the scratch memory that may be needed in addition."""
    first: int
    """The bytes, including scratch memory, if all tiles outside of loops are copied at the start:
    the compiler takes so much only where as many blocks run at once."""


@lru_cache(maxsize=16)  # the same launch is checked, and then its cost predicted
def shared_bytes(launch: Launch) -> SharedBytes:
    """Return bounds on the memory that the launch needs."""
    return _Planner(launch).run()


def _matrix(value: Value) -> tuple[int, ...]:
    """Return the shape without ones, or only without leading ones if that is not a matrix."""
    shape = value.shape
    wide = tuple(n for n in shape if n > 1)
    if len(wide) == 2:
        return wide
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return shape


def _is_widened(load: Load) -> bool:
    """Return whether a tile is held as bytes, from which threads make wider numbers."""
    memory, held = load.operands[0].dtype, load.result.dtype
    return memory is not held and memory.bits == 8 and not held.is_integer


@dataclass
class _Scope:
    """The memory for one op of the block, or for one of its outermost loops with everything
    inside."""

    staged: int = 0
    scratch: int = 0
    after: int = 0  # scratch memory once the staged tiles are no longer used
    before: list[int] = field(default_factory=list[int])  # tiles that a loop loads once


class _Planner(BlockAnalysis):
    def run(self) -> SharedBytes:
        ops = self.launch.body.ops
        last = self._last_uses(ops)
        at: list[tuple[int, int, int]] = []  # staged; with scratch memory; scratch memory after it
        outside: list[tuple[int, int, int]] = []  # bytes, first and last op
        for number, op in enumerate(ops):
            scope = _Scope()
            if isinstance(op, Loop):
                self._loop(op, scope, (op.axis.name,))
            else:
                self._op(op, scope, 1)
            if isinstance(op, Load):
                outside.append((scope.staged, number, last.get(op.result, number)))
                scope.staged = 0
            outside.extend((size, number, number) for size in scope.before)
            at.append((scope.staged, scope.staged + scope.scratch, scope.after))
        outside.extend(self._kept_factors(last))
        parts, most = self._stored() if self.launch.schedule.warpgroups else (0, 0)
        if self.launch.schedule.resident:
            # rings are filled for the next tile meanwhile, and all loads have one
            staged = sum(rings for rings, *_ in at) + sum(size for size, *_ in outside) + parts
            busy = max(max(most, b - r, a) for r, b, a in at)
            return SharedBytes(staged + most, staged + busy, staged + busy)
        staged = total = 0
        for number, (rings, busy, after) in enumerate(at):
            alive = sum(size for size, first, end in outside if first <= number <= end)
            later = sum(size for size, first, end in outside if first <= number < end)
            staged = max(staged, alive + rings)
            total = max(total, alive + busy, later + after)
        total = max(total, most)
        if self.launch.schedule.warpgroups:  # other warps copy
            return SharedBytes(staged, total, total)
        first = sum(size for size, *_ in outside) + max(max(b, a) for _, b, a in at)
        return SharedBytes(staged, total, max(total, first))

    def _kept_factors(self, last: dict[Value, int]) -> Iterator[tuple[int, int, int]]:
        """Yield the bytes of factors that are written once for all steps, and the first and last
        loop that read them."""
        for value in self.kept:
            rows, cols = (self.padded(n) for n in value.shape[-2:])
            row = cols * value.dtype.bytes
            swizzle = _target.shared_swizzle(rows, row)
            size = round_up(rows * row, _target.shared_alignment(swizzle))
            first = next(
                number
                for number, op in enumerate(self.launch.body.ops)
                if any(value in inner.operands for inner in all_ops((op,)) if inner in self.matmuls)
            )
            yield size, first, last[value]

    def _stored(self) -> tuple[int, int]:
        """Return the bytes through which results of warpgroups leave.

        For all results that are boxes, in blocks that continue with another tile: two slots of a
        part each, at most :data:`STORE_BYTES` of its rows, or a whole tile if groups are beside
        each other. And the largest tile of the other results, which leave one after the other: a
        tile in the result's type, for the store itself or on its way to threads that store rows.
        """
        parts = most = 0
        for output, value in zip(self.launch.body.outputs, self.launch.results, strict=True):
            *leading, cols = (1, *output.value.shape)
            rows, row = prod(leading), cols * value.dtype.bytes
            if not is_box(value.type, output.value.shape):
                stored = Value(TensorType(output.value.shape, value.dtype))
                most = max(most, self._exchange(stored))
                continue
            part = next((s for s in (STORE_BYTES, 64, 32) if row % s == 0), row)
            grids = _target.warpgroup_grids(rows, cols, self.warps)
            whole = round_up(rows * row, 8 * STORE_BYTES)
            if self.launch.schedule.resident:
                apart = part < row and bool(grids) and grids[0][1] == 1
                parts += 2 * round_up(rows * part, 8 * STORE_BYTES) if apart else whole
            else:
                most = max(most, whole)
        return parts, most

    def _last_uses(self, ops: tuple[Op, ...]) -> dict[Value, int]:
        """Return, for each value, the last op of the block that reads it or a view of it; sums that
        warps exchange after a matmul no longer need its operands.
        """
        last: dict[Value, int] = {}
        for number, op in reversed(list(enumerate(ops))):
            inner = list(all_ops((op,)))
            for used in inner:
                for v in used.operands:
                    last.setdefault(v, number)
            if isinstance(op, Rearrangement) and op.result in last:
                (x,) = op.operands
                last[x] = max(last[x], last[op.result])
        return last

    def _loop(self, loop: Loop, scope: _Scope, axes: tuple[str, ...]) -> None:
        slots = min(self.launch.schedule.stages, loop.axis.extent)
        if self.launch.schedule.warpgroups:
            scope.staged += BARRIER_BYTES * slots
        for op in loop.body:
            if isinstance(op, Loop):
                self._loop(op, scope, (*axes, op.axis.name))
                scope.scratch = max(scope.scratch, scope.after)
            elif isinstance(op, Load) and not any(a in axes for dim in op.map for a in dim):
                scope.before.append(self._staged(op, 1))  # the same at every step
            else:
                self._op(op, scope, slots)
                scope.scratch = max(scope.scratch, scope.after)
        scope.after = 0
        for accumulator in loop.accumulators:
            source = self.definitions.get(accumulator.value)
            if isinstance(source, Matmul) and not self.launch.schedule.warpgroups:
                need = max(self._sharing(source)[0], self._exchange(source.result))
                scope.after = max(scope.after, need)
            elif isinstance(source, Reduce):
                scope.after = max(scope.after, self._across(source))

    def _op(self, op: Op, scope: _Scope, slots: int) -> None:
        if isinstance(op, Load):
            scope.staged += self._staged(op, slots)
            return
        if isinstance(op, Source):
            return
        need = 0
        if isinstance(op, Matmul):
            sums, moves = self._sharing(op)
            if op.result not in self.sums:
                scope.after = max(scope.after, sums)
            for operand in op.operands:
                load = self.load_of(operand)
                if load is not None and load.operands[0].dtype.is_eight_bits:
                    if not self.launch.schedule.warpgroups and not self._staged(load, slots):
                        need = max(need, self._exchange(operand))
                elif moves and load is None:
                    need = max(need, self._exchange(operand))
        elif isinstance(op, Reduce):
            need = self._across(op)
        elif not isinstance(op, Rearrangement) or self.source(op.result) not in self.fed:
            need = max((self._exchange(v) for v in op.operands if self._moves(v, op)), default=0)
        scope.scratch = max(scope.scratch, need)

    def _across(self, op: Reduce) -> int:
        """Return the bytes that a reduction across warps needs: a result of each warp along the
        dimension."""
        (x,) = op.operands
        if op.dims == (len(x.shape) - 1,) and self._rows_of_warps(x):
            return 0
        parts = min(self.warps, prod(x.shape[d] for d in op.dims))
        return parts * self._exchange(op.result)

    def _rows_of_warps(self, value: Value) -> bool:
        """Return whether each row is held by one warp: warpgroups share products by rows if there
        are 64 for each, and elementwise work continues from there."""
        if not self.launch.schedule.warpgroups or value.shape[-2] % (16 * self.warps):
            return False
        op = self.definitions.get(self.looped.get(value, value))
        if isinstance(op, Elementwise):
            return any(x.shape == value.shape and self._rows_of_warps(x) for x in op.operands)
        return op in self.matmuls

    def _moves(self, value: Value, user: Op) -> bool:
        """Return whether an operand of an elementwise op or a view may be held by other threads
        than the result. It is not if it is loaded or computed from positions, which each thread
        does for the elements of the result that it holds, or within a chain of elementwise ops;
        with warpgroups, a chain continues from the products, in the loop and after it.
        """
        if isinstance(self.source(value), Source):
            return False
        if self.launch.schedule.warpgroups and value in self.looped:
            summed = self.definitions.get(self.looped[value])
            return summed not in self.matmuls or _matrix(value) != _matrix(user.result)
        if self.launch.schedule.warpgroups and self.trips.get(value, 1) > 1:
            source, same = self.source(value), _matrix(value) == _matrix(user.result)
            if same and source in self.matmuls:
                return False
        else:
            source, same = self.definitions.get(value), value.shape == user.result.shape
        return not (same and isinstance(source, Elementwise))

    def _staged(self, load: Load, slots: int) -> int:
        memory, groups = load.operands[0].dtype, self.launch.schedule.warpgroups
        width, shape = load.result.dtype.bytes, self.fed.get(load)
        if memory is not load.result.dtype:  # elements become numbers where they are read
            width = memory.bytes
            if not (groups and memory.is_eight_bits):
                if groups or not _is_widened(load):
                    return 0
                shape = None
        if shape is None:
            copied = slots > 1 and load.result.type.bytes >= STAGED_BYTES
            if not copied or load.result.shape[-1] * width % _target.ASYNC_COPY_UNIT:
                return 0
            wide = [n for n in load.result.shape if n > 1][-2:]
            rows, cols = (1, 1, *wide)[-2:]
            rows = self.padded(rows) if load.result in self.of_factors else self._spread(rows)
            cols = self._spread(cols)
        else:
            rows, cols = self.padded(shape[0]), self._padded_columns(load, shape[1])
        is_skewed = load.result in self.skewed
        if is_skewed and shape is not None and shape[1] != load.result.shape[-1]:
            rows, cols = cols, rows  # it is held in the form that it has in memory
        row = cols * width
        swizzle = _target.shared_swizzle(rows, row)
        if is_skewed:
            stride = load.operands[0].shape[-1] * width
            runs = _target.RUN_ELEMENTS * self.launch.schedule.warps
            ways = (False, True) if cols % runs == 0 else (False,)
            row += max(_target.skewed_pad(row, stride, in_runs) for in_runs in ways)
        return slots * round_up(rows * row, _target.shared_alignment(swizzle, is_skewed))

    @cached_property
    def skewed(self) -> set[Value]:
        """The factors whose rows keep their offsets within lines."""
        return skewed_factors(self)

    def _padded_columns(self, load: Load, extent: int) -> int:
        """Return the padded columns of a factor: few columns suit the narrow side of the
        instruction where they are the columns of right factors alone, and the rows of the products
        lie on its wide side."""
        padded = self.padded(extent)
        if extent < padded <= 16 and self._are_narrow_columns(load.result):
            return round_up(extent, 8)
        return padded

    def _are_narrow_columns(self, value: Value) -> bool:
        products = [op for op in self.matmuls if value in op.operands]
        others = [
            op
            for op in all_ops(self.launch.body.ops)
            if value in op.operands and op not in products
        ]
        return all(op.operands[0] is not value and not self.swapped(op) for op in products) and all(
            isinstance(op, Elementwise)
            and op.result.shape == value.shape
            and self._are_narrow_columns(op.result)
            for op in others
        )

    def _spread(self, extent: int) -> int:
        """Return the extent of a tile that no instruction reads: a power of two, or up to a quarter
        more. If the tile is combined with one that an instruction reads, it has the extent of that.
        """
        power = 1 << (extent - 1).bit_length()
        own = power if extent <= 128 * self.warps else round_up(extent, max(1, power // 8))
        return max(own, self.padded(extent)) if self.matmuls and extent > 1 else own

    def _exchange(self, value: Value) -> int:
        """Return the bytes of a tile during a change of layout."""
        wide = [n for n in value.shape if n > 1]
        if not wide:
            return 64
        rows, cols = (1, *wide)[-2:]
        padded = max(prod((round_up(r, 8), c + ROW_PAD)) for r, c in ((rows, cols), (cols, rows)))
        return padded * max(value.dtype.bytes, 2)

    def _sharing(self, op: Matmul) -> tuple[int, bool]:
        """Return the bytes of the sums that warps may exchange, and whether operands may change
        warps."""
        grids, moves = self.grids(op, SLACK)
        most = max((g.k for g in grids), default=1)
        m, n = (self.padded(x) for x in op.result.shape[-2:])
        size = max(m * (n + ROW_PAD), n * (m + ROW_PAD)) * 4
        return (most * size if most > 1 else 0), moves
