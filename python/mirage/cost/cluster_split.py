"""What one block does if the blocks of a cluster share the work of one position of the grid
(``ClusterSplit.cpp`` and ``SplitOverClusters.cpp`` in the compiler)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from mirage.semantics.ops.block_ops import AccumulateFn, Loop, TileMap
from mirage.semantics.ops.kinds import (
    Contraction,
    Elementwise,
    Scan,
    Source,
    Structure,
    View,
    all_ops,
)
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.substitute import rename_ops
from mirage.semantics.ugraph import Axis, BlockGraph, Launch, Output, loops

PART = "part"
"""The axis along which the blocks of a cluster are."""

MOST_NUMBERS = 64
"""The most numbers of a total: each block writes them to all others."""

_Dim = tuple[Value, int]


@dataclass(frozen=True)
class Split:
    """The work of the blocks of a cluster."""

    launch: Launch
    """What each of them does, without exchanging totals, as a launch with one more axis."""
    rounds: int
    """How often they exchange totals, one after the other."""


@lru_cache(maxsize=64)
def split_over_cluster(launch: Launch) -> Split | None:
    """Return the work of the blocks of a launch's clusters if they share that of one position of
    the grid; None if they do not, or cannot."""
    if launch.schedule.cluster == 1 or launch.schedule.warpgroups:
        return None
    return _Splitter(launch).split()


@dataclass
class _Splitter:
    launch: Launch
    parents: dict[_Dim, _Dim] = field(default_factory=dict[_Dim, _Dim])
    cuts: set[_Dim] = field(default_factory=set[_Dim])

    @property
    def blocks(self) -> int:
        return self.launch.schedule.cluster

    def split(self) -> Split | None:
        """Return the shared work, or None."""
        names = {a.name for a in self.launch.grid}
        if PART in names or not self._choose_cuts() or not all(map(self._may_cut, self._ops)):
            return None
        shared = [x for x in loops(self.launch) if x in self._ops and self._can_share(x)]
        rounds = self._rounds(shared)
        return Split(self._written(shared), rounds) if rounds else None

    @property
    def _ops(self) -> tuple[Op, ...]:
        return self.launch.body.ops

    # ---- which dimensions are cut

    def _leader(self, dim: _Dim) -> _Dim:
        while (above := self.parents.get(dim, dim)) != dim:
            dim = above
        return dim

    def _choose_cuts(self) -> bool:
        """Cut the longest dimension of each stored tile; return whether that is possible."""
        loads: dict[tuple[Value, TileMap, tuple[int, ...]], Value] = {}
        for op in self._ops:
            pairs = list(_same_dims(op))
            if isinstance(op, Source) and op.cuts:
                tile = loads.setdefault((op.operands[0], op.cuts, op.result.shape), op.result)
                pairs = [((tile, d), (op.result, d)) for d, n in enumerate(tile.shape) if n > 1]
            for a, b in pairs:
                first, second = self._leader(a), self._leader(b)
                if first != second:
                    self.parents[first] = second
        made = {v for op in self._ops for v in op.results}
        for output in self.launch.body.outputs:
            shape = output.value.shape
            if not shape or max(shape) % self.blocks or output.value not in made:
                return False
            longest = max(range(len(shape)), key=lambda d: (shape[d], d))
            self.cuts.add(self._leader((output.value, longest)))
        return True

    def _cut(self, value: Value) -> int | None:
        """Return the dimension of a tile that is cut."""
        dims = (d for d in range(len(value.shape)) if self._leader((value, d)) in self.cuts)
        return next(dims, None)

    def _is_part(self, op: Op) -> bool:
        """Return whether a block has the total of a part of what an op adds up."""
        summed = op.over[0] if isinstance(op, Contraction) and _is_plain(op) else ()
        return bool(summed) and self._cut(op.operands[0]) in summed

    def _may_cut(self, op: Op) -> bool:
        """Return whether an op can work on a part of a tile, if it has to."""
        loaded = isinstance(op, Source) and bool(op.cuts)
        for value in op.results:
            dims = [d for d in range(len(value.shape)) if self._leader((value, d)) in self.cuts]
            if len(dims) > 1 or (dims and not loaded and not _is_plain(op)):
                return False
        if self._is_part(op) and op.result.type.size > MOST_NUMBERS:
            return False
        used = [] if _is_plain(op) else [op]
        used += all_ops(op.inside if isinstance(op, Structure) else ())
        return all(self._cut(v) is None for o in used for v in o.operands)

    def _can_share(self, loop: Loop) -> bool:
        """Return whether each block takes a part of a loop's steps."""
        if loop.axis.extent % self.blocks or loop.steps is not None:
            return False
        if any(v.type.size > MOST_NUMBERS for v in loop.results):
            return False
        plain = (Source, Contraction, Scan, Elementwise, View)
        if not all(isinstance(op, plain) for op in loop.body):
            return False
        last = {a.value for a in loop.accumulators if a.fn is AccumulateFn.LAST}
        return last <= set(loop.maxima) and all(
            a.rescale is None or a.rescale in last for a in loop.accumulators
        )

    def _rounds(self, shared: list[Loop]) -> int:
        """Return how many totals depend on each other at most."""
        depth: dict[Value, int] = {}
        for op in self._ops:
            read = [v for o in all_ops((op,)) for v in o.operands]
            before = max((depth.get(v, 0) for v in read), default=0)
            total = op in shared or self._is_part(op)
            depth.update(dict.fromkeys(op.results, before + total))
        return max(depth.values(), default=0)

    # ---- the work of one block

    def _written(self, shared: list[Loop]) -> Launch:
        body = self.launch.body
        names: dict[Value, Value] = {}
        for op in self._ops:
            for value in op.results:
                if (dim := self._cut(value)) is not None:
                    shape = list(value.shape)
                    shape[dim] //= self.blocks
                    names[value] = Value(TensorType(tuple(shape), value.dtype), value.name)
        ops: list[Op] = []
        known: dict[Value, Value] = {}
        loaded: dict[tuple[Value, TileMap], Value] = {}
        for op in self._ops:
            if (loop := next((x for x in shared if x is op), None)) is not None:
                ops += self._share(loop, known)
            else:
                ops.append(self._with_part(op))
        done: list[Op] = []

        def final(value: Value) -> Value:
            while value in known:
                value = known[value]
            return value

        for op in rename_ops(tuple(ops), names):  # loads of the same part are one
            (op,) = rename_ops((op,), {v: final(v) for v in known})
            if isinstance(op, Source) and op.cuts:
                first = loaded.setdefault((op.operands[0], op.cuts), op.result)
                if first is not op.result:
                    known[op.result] = first
                    continue
            done.append(op)
        outputs = tuple(
            Output(
                final(names.get(o.value, o.value)),
                self._cut_map(o.map, self._cut(o.value)),
            )
            for o in body.outputs
        )
        grid = (*self.launch.grid, Axis(PART, self.blocks))
        return replace(self.launch, grid=grid, body=BlockGraph(body.params, tuple(done), outputs))

    def _cut_map(self, cuts: TileMap, dim: int | None) -> TileMap:
        return tuple((*axes, PART) if d == dim else axes for d, axes in enumerate(cuts))

    def _with_part(self, op: Op) -> Op:
        """Return an op outside of loops on the block's part. (Where padding begins does not matter
        here.)"""
        if not isinstance(op, Source) or (dim := self._cut(op.result)) is None:
            return op
        return op.with_cuts(self._cut_map(op.cuts, dim))

    def _share(self, loop: Loop, known: dict[Value, Value]) -> Iterator[Op]:
        """Yield the loop with a part of its steps; its body, if that is one."""
        steps, axis = loop.axis.extent // self.blocks, loop.axis.name
        now = (PART,) if steps == 1 else (PART, axis)

        def moved(axes: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(b for a in axes for b in (now if a == axis else (a,)))

        body: list[Op] = []
        for op in loop.body:
            if steps == 1 and isinstance(op, Scan):
                known[op.result] = op.operands[0]
            elif isinstance(op, Source) and op.cuts:
                body.append(op.with_cuts(tuple(map(moved, op.cuts))))
            else:
                body.append(op.with_axes({axis: PART}) if steps == 1 else op)
        if steps > 1:
            yield replace(loop, axis=Axis(axis, steps), body=tuple(body))
            return
        yield from body
        for result, accumulator in zip(loop.results, loop.accumulators, strict=True):
            known[result] = known.get(accumulator.value, accumulator.value)


def _is_plain(op: Op) -> bool:
    """Return whether an op computes a part of its result from parts of its operands."""
    total = isinstance(op, Contraction) and len(op.operands) == 1
    return total or isinstance(op, Elementwise | View)


def _same_dims(op: Op) -> Iterator[tuple[_Dim, _Dim]]:
    """Yield the dimensions above 1 of an op's operands and those of its result with the same
    indices."""
    if not _is_plain(op):
        return
    result = op.result
    if isinstance(op, View):
        for to, dim in (op.source_dims() or {}).items():
            if op.operands[0].shape[dim] > 1:
                yield (op.operands[0], dim), (result, to)
        return
    summed = op.over[0] if isinstance(op, Contraction) else ()
    for operand in op.operands:
        beyond = len(result.shape) - len(operand.shape)
        for dim, size in enumerate(operand.shape):
            if size > 1 and dim not in summed:
                yield (operand, dim), (result, dim + beyond)
