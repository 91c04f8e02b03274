"""The elements of a tile outside of its tensor, and whether anything depends on them.

Tiles that overhang their tensor are filled with zeros. The score of a key that does not exist is
then 0, which may be far above the real scores: the maximum must not see it, and its exponential
must not overflow. Both hold if the score is set to minus infinity there. That changes the value of
the exponential outside of the tensor (to 0), so it is allowed only where nothing depends on it: the
exponential is masked, or meets a factor that is zero there, before it is summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from mirage.semantics.scalar import ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Cumulation,
    Elementwise,
    Launch,
    Load,
    Loop,
    Mask,
    Matmul,
    Movement,
    Op,
    Reduce,
    Scan,
    Source,
    Value,
    View,
    Zeros,
    axis_extents,
    no_rule,
)

LOW = -1e30
"""A score that is no larger than this counts as absent: no maximum over real scores is as low."""


@dataclass(frozen=True)
class Pad:
    """A dimension whose elements from ``extent`` on, counted over the parts of ``axes``, are
    outside of the tensor.
    """

    axes: tuple[str, ...]
    extent: int


Pads = tuple[frozenset[Pad], ...]  # for each dimension
Taint = tuple[
    frozenset[tuple[Op, int, Pad]], ...
]  # for each dimension: (exponential, its dimension, padding)


class Padding:
    """The facts for one launch; ``unsafe`` lists the (exponential, dimension, padding) that
    something depends on.
    """

    def __init__(self, launch: Launch) -> None:
        self.extents = axis_extents(launch)
        self.pads: dict[Value, Pads] = {}
        self.zeros: dict[Value, Pads] = {}  # paddings in which the value is certainly zero
        self.low: dict[Value, Pads] = {}  # paddings in which the value cannot win a maximum
        self.taint: dict[Value, Taint] = {}
        self.unsafe: set[tuple[Op, int, Pad]] = set()
        self._run(launch.body.ops)
        for output, result in zip(launch.body.outputs, launch.results, strict=True):
            for dim, marks in enumerate(self._taint(output.value)):
                dropped = Pad(output.map[dim], result.shape[dim])
                self.unsafe.update(mark for mark in marks if mark[2] != dropped)

    def of(self, value: Value) -> Pads:
        """Return the paddings of each dimension."""
        return self.pads.get(value, (frozenset(),) * len(value.shape))

    def exposed(self, value: Value, dim: int) -> list[Pad]:
        """Return the paddings along ``dim`` in which the value may be anything, in a fixed
        order."""
        low = self.low.get(value, (frozenset(),) * len(value.shape))
        return sorted(self.of(value)[dim] - low[dim], key=lambda pad: (pad.axes, pad.extent))

    def _zeros(self, value: Value) -> Pads:
        return self.zeros.get(value, (frozenset(),) * len(value.shape))

    def _taint(self, value: Value) -> Taint:
        return self.taint.get(value, (frozenset(),) * len(value.shape))

    def _run(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._loop(op)
            elif isinstance(op, Load):
                self._load(op)
            elif isinstance(op, Matmul):
                self._matmul(op)
            elif isinstance(op, Reduce):
                self._reduce(op)
            elif isinstance(op, View) and op.whole:
                self._view(op)
            elif len(op.results) == 1:
                self._elementwise(op)

    def _load(self, op: Load) -> None:
        pads: list[frozenset[Pad]] = []
        for size, tile, axes in zip(op.operands[0].shape, op.result.shape, op.map, strict=True):
            overhangs = prod(self.extents[a] for a in axes) * tile > size
            pads.append(frozenset({Pad(axes, size)}) if overhangs else frozenset())
        self.pads[op.result] = self.zeros[op.result] = tuple(pads)

    def _elementwise(self, op: Op) -> None:
        rank, shape = len(op.result.shape), op.result.shape
        pads: list[set[Pad]] = [set() for _ in range(rank)]
        zeros: list[set[Pad]] = [set() for _ in range(rank)]
        taint: list[set[tuple[Op, int, Pad]]] = [set() for _ in range(rank)]
        for v in op.operands:
            lead = rank - len(v.shape)
            for d, n in enumerate(v.shape):
                if n != shape[lead + d]:  # repeated along the dimension
                    self.unsafe.update(self._taint(v)[d])
                    continue
                pads[lead + d] |= self.of(v)[d]
                taint[lead + d] |= self._taint(v)[d]
        for d in range(rank):
            zeros[d] = self._zeros_of(op, d)
            if isinstance(op, Mask) and d == op.dim:
                masked = Pad(op.axes, op.extent)
                taint[d] = {mark for mark in taint[d] if mark[2] != masked}
                zeros[d] = zeros[d] | {masked} if op.fill == 0.0 else zeros[d] - {masked}
            elif isinstance(op, Elementwise) and op.zeros is Zeros.ANY:
                taint[d] = {mark for mark in taint[d] if not self._other_is_zero(op, d, mark)}
        self._lowered(op)
        if op.function is UnaryFn.EXP:
            for d in range(rank):
                taint[d] |= {(op, d, pad) for pad in self.exposed(op.operands[0], d)}
        if not isinstance(op, Elementwise):
            if not isinstance(op, Source | Movement | Scan | Cumulation):
                no_rule(op, "the analysis of padding")
            for marks in taint:
                self.unsafe.update(marks)
        self.pads[op.result] = tuple(map(frozenset, pads))
        self.zeros[op.result] = tuple(map(frozenset, zeros))
        self.taint[op.result] = tuple(map(frozenset, taint))

    def _lowered(self, op: Op) -> None:
        if isinstance(op, Mask) and op.fill <= LOW:
            before = self.low.get(op.operands[0], (frozenset(),) * len(op.result.shape))
            self.low[op.result] = tuple(
                low | {Pad(op.axes, op.extent)} if d == op.dim else low
                for d, low in enumerate(before)
            )
        elif isinstance(op, Elementwise) and op.identity and op.operands[0] in self.low:
            self.low[op.result] = self.low[op.operands[0]]

    def _zeros_of(self, op: Op, dim: int) -> set[Pad]:
        rank = len(op.result.shape)
        known = [
            self._zeros(v)[dim - rank] if len(v.shape) >= rank - dim else frozenset[Pad]()
            for v in op.operands
        ]
        if not isinstance(op, Elementwise) or op.zeros is Zeros.NEVER:
            return set()
        both = frozenset.union if op.zeros is Zeros.ANY else frozenset.intersection
        return set(both(*known))

    def _other_is_zero(self, op: Op, dim: int, mark: tuple[Op, int, Pad]) -> bool:
        rank = len(op.result.shape)
        carriers = [
            v
            for v in op.operands
            if len(v.shape) >= rank - dim and mark in self._taint(v)[dim - rank]
        ]
        others = [v for v in op.operands if v not in carriers]
        return any(
            len(v.shape) >= rank - dim and mark[2] in self._zeros(v)[dim - rank] for v in others
        )

    def _matmul(self, op: Matmul) -> None:
        a, b = op.operands
        for x, k, y, other in ((a, -1, b, -2), (b, -2, a, -1)):
            self.unsafe.update(
                mark for mark in self._taint(x)[k] if mark[2] not in self._zeros(y)[other]
            )
        self.pads[op.result] = self._product(self.of(a), self.of(b), op)
        self.zeros[op.result] = self._product(self._zeros(a), self._zeros(b), op)
        taint_a, taint_b = self._taint(a), self._taint(b)
        self.taint[op.result] = (
            *(frozenset[tuple[Op, int, Pad]]() for _ in op.result.shape[:-2]),
            taint_a[-2],
            taint_b[-1],
        )
        for marks in (*taint_a[:-2], *taint_b[:-2]):
            self.unsafe.update(marks)

    def _product(self, a: Pads, b: Pads, op: Matmul) -> Pads:
        lead: list[frozenset[Pad]] = []
        rank = len(op.result.shape)
        for d in range(rank - 2):
            both = [x[d - rank] for x in (a, b) if len(x) >= rank - d]
            lead.append(frozenset().union(*both))
        return (*lead, a[-2], b[-1])

    def _reduce(self, op: Reduce) -> None:
        (x,) = op.operands
        for d in op.dims:
            self.unsafe.update(self._taint(x)[d])
        kept_zeros = op.fn in (ReduceFn.SUM, ReduceFn.MAX)
        none: frozenset[Pad] = frozenset()
        self.pads[op.result] = tuple(none if d in op.dims else p for d, p in enumerate(self.of(x)))
        self.zeros[op.result] = tuple(
            none if d in op.dims or not kept_zeros else p for d, p in enumerate(self._zeros(x))
        )
        self.taint[op.result] = tuple(
            frozenset() if d in op.dims else t for d, t in enumerate(self._taint(x))
        )

    def _view(self, op: View) -> None:
        (x,) = op.operands
        source = op.source_dims() or {}
        for d, marks in enumerate(self._taint(x)):
            if d not in source.values():
                self.unsafe.update(marks)
        dims = range(len(op.result.shape))
        self.pads[op.result] = tuple(
            self.of(x)[source[d]] if d in source else frozenset() for d in dims
        )
        self.zeros[op.result] = tuple(
            self._zeros(x)[source[d]] if d in source else frozenset() for d in dims
        )
        self.taint[op.result] = tuple(
            self._taint(x)[source[d]] if d in source else frozenset() for d in dims
        )

    def _loop(self, op: Loop) -> None:
        self._run(op.body)
        for accumulator, result in zip(op.accumulators, op.results, strict=True):
            v = accumulator.value
            self.pads[result] = self._without(self.of(v), op.axis.name)
            self.zeros[result] = self._without(self._zeros(v), op.axis.name)
            taint: list[frozenset[tuple[Op, int, Pad]]] = []
            for marks in self._taint(v):
                inside = {mark for mark in marks if op.axis.name in mark[2].axes}
                self.unsafe.update(inside)
                taint.append(marks - inside)
            self.taint[result] = tuple(taint)

    @staticmethod
    def _without(pads: Pads, axis: str) -> Pads:
        return tuple(frozenset(p for p in per_dim if axis not in p.axes) for per_dim in pads)


def unsafe_paddings(padding: Padding, exp: Op, dims: tuple[int, ...]) -> list[Pad]:
    """Return the paddings along ``dims`` of the argument of ``exp`` that cannot become minus
    infinity."""
    return [
        pad
        for d in dims
        for pad in padding.exposed(exp.operands[0], d)
        if (exp, d, pad) in padding.unsafe
    ]
