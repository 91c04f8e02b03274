"""Positions, gathered rows and arithmetic on integers at the block level, as loads of tensors.

:class:`TileIota`, :class:`TileGather` and :class:`TileIntegers` stand for the elements that a load
reads of a kernel-level lookup. :func:`loaded` rewrites them as that load; they are evaluated and
verified in this form, which is the only definition of their meaning.
"""

from __future__ import annotations

from dataclasses import replace

from mirage.semantics.integers import Integers, TileIntegers
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.positions import Gather, Iota, TileGather, TileIota, gathered
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    BlockGraph,
    KernelGraph,
    Launch,
    Load,
    Structure,
    all_ops,
)


def loaded(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with launches that load positions and gathered rows."""
    ops: list[Op] = []
    changed = False
    for op in graph.ops:
        if isinstance(op, Launch) and any(
            isinstance(inner, TileIota | TileGather | TileIntegers)
            for inner in all_ops(op.body.ops)
        ):
            lookups, op = _Loaded(op).run()
            ops.extend(lookups)
            changed = True
        ops.append(op)
    return replace(graph, ops=tuple(ops)) if changed else graph


class _Loaded:
    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.outside = dict(zip(launch.body.params, launch.operands, strict=True))
        self.lookups: list[Op] = []
        self.params: list[Value] = []
        self.loaded: list[Value] = []  # the tensors that they are loaded from

    def run(self) -> tuple[list[Op], Launch]:
        launch, body = self.launch, self.launch.body
        ops = tuple(map(self._op, body.ops))
        read = {v for op in all_ops(ops) if isinstance(op, Load | Structure) for v in op.operands}
        kept = [p for p in body.params if p in read]
        operands = (*(self.outside[p] for p in kept), *self.loaded)
        graph = BlockGraph((*kept, *self.params), ops, body.outputs)
        return self.lookups, replace(launch, operands=operands, body=graph)

    def _op(self, op: Op) -> Op:
        if isinstance(op, Structure):
            return op.rebuilt(tuple(map(self._op, op.inside)), lambda v: v)
        if isinstance(op, TileIota):
            shape = tuple(op.extent if d == op.dim else n for d, n in enumerate(op.result.shape))
            tensor = Value(TensorType(shape, DType.I64))
            self.lookups.append(Iota((), (tensor,), op.dim))
            tile_map = tuple(op.axes if d == op.dim else () for d in range(len(shape)))
        elif isinstance(op, TileGather):
            table, indices = (self.outside[p] for p in op.operands)
            tensor = Value(gathered(table, indices))
            self.lookups.append(Gather((table, indices), (tensor,), op.from_end))
            tile_map = op.map
        elif isinstance(op, TileIntegers):
            formula, along = op.formula.with_loads()
            operands = [self.outside[p] for p in op.operands]
            for dim in along:
                operands.append(Value(TensorType((op.shape[dim],), DType.I64)))
                self.lookups.append(Iota((), (operands[-1],), 0))
            tensor = Value(op.computed)
            self.lookups.append(Integers(tuple(operands), (tensor,), formula))
            tile_map = op.map
        else:
            return op
        param = Value(tensor.type)
        self.params.append(param)
        self.loaded.append(tensor)
        return Load((param,), op.results, tile_map)
