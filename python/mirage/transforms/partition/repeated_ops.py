"""Results that a program computes twice: its compiler merges equal kernels, so that two outputs
would be one tensor.

An op that repeats an earlier one is left out, and its readers read the earlier result. If the
program returns both, PyTorch makes the second one as a copy: the two may not share memory.
"""

from __future__ import annotations

from mirage.semantics.signature import signature
from mirage.semantics.substitute import rename_graph, with_operands, without_dead_ops
from mirage.semantics.ugraph import Boundary, External, KernelGraph, Op, Source, Value, View


def without_repeated_ops(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with each op of kernels once; the graph itself if none occurs twice."""
    repeats = _repeats(graph)
    if not repeats:
        return graph
    returned = _returned(graph)
    names: dict[Value, Value] = {}  # results that are returned only as one of their repeats
    copied: set[Value] = set()
    for value, first in repeats.items():
        if value in returned:
            alone = first not in returned and first not in names
            copied.update(() if alone else (value,))
            names.update({first: value} if alone else {})
    ops: list[Op] = []
    for op in graph.ops:
        if op.results and op.results[0] in repeats:
            ops += [_copy(repeats[v], v) for v in op.results if v in copied]
            continue
        own = copied if isinstance(op, View) else ()  # a view of a copy, like the program's result
        operands = tuple(v if v in own else repeats.get(v, v) for v in op.operands)
        ops.append(with_operands(op, operands))
    outputs = tuple(v if v in copied else repeats.get(v, v) for v in graph.outputs)
    once = KernelGraph(graph.name, graph.inputs, tuple(ops), outputs)
    return without_dead_ops(rename_graph(once, names) if names else once)


def _repeats(graph: KernelGraph) -> dict[Value, Value]:
    """Return the results of ops that repeat earlier ones, with the earlier results."""
    known: dict[Value, Value] = {}  # the first value that each value is equal to
    first: dict[tuple[str, tuple[Value, ...]], Op] = {}
    found: dict[Value, Value] = {}
    for op in graph.ops:
        if isinstance(op, Boundary):
            continue
        operands = tuple(known.get(v, v) for v in op.operands)
        inputs = tuple(dict.fromkeys(operands))
        alone = KernelGraph("op", inputs, (with_operands(op, operands),), op.results)
        earlier = first.setdefault((signature(alone), operands), op)
        if earlier is not op:
            same = dict(zip(op.results, earlier.results, strict=True))
            known.update(same)
            found.update({} if isinstance(op, View | Source) else same)
    return found


def _returned(graph: KernelGraph) -> set[Value]:
    """Return the outputs, and the values of which they are views."""
    found = set(graph.outputs)
    for op in reversed(graph.ops):
        if isinstance(op, View) and op.result in found:
            found.add(op.operands[0])
    return found


def _copy(source: Value, result: Value) -> External:
    return External((source,), (result,), "aten.clone.default", (("memory_format", None),))
