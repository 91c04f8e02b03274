"""Values that a program exports without computing them: inputs, views of tensors, numbers.

A value is *exported* if the program returns it, or if a call of PyTorch reads it. If an exported
value is only a view of elements that are in memory anyway (in an input, in a call's result, or in
another exported value), no kernel is needed: PyTorch makes the view. The same holds for a tensor
that has one number everywhere, or no elements. These become calls; everything else stays with the
kernels.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import (
    Boundary,
    KernelGraph,
    Op,
    Value,
    View,
)
from mirage.transforms.copies import is_copied
from mirage.transforms.partition.calls import calls_of, filled


def exports_as_calls(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with calls for the exported values that need no kernel. Ops of kernels never
    read the result of such a call: they have their own copies of the views.
    """
    return _Exports(graph).run()


class _Exports:
    def __init__(self, graph: KernelGraph) -> None:
        self.graph = graph
        self.definitions: dict[Value, Op] = {v: op for op in graph.ops for v in op.results}
        self.like = next(iter(graph.inputs), None)
        called = (v for op in graph.ops if isinstance(op, Boundary) for v in op.operands)
        exported = set(dict.fromkeys((*called, *graph.outputs))).difference(graph.inputs)
        self.handed = self._handed(exported)
        self.kept = exported - self.handed
        self.ops: list[Op] = []
        self.own: dict[Value, Value] = {}  # the values that kernels read instead of exported ones
        self.given: dict[Value, Value] = {}  # results of calls, by the exported value

    def run(self) -> KernelGraph:
        if not self.handed:
            return self.graph
        for op in self.graph.ops:
            if isinstance(op, Boundary):
                for v in op.operands:
                    self._give(v)
                self.ops.append(op)
                continue
            operands = tuple(self.own.get(v, v) for v in op.operands)
            results = op.results
            if len(results) == 1 and op.result in self.handed:
                results = (Value(op.result.type, op.result.name),)
                self.own[op.result] = results[0]
            unchanged = operands == op.operands and results == op.results
            self.ops.append(op if unchanged else replace(op, operands=operands, results=results))
        for v in self.graph.outputs:
            self._give(v)
        whole = KernelGraph(self.graph.name, self.graph.inputs, tuple(self.ops), self.graph.outputs)
        return without_dead_ops(whole)

    def _root(self, value: Value) -> Value:
        """Return the value whose elements a view has, in the memory where they are."""
        while isinstance(op := self.definitions.get(value), View):
            if is_copied(op, self.definitions):
                break
            value = op.operands[0]
        return value

    def _handed(self, exported: set[Value]) -> set[Value]:
        """Return the exported values that no kernel has to write."""
        roots = {v: self._root(v) for v in exported}
        shared = Counter(roots.values())
        handed: set[Value] = set()
        for v, root in roots.items():
            definition = self.definitions.get(root)
            filled = not v.type.size or (definition is not None and definition.number is not None)
            in_memory = definition is None or isinstance(definition, Boundary)
            if filled or (v is not root and (in_memory or shared[root] > 1)):
                handed.add(v)
        return handed

    def _give(self, value: Value) -> Value:
        """Return the value that calls read for ``value``, emitting its definition."""
        if value in self.given:
            return self.given[value]
        op = self.definitions.get(value)
        handed = value in self.handed
        if not handed and (value in self.kept or not isinstance(op, View)):
            return value
        result = value if handed else Value(value.type)
        self.given[value] = result
        root = self.definitions.get(self._root(value))
        if not value.type.size:
            self.ops.append(filled(result, 0.0, self.like))
        elif root is not None and root.number is not None:
            self.ops.append(filled(result, root.number, self.like))
        else:
            assert op is not None
            source = self._give(op.operands[0])
            self.ops.extend(calls_of(replace(op, operands=(source,), results=(result,))))
        return result
