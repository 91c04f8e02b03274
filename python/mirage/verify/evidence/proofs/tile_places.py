"""The places of a launch's tiles in the tensors that they are part of, and whether the elements
past the ends of those tensors matter.

Tiles of 16 cut 17 rows into two: 15 rows of the second tile lie outside of the tensor. Loads fill
them with zeros, ops compute with them, and stores drop them. If each op on the way keeps rows
apart, or a mask overwrites them before rows meet, nothing that is stored depends on them
(``docs/verification.md`` has the argument).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from mirage.semantics.region import reshape_groups
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Contraction,
    Cumulation,
    Elementwise,
    Launch,
    Load,
    Loop,
    Mask,
    Matmul,
    Op,
    Reduce,
    RunningMax,
    Source,
    Value,
    View,
    axis_extents,
    no_rule,
)


@dataclass(frozen=True)
class Cut:
    """The axes that cut a dimension into tiles, outermost first. ``end`` is the tensor's size if
    the tiles go past it, None if they end together."""

    axes: tuple[str, ...] = ()
    end: int | None = None


WHOLE = Cut()
Label = tuple[Cut, ...]
_Axes = tuple[str, ...]
_T = TypeVar("_T")
_Rule = Callable[..., "Label | None"]
"""A function that returns where a result lies, given the places of the operands, all of which are
known."""
_ORDER = "steps before of "
"""The prefix of a loop axis's name if the value depends on all steps up to the present one."""


class Places:
    """For each tile in a launch, the cuts of its dimensions (None if they are not known) and all
    axes that it depends on. ``storable`` are the tiles that are functions of a position alone."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.extents = axis_extents(launch)
        self.labels: dict[Value, Label | None] = {}
        self.depends: dict[Value, frozenset[str]] = {}
        self.storable: list[Value] = []
        self._run(launch.body.ops, ())
        self._matter: dict[Value, set[_Axes]] = {v: set() for v in self.labels}
        self._stored()
        self._back(launch.body.ops)

    def may_end(self, value: Value) -> bool:
        """Return whether nothing that the launch stores depends on the elements of a tile past the
        end of its tensor. The tile's cuts are known."""
        return self._ends(value).isdisjoint(self._matter[value])

    # ---- labels ----

    def _run(self, ops: Iterable[Op], loops: tuple[Loop, ...]) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._run(op.body, (*loops, op))
                for a, result in zip(op.accumulators, op.results, strict=True):
                    axes = self.depends[a.value]
                    if a.rescale is not None:
                        axes |= self.depends[a.rescale]
                    axes -= {op.axis.name, _ORDER + op.axis.name}
                    self._set(result, self._accumulated(op, a), axes)
                continue
            for result in op.results:
                axes = frozenset[str]().union(*(self.depends.get(v, ()) for v in op.operands))
                axes |= op.reads_axes
                if isinstance(op, RunningMax):
                    label = self._same_in_all(loops[-1], self.labels[op.operands[0]])
                    axes |= {loops[-1].axis.name, _ORDER + loops[-1].axis.name}
                    self._set(result, label, axes, site=False)
                    continue
                self._set(result, self._label(op), axes, not isinstance(op, Source))

    def _accumulated(self, loop: Loop, a: Accumulator) -> Label | None:
        """Return the cuts after a loop: a dimension that the loop runs along becomes the tile's
        own, since the elements of all steps are combined."""
        label = self.labels[a.value]
        if label is None or a.fn is AccumulateFn.LAST:
            return None
        return tuple(WHOLE if loop.axis.name in cut.axes else cut for cut in label)

    def _same_in_all(self, loop: Loop, label: Label | None) -> Label | None:
        """Return the cuts of a tile if its place is the same in each step, else None."""
        return None if label is None or any(loop.axis.name in c.axes for c in label) else label

    def _set(
        self, value: Value, label: Label | None, axes: frozenset[str], site: bool = True
    ) -> None:
        self.labels[value], self.depends[value] = label, axes
        if site and not any(a.startswith(_ORDER) for a in axes):
            self.storable.append(value)

    def _label(self, op: Op) -> Label | None:
        if isinstance(op, Load):
            return self._of_load(op)
        rule = _rule_of(op)
        if rule is None:
            no_rule(op, "places of tiles")
            return None
        known = [x for v in op.operands if (x := self.labels.get(v)) is not None]
        return rule(op, known) if len(known) == len(op.operands) else None

    def _of_load(self, op: Load) -> Label | None:
        """Return the cuts of a loaded tile. None if it covers only a part of a tensor, or more than
        the tensor without an axis that says where."""
        label: list[Cut] = []
        for n, t, axes in zip(op.operands[0].shape, op.result.shape, op.map, strict=True):
            every = t * prod(self.extents[a] for a in axes)
            if n > every or (n < every and not axes):
                return None
            label.append(Cut(axes, None if n == every else n))
        return tuple(label)

    # ---- elements past the ends ----

    def _ends(self, value: Value) -> set[_Axes]:
        """Return the axes whose tiles go past the end."""
        return {c.axes for c in self.labels[value] or () if c.end is not None}

    def _stored(self) -> None:
        """Propagate from the stores: a store with the tile's map drops the elements past the
        end."""
        outputs = zip(self.launch.body.outputs, self.launch.results, strict=True)
        for output, result in outputs:
            label = self.labels[output.value] or ()
            for cut, axes, size in zip(label, output.map, result.shape, strict=False):
                if cut.end is not None and (cut.axes != axes or cut.end != size):
                    self._matter[output.value].add(cut.axes)

    def _back(self, ops: Sequence[Op]) -> None:
        for op in reversed(ops):
            if not isinstance(op, Loop):
                for v in op.operands:
                    if v in self.labels:  # otherwise a param
                        self._matter[v] |= self._through(op, v, op.result)
                continue
            for a, result in zip(op.accumulators, op.results, strict=True):
                self._matter[a.value] |= self._through(op, a.value, result)
                if a.rescale is not None:
                    self._matter[a.rescale] |= self._rescaling(op, a.rescale, result)
            self._back(op.body)

    def _through(self, op: Op, value: Value, result: Value) -> set[_Axes]:
        """Return the axes for which the operand's elements past the end matter to the result of
        ``op``."""
        label, ends, after = self.labels[value], self._ends(value), self.labels[result]
        if label is None or after is None or not ends:
            return ends
        matter = (ends - self._ends(result)) | (ends & self._matter[result])
        if isinstance(op, Contraction):  # elements meet
            for v, dims in zip(op.operands, op.over, strict=True):
                matter |= ends & {label[d].axes for d in dims} if v is value else set()
        return matter - _overwritten(op, label) if isinstance(op, Mask) else matter

    def _rescaling(self, loop: Loop, value: Value, result: Value) -> set[_Axes]:
        """Return these axes for the factor that rescales an accumulator: all of its axes if its
        rows are cut differently."""
        label, after = self.labels[value] or (), self.labels[result] or ()
        pairs = zip(label[::-1], after[::-1], strict=False)
        if any(cut not in (WHOLE, other) for cut, other in pairs):
            return self._ends(value)
        return self._through(loop, value, result)


# ---- rules ----


def _rule_of(op: Op) -> _Rule | None:
    match op:
        case Elementwise():
            return _alike
        case Matmul():
            return _product
        case Reduce():
            return _reduced
        case Cumulation():
            return _so_far
        case View():
            return _reshaped if op.renames else _viewed
        case Source():
            return _made
        case _:
            return None if op.joined_along is None else _joined


def _made(op: Source, labels: Sequence[Label]) -> Label | None:
    """A number is the same everywhere; for other values without operands, places are not
    determined."""
    return None if op.number is None else (WHOLE,) * len(op.result.shape)


def _alike(op: Op, labels: Sequence[Label]) -> Label | None:
    """Return the cuts of an elementwise op's result; operands are aligned at the end, as shapes
    are."""
    return _aligned(op.result.shape, [(v.shape, x) for v, x in zip(op.operands, labels)])


def _product(op: Matmul, labels: Sequence[Label]) -> Label | None:
    shapes = [v.shape[:-2] for v in op.operands]
    batch = _aligned(op.result.shape[:-2], [(s, x[:-2]) for s, x in zip(shapes, labels)])
    return None if batch is None else (*batch, labels[0][-2], labels[1][-1])


def _aligned(
    shape: tuple[int, ...], operands: Sequence[tuple[tuple[int, ...], Label]]
) -> Label | None:
    """Return the cuts of the dimensions in which operands of these shapes and cuts meet. If they
    are cut in several ways, none of which goes past the tensor's end, no cut need be kept: axes
    that cut no dimension count tiles."""
    out: list[Cut] = []
    for back in range(len(shape), 0, -1):
        here: set[Cut] = set()
        for own, label in operands:
            if back > len(own):
                continue
            if own[-back] == shape[-back]:
                here |= {label[-back]} - ({WHOLE} if own[-back] == 1 else set())
            elif label[-back].end is not None:
                return None
        ends = [cut for cut in here if cut.end is not None]
        if len(ends) > 1:
            return None
        out.append(ends[0] if ends else here.pop() if len(here) == 1 else WHOLE)
    return tuple(out)


def _reduced(op: Reduce, labels: Sequence[Label]) -> Label | None:
    (label,) = labels
    return tuple(WHOLE if d in op.dims else cut for d, cut in enumerate(label))


def _so_far(op: Cumulation, labels: Sequence[Label]) -> Label | None:
    """A tile has all earlier elements only along a dimension that is not cut."""
    (label,) = labels
    return label if label[op.along] == WHOLE else None


def _viewed(op: View, labels: Sequence[Label]) -> Label | None:
    """A dimension that has all indices of a dimension of the operand is cut in the same way; the
    operand's other dimensions must not be cut."""
    (label,), (x,), source = labels, op.operands, op.source_dims()
    if source is None:
        return None
    shape = op.result.shape
    kept = {d: s for d, s in source.items() if shape[d] == x.shape[s]}
    if any(cut != WHOLE and s not in kept.values() for s, cut in enumerate(label)):
        return None
    return tuple(label[kept[d]] if d in kept else WHOLE for d in range(len(shape)))


def _reshaped(op: View, labels: Sequence[Label]) -> Label | None:
    """Axes that cut the outermost dimension of a group also cut that of the result, because the
    tiles of the whole group follow each other. This does not include the dimensions of size 1
    around it: their cuts that go past no end need not be kept (see :func:`_aligned`)."""
    (label,), (x,) = labels, op.operands
    shape = op.result.shape
    out = [WHOLE] * len(shape)
    for group in reshape_groups(x.shape, shape):
        cut = [d for d in group.operand if label[d] != WHOLE]
        long = [d for d in cut if x.shape[d] > 1 or label[d].end is not None]
        if len(cut) > 1:
            cut = long
        if not cut:
            continue
        before = prod(x.shape[d] for d in group.operand if d < cut[0])
        if len(cut) > 1 or before > 1 or not group.result:
            if long:
                return None
            continue
        # ones before the elements of a tile stay whole
        first = next((d for d in group.result if long and shape[d] > 1), group.result[0])
        end = label[cut[0]].end
        if end is not None:
            end *= prod(x.shape[d] for d in group.operand if d > cut[0])
            end, rest = divmod(end, prod(shape[d] for d in group.result if d > first))
            if rest:
                return None
        out[first] = Cut(label[cut[0]].axes, end)
    return tuple(out)


def _joined(op: Op, labels: Sequence[Label]) -> Label | None:
    """Tiles are aligned in all dimensions except the one along which they are joined; none is cut
    along that one."""
    dim = op.joined_along
    if dim is None or any(label[dim] != WHOLE for label in labels):
        return None
    operands = [
        (_without(v.shape, dim), _without(label, dim)) for v, label in zip(op.operands, labels)
    ]
    label = _aligned(_without(op.result.shape, dim), operands)
    return None if label is None else (*label[:dim], WHOLE, *label[dim:])


def _without(xs: tuple[_T, ...], dim: int) -> tuple[_T, ...]:
    return (*xs[:dim], *xs[dim + 1 :])


def _overwritten(op: Mask, label: Label) -> set[_Axes]:
    """Return the axes past whose end the mask overwrites everything: these are the axes by which it
    counts, if it does not end later."""
    cut = label[op.dim]
    alone = sum(c.axes == cut.axes for c in label) == 1
    ends = cut.end is not None and op.extent <= cut.end
    return {cut.axes} if alone and ends and cut.axes == op.axes else set()
