"""Kernels cut inside: a launch as several, which store tiles that the one keeps to itself.

A kernel that does a whole layer is too much for one proof, but on the way it computes tiles of
values that the reference computes too. A tile that is a function of its position along the axes
that cut its dimensions is a tensor, cut into tiles: another launch can store it, and this one load
it at the place where it was computed. Nothing is approximated: the loaded tile is the one that was
there (``docs/verification.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from mirage.semantics.region import reshape_groups
from mirage.semantics.substitute import rename_block
from mirage.semantics.ugraph import (
    AccumulateFn,
    Axis,
    Binary,
    BlockGraph,
    Broadcast,
    Cast,
    Constant,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Mask,
    Matmul,
    Op,
    Output,
    Reduce,
    Reshape,
    RunningMax,
    Slice,
    TensorType,
    TileMap,
    Transpose,
    Unary,
    Value,
    axis_extents,
    launches,
)


@dataclass(frozen=True, eq=False)
class Site:
    """A tile inside of a launch that can be stored. ``tensor`` stands for all tiles together: its
    first dimensions count the steps of ``lead``, the others are the tile's, cut as ``map`` says.
    """

    launch: Launch
    value: Value
    lead: tuple[str, ...]
    map: TileMap
    tensor: Value

    @property
    def whole_map(self) -> TileMap:
        """The map of the tensor."""
        return (*((a,) for a in self.lead), *self.map)

    @property
    def tile(self) -> TensorType:
        """The tensor's tile."""
        return TensorType((1,) * len(self.lead) + self.value.shape, self.value.dtype)


def sites(graph: KernelGraph) -> list[Site]:
    """The tiles of all launches that can be stored, in the order in which they are computed."""
    return [s for op in launches(graph.ops) for s in _Labels(op).sites()]


def with_stores(graph: KernelGraph, chosen: Sequence[Site]) -> KernelGraph:
    """``graph`` with further launches that compute the tensors of ``chosen``; outputs as before."""
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Launch):
            ops.extend(_Cutter(op, ()).store(s) for s in chosen if s.launch is op)
        ops.append(op)
    return replace(graph, ops=tuple(ops))


def cut_at(graph: KernelGraph, chosen: Sequence[Site]) -> KernelGraph:
    """``graph`` with launches that store the tiles of ``chosen``, which all later ops load."""
    ops: list[Op] = []
    for op in graph.ops:
        if not isinstance(op, Launch):
            ops.append(op)
            continue
        mine = [s for s in chosen if s.launch is op]
        for number, site in enumerate(mine):
            ops.append(_Cutter(op, mine[:number]).store(site))
        ops.append(_Cutter(op, mine).rest() if mine else op)
    return replace(graph, ops=tuple(ops))


# ---- which tiles ----

_Label = tuple[tuple[str, ...], ...]
_ORDER = "steps before of "
"""Before the name of a loop's axis: the value depends on all steps up to the present one."""


class _Labels:
    """Of each tile the axes that cut its dimensions, and all axes that it depends on."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.extents = axis_extents(launch)
        self.labels: dict[Value, _Label | None] = {}
        self.depends: dict[Value, frozenset[str]] = {}
        self.found: list[Site] = []
        self._run(launch.body.ops, ())

    def sites(self) -> list[Site]:
        stored = {o.value for o in self.launch.body.outputs}
        return [s for s in self.found if s.value not in stored]

    def _run(self, ops: Iterable[Op], loops: tuple[Loop, ...]) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._run(op.body, (*loops, op))
                for a, result in zip(op.accumulators, op.results, strict=True):
                    axes = self.depends[a.value]
                    if a.rescale is not None:
                        axes |= self.depends[a.rescale]
                    label = self._same_in_all(op, self.labels[a.value])
                    last = a.fn is AccumulateFn.LAST
                    axes -= {op.axis.name, _ORDER + op.axis.name}
                    self._set(result, None if last else label, axes)
                continue
            for result in op.results:
                axes = frozenset[str]().union(*(self.depends.get(v, ()) for v in op.operands))
                axes |= op.reads_axes
                if isinstance(op, RunningMax):
                    label = self._same_in_all(loops[-1], self.labels[op.operands[0]])
                    axes |= {loops[-1].axis.name, _ORDER + loops[-1].axis.name}
                    self._set(result, label, axes, site=False)
                    continue
                self._set(result, self._label(op), axes, not isinstance(op, Load | Constant))

    def _same_in_all(self, loop: Loop, label: _Label | None) -> _Label | None:
        """None for tiles that are at another place in each step."""
        return None if label is None or any(loop.axis.name in dim for dim in label) else label

    def _set(
        self, value: Value, label: _Label | None, axes: frozenset[str], site: bool = True
    ) -> None:
        self.labels[value], self.depends[value] = label, axes
        if not site or any(a.startswith(_ORDER) for a in axes):
            return
        named = [] if label is None else [a for dim in label for a in dim]
        if label is None or len(set(named)) < len(named):
            named, label = [], ((),) * len(value.shape)
        lead = tuple(a for a in self.extents if a in axes and a not in named)
        parts = [prod(self.extents[a] for a in dim) for dim in label]
        own = (n * p for n, p in zip(value.shape, parts, strict=True))
        shape = (*(self.extents[a] for a in lead), *own)
        tensor = Value(TensorType(shape, value.dtype), value.name)
        self.found.append(Site(self.launch, value, lead, label, tensor))

    def _label(self, op: Op) -> _Label | None:
        labels = [self.labels.get(v) for v in op.operands]
        if isinstance(op, Load):
            return self._of_load(op)
        if any(x is None for x in labels):
            return None
        known = [x for x in labels if x is not None]
        rule = _RULES.get(type(op))
        return None if rule is None else rule(op, known)

    def _of_load(self, op: Load) -> _Label | None:
        """None where the last tile lies partly outside of the tensor."""
        tiles = zip(op.operands[0].shape, op.result.shape, op.map, strict=True)
        whole = all(n == t * prod(self.extents[a] for a in axes) for n, t, axes in tiles)
        return op.map if whole else None


def _alike(op: Op, labels: Sequence[_Label]) -> _Label | None:
    """Of elementwise ops: aligned at the end, as shapes are."""
    rank = len(op.result.shape)
    out: list[tuple[str, ...]] = []
    for dim in range(rank):
        here: set[tuple[str, ...]] = set()
        for v, label in zip(op.operands, labels, strict=True):
            own = dim - (rank - len(v.shape))
            if own < 0:
                continue
            if label[own]:
                here.add(label[own])
            elif v.shape[own] > 1:
                here.add(())
        if len(here) > 1:
            return None
        out.append(next(iter(here), ()))
    return tuple(out)


def _product(op: Matmul, labels: Sequence[_Label]) -> _Label | None:
    a, b = op.operands
    if labels[0][-1] != labels[1][-2]:
        return None
    lead = len(op.result.shape) - 2
    batch: list[tuple[str, ...]] = []
    for dim in range(lead):
        here: set[tuple[str, ...]] = set()
        for v, label in ((a, labels[0]), (b, labels[1])):
            own = dim - (lead + 2 - len(v.shape))
            if own >= 0 and (label[own] or v.shape[own] > 1):
                here.add(label[own])
        if len(here) > 1:
            return None
        batch.append(next(iter(here), ()))
    return (*batch, labels[0][-2], labels[1][-1])


def _reduced(op: Reduce, labels: Sequence[_Label]) -> _Label | None:
    (label,) = labels
    return tuple(() if d in op.dims else axes for d, axes in enumerate(label))


def _transposed(op: Transpose, labels: Sequence[_Label]) -> _Label | None:
    return tuple(labels[0][d] for d in op.permutation)


def _repeated(op: Broadcast, labels: Sequence[_Label]) -> _Label | None:
    (label,), (x,) = labels, op.operands
    missing = len(op.result.shape) - len(x.shape)
    own = zip(label, x.shape, op.result.shape[missing:], strict=True)
    if any(axes and n != m for axes, n, m in own):
        return None
    return ((),) * missing + label


def _reshaped(op: Reshape, labels: Sequence[_Label]) -> _Label | None:
    """Axes that cut the outermost dimension of a group cut that of the result too: the tiles of the
    whole follow each other."""
    (label,), (x,) = labels, op.operands
    out: list[tuple[str, ...]] = [()] * len(op.result.shape)
    for group in reshape_groups(x.shape, op.result.shape):
        cut = [d for d in group.operand if label[d]]
        if not cut:
            continue
        before = prod(x.shape[d] for d in group.operand if d < cut[0])
        if len(cut) > 1 or before > 1 or not group.result:
            return None
        out[group.result[0]] = label[cut[0]]
    return tuple(out)


def _sliced(op: Slice, labels: Sequence[_Label]) -> _Label | None:
    (label,), (x,) = labels, op.operands
    cut = zip(label, x.shape, op.result.shape, strict=True)
    return None if any(axes and n != m for axes, n, m in cut) else label


_RULES: dict[type[Op], Callable[..., _Label | None]] = {
    Unary: _alike,
    Binary: _alike,
    Cast: _alike,
    Mask: _alike,
    Constant: lambda op, labels: (),
    Matmul: _product,
    Reduce: _reduced,
    Transpose: _transposed,
    Broadcast: _repeated,
    Reshape: _reshaped,
    Slice: _sliced,
}

# ---- launches of their own ----


class _Cutter:
    """Writes launches that compute parts of ``launch``, in which the tiles of ``known`` sites are
    loaded."""

    def __init__(self, launch: Launch, known: Sequence[Site]) -> None:
        self.launch = launch
        self.loaded = {s.value: s for s in known}
        self.params = dict(zip(launch.body.params, launch.operands, strict=True))
        self.tensors: dict[Value, Value] = {}  # of each loaded tensor the param

    def store(self, site: Site) -> Launch:
        """The launch that stores a site's tensor: the axes that cut it are its grid."""
        ops = self._ops(self.launch.body.ops, {site.value}, open_=site.value)
        extents = axis_extents(self.launch)
        grid = tuple(Axis(a, extents[a]) for dim in site.whole_map for a in dim)
        value = site.value
        if site.lead:
            value = Value(site.tile)
            ops.append(Reshape((site.value,), (value,)))
        return self._launch(ops, grid, (Output(value, site.whole_map),), (site.tensor,))

    def rest(self) -> Launch:
        """The launch itself."""
        wanted = {o.value for o in self.launch.body.outputs}
        ops = self._ops(self.launch.body.ops, wanted, open_=None)
        body = self.launch.body
        return self._launch(ops, self.launch.grid, body.outputs, self.launch.results)

    def _launch(
        self,
        ops: Sequence[Op],
        grid: tuple[Axis, ...],
        outputs: tuple[Output, ...],
        results: tuple[Value, ...],
    ) -> Launch:
        read = {v for op in _deep(ops) for v in op.operands}
        own = {p: v for p, v in self.params.items() if p in read}
        own.update((p, t) for t, p in self.tensors.items() if p in read)
        # values of their own: the launch that these ops are from may stay beside
        names = {v: Value(v.type, v.name) for v in (*own, *_defined(ops))}
        body = rename_block(BlockGraph(tuple(own), tuple(ops), outputs), names)
        return Launch(tuple(own.values()), results, grid, body, self.launch.schedule)

    def _ops(self, ops: Sequence[Op], wanted: set[Value], open_: Value | None) -> list[Op]:
        """The ops that compute ``wanted`` values of this level. Where ``open_`` is computed inside
        of a loop, the loop's body takes its place: its axis belongs to the grid."""
        out: list[Op] = []
        for op in reversed(ops):
            if isinstance(op, Loop):
                if open_ is not None and any(open_ in o.results for o in _deep(op.body)):
                    out.extend(reversed(self._ops(op.body, wanted, open_)))
                    continue
                for r in op.results:
                    if r in wanted and r in self.loaded:
                        out.extend(self._load(r))
                if any(r in wanted and r not in self.loaded for r in op.results):
                    out.append(self._loop(op, wanted))
                continue
            if wanted.isdisjoint(op.results):
                continue
            if op.result in self.loaded:
                out.extend(self._load(op.result))
            else:
                out.append(op)
                wanted.update(op.operands)
        return out[::-1]

    def _load(self, value: Value) -> list[Op]:
        """The last op first."""
        site = self.loaded[value]
        if not site.lead:
            return [Load((self._param(site),), (value,), site.map)]
        tile = Value(site.tile)
        return [
            Reshape((tile,), (value,)), Load((self._param(site),), (tile,), site.whole_map)
        ]  # fmt: skip

    def _loop(self, op: Loop, wanted: set[Value]) -> Op:
        """A loop with those accumulators that are wanted and not loaded."""
        pairs = list(zip(op.accumulators, op.results, strict=True))
        kept = [(a, r) for a, r in pairs if r in wanted and r not in self.loaded]
        for a, _ in kept:
            wanted.add(a.value)
            if a.rescale is not None:
                wanted.add(a.rescale)
        body = self._ops(op.body, wanted, None)
        accumulators, results = zip(*kept, strict=True)
        return replace(op, body=tuple(body), accumulators=accumulators, results=results)

    def _param(self, site: Site) -> Value:
        return self.tensors.setdefault(site.tensor, Value(site.tensor.type))


def _deep(ops: Iterable[Op]) -> Iterator[Op]:
    for op in ops:
        yield op
        if isinstance(op, Loop):
            yield from _deep(op.body)


def _defined(ops: Iterable[Op]) -> Iterator[Value]:
    for op in _deep(ops):
        yield from op.results
