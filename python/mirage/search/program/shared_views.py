"""Views of tensors: each exists once, and kernels write and read directly through the same
tensor."""

from __future__ import annotations

from mirage.semantics.region import reshape_groups
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Slice, Value

Shape = tuple[int, ...]


def without_round_trips(graph: KernelGraph) -> tuple[KernelGraph, dict[Value, Value]]:
    """Return ``graph`` with every reshape of a reshape taken from the first tensor, without
    reshapes that restore that tensor's shape or that nothing reads; and the first tensor of each
    reshape."""
    roots: dict[Value, Value] = {}
    names: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        operands = tuple(names.get(v, v) for v in op.operands)
        if op.renames:
            root = roots.get(operands[0], operands[0])
            roots[op.result] = root
            operands = (root,)
            if root.shape == op.result.shape and op.result not in graph.outputs:
                names[op.result] = root
                continue
        ops.append(with_operands(op, operands))
    read = {*graph.outputs, *(v for op in ops for v in op.operands)}
    kept = tuple(op for op in ops if not op.renames or op.result in read)
    return KernelGraph(graph.name, graph.inputs, kept, graph.outputs), roots


def each_view_once(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with one op for each part and shape of a value: parts of parts are taken
    from the whole, and reshapes of reshapes from the first tensor. Return the same object if that
    is already so. Results for the caller are not merged."""
    known: dict[tuple[object, ...], Value] = {}
    same: dict[Value, Value] = {}
    views: dict[Value, Op] = {}
    ops: list[Op] = []
    for op in graph.ops:
        operands = tuple(same.get(v, v) for v in op.operands)
        new = with_operands(op, operands)
        if new.renames or new.cut_at is not None:
            new = views[op.result] = _from_first(new, views.get(new.operands[0]))
            key = (new.operands, new.result.type, new.cut_at)
            first = known.setdefault(key, op.result)
            if op.result not in graph.outputs and first is not op.result:
                same[op.result] = first
                continue
        ops.append(new)
    if all(a is b for a, b in zip(ops, graph.ops, strict=False)) and not same:
        return graph
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs))


def _from_first(op: Op, source: Op | None) -> Op:
    """Replace a view of a view of the same kind by a view of the first value."""
    if source is None or source.renames is not op.renames:
        return op
    inner, outer = source.cut_at, op.cut_at
    if inner is None or outer is None:
        return with_operands(op, source.operands)
    offsets = tuple(a + b for a, b in zip(inner, outer, strict=True))
    return Slice(source.operands, op.results, offsets)


def repeated_shape(shape: Shape, outer: Shape, inner: Shape) -> Shape | None:
    """Return the shape of a tensor, repeated to ``outer``, in which it is repeated to ``inner``,
    the same in another shape; None if some dimensions are repeated and others are not."""
    padded = (1,) * (len(outer) - len(shape)) + shape
    found = list(inner)
    for group in reshape_groups(inner, outer):
        own = [padded[d] for d in group.result]
        if own != [outer[d] for d in group.result]:
            if any(n != 1 for n in own):
                return None
            for d in group.operand:
                found[d] = 1
    return tuple(found)
