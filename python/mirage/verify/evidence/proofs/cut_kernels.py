"""Kernels cut into several launches, which store tiles that the original does not store.

A kernel that computes a whole layer is too much for one proof, but on the way it computes tiles of
values that the reference computes too. A tile that is a function of its position along the axes
that cut its dimensions is a tensor cut into tiles: another launch can store that tensor, and this
launch can load the tile at the place where it was computed. Nothing is approximated: the loaded
tile equals the computed one wherever it matters. (``docs/verification.md`` has the argument; the
part of the last tile past the end of a tensor is lost if nothing that is stored depends on it.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from mirage.semantics.substitute import rename_block
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Op,
    Output,
    Reshape,
    TensorType,
    TileMap,
    Value,
    axis_extents,
    launches,
)
from mirage.verify.evidence.proofs.tile_places import WHOLE, Places


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
        """The tile map of the tensor."""
        return (*((a,) for a in self.lead), *self.map)

    @property
    def tile(self) -> TensorType:
        """The type of the tensor's tile."""
        return TensorType((1,) * len(self.lead) + self.value.shape, self.value.dtype)


def sites(graph: KernelGraph) -> list[Site]:
    """Return the tiles of all launches that can be stored, in the order in which they are
    computed."""
    return [s for op in launches(graph.ops) for s in _sites_of(op)]


def with_stores(graph: KernelGraph, chosen: Sequence[Site]) -> KernelGraph:
    """Add launches to ``graph`` that compute the tensors of ``chosen``; the outputs stay the
    same."""
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Launch):
            ops.extend(_Cutter(op, ()).store(s) for s in chosen if s.launch is op)
        ops.append(op)
    return replace(graph, ops=tuple(ops))


def cut_at(graph: KernelGraph, chosen: Sequence[Site]) -> KernelGraph:
    """Add launches to ``graph`` that store the tiles of ``chosen``, which all later ops load."""
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


def _sites_of(launch: Launch) -> Iterator[Site]:
    places = Places(launch)
    stored = {o.value for o in launch.body.outputs}
    for value in places.storable:
        if value in stored:
            continue
        label = places.labels[value]
        named = [] if label is None else [a for cut in label for a in cut.axes]
        if label is None or len(set(named)) < len(named) or not places.may_end(value):
            named, label = [], (WHOLE,) * len(value.shape)
        extents = places.extents
        lead = tuple(a for a in extents if a in places.depends[value] and a not in named)
        own = zip(value.shape, label, strict=True)
        sizes = (cut.end or n * prod(extents[a] for a in cut.axes) for n, cut in own)
        tensor = TensorType((*(extents[a] for a in lead), *sizes), value.dtype)
        cuts = tuple(cut.axes for cut in label)
        yield Site(launch, value, lead, cuts, Value(tensor, value.name))


# ---- launches of their own ----


class _Cutter:
    """Writes launches that compute parts of ``launch`` and load the tiles of ``known`` sites."""

    def __init__(self, launch: Launch, known: Sequence[Site]) -> None:
        self.launch = launch
        self.loaded = {s.value: s for s in known}
        self.params = dict(zip(launch.body.params, launch.operands, strict=True))
        self.tensors: dict[Value, Value] = {}  # the param of each loaded tensor

    def store(self, site: Site) -> Launch:
        """Return the launch that stores a site's tensor; the axes that cut the tensor are its
        grid."""
        ops = self._ops(self.launch.body.ops, {site.value}, open_=site.value)
        extents = axis_extents(self.launch)
        grid = tuple(Axis(a, extents[a]) for dim in site.whole_map for a in dim)
        value = site.value
        if site.lead:
            value = Value(site.tile)
            ops.append(Reshape((site.value,), (value,)))
        return self._launch(ops, grid, (Output(value, site.whole_map),), (site.tensor,))

    def rest(self) -> Launch:
        """Return the launch itself, with the known tiles loaded."""
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
        # new values, since the launch with the original ops may remain
        names = {v: Value(v.type, v.name) for v in (*own, *_defined(ops))}
        body = rename_block(BlockGraph(tuple(own), tuple(ops), outputs), names)
        return Launch(tuple(own.values()), results, grid, body, self.launch.schedule)

    def _ops(self, ops: Sequence[Op], wanted: set[Value], open_: Value | None) -> list[Op]:
        """Return the ops that compute the ``wanted`` values of this level. If ``open_`` is computed
        inside of a loop, the loop's body takes its place: its axis belongs to the grid."""
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
        """Return the ops that load a value's tile, the last op first."""
        site = self.loaded[value]
        if not site.lead:
            return [Load((self._param(site),), (value,), site.map)]
        tile = Value(site.tile)
        return [
            Reshape((tile,), (value,)), Load((self._param(site),), (tile,), site.whole_map)
        ]  # fmt: skip

    def _loop(self, op: Loop, wanted: set[Value]) -> Op:
        """Return a loop with only the accumulators that are wanted and not loaded."""
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
