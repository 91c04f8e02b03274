"""Kernels that store directly into inputs that the program updates.

A decoder writes new keys and values into its caches: ``cache.index_copy_(2, position, keys)``. This
is a call of PyTorch between two parts of the program, unless the kernel that computes the row
stores it into the cache itself, at the row that it reads from the index when it runs. It does so if

1. the call may write in place (:mod:`mirage.pipeline.make_plan`) to an input of the program, at one
   index, a row that a launch computes and nothing else reads, and
2. from the part of that launch to the call nothing else accesses the memory of that input, since
   the store happens that much earlier, and
3. the index is known before the part, and
4. each tile of the row is contiguous in the cache.

The part then ends with an :class:`~mirage.semantics.row_updates.IndexCopy`, which has the meaning
of the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from mirage.pipeline.make_plan import Pieces, numbered_pieces
from mirage.runtime.dispatch.plan import Call
from mirage.semantics.indexing.strides import Digits
from mirage.semantics.ops.op import Op
from mirage.semantics.row_updates import IndexCopy, RowPart, names_of, place_of, row_parts
from mirage.semantics.ugraph import (
    External,
    KernelGraph,
    Value,
    axis_extents,
    launches,
)
from mirage.semantics.ugraph import Launch as Kernel

CALLS = ("aten.index_copy", "aten.index_copy.default")


def stored_by_kernels(
    graph: KernelGraph, pieces: Sequence[External | KernelGraph], updates: Sequence[int]
) -> list[External | KernelGraph]:
    """Return the ``pieces`` of a program with stores made by the kernels that compute the stored
    rows, where possible. The program's first outputs are the new values of the inputs ``updates``.
    """
    if not any(_is_store(piece) for piece in pieces):
        return list(pieces)
    return _Stores(graph, numbered_pieces(graph, pieces, updates)).pieces()


def _is_store(piece: External | KernelGraph) -> bool:
    return not isinstance(piece, KernelGraph) and piece.target in CALLS


@dataclass(frozen=True)
class _Store:
    """The store of call number ``call``, made by part number ``part``."""

    part: int
    call: int
    copy: IndexCopy


class _Stores:
    def __init__(self, graph: KernelGraph, numbered: Pieces) -> None:
        self.graph, self.numbered = graph, numbered
        self.given = list(numbered.pieces)
        self.made: dict[Value, int] = dict.fromkeys(graph.inputs, -1)
        self.reads = Counter(graph.outputs)
        for number, piece in enumerate(self.given):
            self.made.update(dict.fromkeys(_results(piece), number))
            self.reads.update(_operands(piece))

    def pieces(self) -> list[External | KernelGraph]:
        """Return the remaining pieces."""
        found = list(self.given)
        gone: set[int] = set()
        for number in range(len(self.given)):
            store = self._store(number)
            if store is None:
                continue
            part = found[store.part]
            assert isinstance(part, KernelGraph)
            found[store.part] = _with_store(part, store.copy)
            gone.add(number)
        return [piece for number, piece in enumerate(found) if number not in gone]

    def _store(self, number: int) -> _Store | None:
        """Return the store of one piece, if it is a call whose store a kernel can make."""
        call, step = self.given[number], self.numbered.plan.steps[number]
        if isinstance(call, KernelGraph) or not isinstance(step, Call):
            return None
        if not _is_store(call) or not step.in_place or call.seen_as:
            return None
        tensor, index, row = call.operands
        part = self.made[row]
        made = self.given[part] if part >= 0 else None
        if tensor not in self.graph.inputs or not isinstance(made, KernelGraph):
            return None
        dim = dict(call.arguments)["dim"]
        assert isinstance(dim, int)
        copy = IndexCopy((tensor, index, row), call.results, dim % max(len(tensor.shape), 1))
        alone = self.reads[row] == 1 and self.made[index] < part and tensor is not index
        if index.type.size != 1 or not alone or not _is_placed(made, copy):
            return None
        (root,) = self.numbered.roots[step.operands[0]]
        between = self.numbered.plan.steps[part:number]
        if any(root in self.numbered.roots[v] for s in between for v in s.operands):
            return None
        return _Store(part, number, copy)


def _results(piece: External | KernelGraph) -> Sequence[Value]:
    return piece.outputs if isinstance(piece, KernelGraph) else piece.results


def _operands(piece: External | KernelGraph) -> Sequence[Value]:
    return piece.inputs if isinstance(piece, KernelGraph) else piece.operands


def _with_store(part: KernelGraph, copy: IndexCopy) -> KernelGraph:
    """Append the store to ``part``; the updated values are its last outputs."""
    tensor, index, row = copy.operands
    inputs = (*part.inputs, *(v for v in (tensor, index) if v not in part.inputs))
    outputs = (*(v for v in part.outputs if v is not row), copy.result)
    return replace(part, inputs=inputs, ops=(*part.ops, copy), outputs=outputs)


def _is_placed(part: KernelGraph, copy: IndexCopy) -> bool:
    """Return whether launches of the part, possibly in concatenated parts, compute the row and can
    store it, and whether nothing else reads it."""
    made: dict[Value, Op] = {v: op for op in part.ops for v in op.results}
    uses = Counter(v for op in part.ops for v in op.operands)
    uses.update(part.outputs)
    parts = row_parts(copy, made)
    names = {v for x in (copy.operands[2], *(p.value for p in parts)) for v in names_of(x, made)}
    once = len({p.computed for p in parts}) == len(parts) and all(uses[v] == 1 for v in names)
    return once and all(_launch_stores(copy, p, made.get(p.computed)) for p in parts)


def _launch_stores(copy: IndexCopy, part: RowPart, op: Op | None) -> bool:
    launch = None if op is None else next(launches((op,)), None)
    if launch is None or part.value.dtype is not copy.operands[0].dtype:
        return False
    return _tiles_are_whole(launch, launch.results.index(part.computed), place_of(part))


def _tiles_are_whole(launch: Kernel, number: int, place: Digits | None) -> bool:
    """Return whether each tile of a result is contiguous where the row is stored."""
    if place is None:
        return False
    if all(count == 1 for count in place.counts):
        return True
    output, extents = launch.body.outputs[number], axis_extents(launch)
    last = 0
    for dim, count in enumerate(place.counts):
        last += count
        tile, size = output.value.shape[dim], launch.results[number].shape[dim]
        if prod(extents[axis] for axis in output.map[dim]) * tile != size:
            return False
        if count > 1 and place.shape[last - 1] % tile:
            return False
    return True
