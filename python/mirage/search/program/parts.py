"""A program in the form that partitions need: the values that may be stored, and the region between
a value and its leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from mirage.cost.copy_kernels import unfused_in, unfused_report
from mirage.cost.first_bytes import HOT
from mirage.cost.overlapping_views import Cut, least_from_memory
from mirage.cost.target import Target
from mirage.search.kernel.problems.growth import Growth, growth_of
from mirage.search.kernel.problems.one_tile import one_tile, side_by_side
from mirage.search.kernel.workers import Region
from mirage.search.limits import SearchReport
from mirage.search.program.dag import Dag, Part
from mirage.search.program.deciding_roundings import deciding_roundings
from mirage.search.program.storable import Storable
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ugraph import KernelGraph, Matmul, Op, Value

NEAR = 4
"""The most values that kernels compute between consecutive results of one kernel, plus one."""


class _Near(NamedTuple):
    """The direct predecessors of each node: the nodes that it ``reads``, and the inputs of the
    program, as bits."""

    reads: tuple[tuple[int, ...], ...]
    inputs: list[int]

    def share(self, i: int, j: int) -> bool:
        """Return whether two nodes read a common node or input."""
        common = not {*self.reads[i]}.isdisjoint(self.reads[j])
        return common or bool(self.inputs[i] & self.inputs[j])


class Program:
    """A graph of primitive ops, and those of its values that a plan may or must store."""

    def __init__(
        self,
        graph: KernelGraph,
        target: Target,
        report: SearchReport,
        rows: Mapping[int, int] = {},
    ) -> None:
        """``rows`` are inputs that kernels will look up, with the number of dimensions of their
        indices."""
        self.graph, self.target = graph, target
        self._rows = {graph.inputs[i]: rank for i, rank in rows.items()}
        self._hot: dict[Value, bool] = {}
        stored = Storable(graph, target, report)
        self.definitions, self.order, self._moved = stored.definitions, stored.order, stored.moved
        self.live, self.kept, self.filling = stored.live, stored.kept, stored.filling
        self.nodes = self._ordered([v for v in self.definitions if v in stored.wanted])
        self.dag = self._dag(tuple(v in stored.required for v in self.nodes))

    def stays(self, value: Value) -> bool:
        """Return whether an op that is not a kernel defines the value."""
        return self.definitions[value] in self.kept

    def region_of(self, part: Part) -> Region:
        """Return a part's computation as a graph; the largest result comes first."""
        leaves = {v for i, v in enumerate(self.nodes) if part.leaves >> i & 1}
        values = (self.nodes[i] for i in part.nodes)
        results = sorted(values, key=lambda v: (-v.type.size, self.order[v]))
        return self.region(tuple(results), leaves)

    def region(self, values: tuple[Value, ...], stored: Iterable[Value]) -> Region:
        """Return the graph that computes ``values`` from ``stored`` ones and inputs of the
        program."""
        leaves = {*stored, *self.graph.inputs}.difference(values)
        used: set[Value] = set()
        ops: set[Op] = set()
        stack, seen = list(values), set(values)
        while stack:
            v = stack.pop()
            if v in leaves:
                used.add(v)
                continue
            ops.add(self.definitions[v])
            for x in self.definitions[v].operands:
                if x not in seen:
                    seen.add(x)
                    stack.append(x)
        inputs = tuple(sorted(used, key=lambda v: self.order[v]))
        inside = tuple(sorted(ops, key=lambda op: self.order[op.results[0]]))
        hot = (i for i, v in enumerate(inputs) if self._is_hot(v))
        graph = KernelGraph(self.graph.name, inputs, inside, values)
        sizes = ((i, self._read_bytes(v)) for i, v in enumerate(inputs))
        fewer = tuple((i, size) for i, size in sizes if 0.0 < size < inputs[i].type.bytes)
        cuts = ((i, self._cuts[v]) for i, v in enumerate(inputs) if v in self._cuts)
        rows = ((i, self._rows[v]) for i, v in enumerate(inputs) if v in self._rows)
        computed = (v for op in inside for v in op.results)
        rounded = (i for i, v in enumerate(computed) if v in self._rounded)
        return Region(
            graph, tuple(hot), self._growth.scales(inputs), fewer, tuple(cuts), tuple(rows),
            tuple(rounded),
        )  # fmt: skip

    @cached_property
    def _rounded(self) -> frozenset[Value]:
        return deciding_roundings(self.graph)

    @cached_property
    def _cuts(self) -> dict[Value, Cut]:
        """The offsets of the leaves that are blocks of tensors in device memory, within these
        tensors."""
        whole = {v: i for i, v in enumerate((*self.graph.inputs, *self.definitions))}
        return {
            v: Cut(whole[op.operands[0]], op.cut_at)
            for v, op in self.definitions.items()
            if op.cut_at is not None and op not in self._moved and not self._is_hot(v)
        }

    @cached_property
    def _growth(self) -> Growth:
        return growth_of(self.graph)

    def matmuls(self, part: Part) -> int:
        """Return the number of matmuls in a part's region."""
        computed = 0
        for node in (*part.nodes, *self.dag.inside(part)):
            computed |= self._products[node]
        return computed.bit_count()

    def _is_hot(self, value: Value) -> bool:
        """Return whether L2 still holds a value when it is read, because a kernel (and not the
        caller) has just written it."""
        if value not in self._hot:
            small = value.type.bytes < self.target.l2_size / 2
            self._hot[value] = small and self._is_written(value)
        return self._hot[value]

    def _is_written(self, value: Value) -> bool:
        """Return whether a kernel (and not the caller) writes a value."""
        op = self.definitions.get(value)
        while op is not None and self._is_found(op):
            op = self.definitions.get(op.operands[0]) if op.operands else None
        return op is not None

    def _is_found(self, op: Op) -> bool:
        """Return whether an op's result lies in its first operand."""
        cut = op.cut_at is not None and op not in self._moved
        return op.renames or cut or isinstance(op, Lookup)

    def _read_bytes(self, value: Value) -> float:
        """Return the bytes of device memory that kernels read for a value: rows that are looked up
        are read once each, however often their indices occur."""
        if self._is_hot(value):
            return 0.0
        op = self.definitions.get(value)
        while op is not None and op.renames:
            op = self.definitions.get(op.operands[0])
        size = float(value.type.bytes)
        if op is None or op.names_rows is None or not self._is_found(op):
            return size
        named = op.names_rows
        return size * min(1.0, named.count / named.index.type.size)

    def floor(self, part: Part) -> float:
        """Return the least µs of a kernel for a part: its launch, and its reads and writes of
        device memory.

        Tensors that are no larger than the outputs may be read by a combine kernel, whose reads
        are not costed.
        """
        t, outputs = self.target, [self.nodes[i] for i in part.nodes]
        inputs = self.inputs_of(part)
        elements = sum(v.type.size for v in outputs)
        cold = [v for v in inputs if v.type.size > elements and not self._is_hot(v)]
        latency = (t.latency if cold else HOT * t.latency) if inputs else 0.0
        start = latency + t.block_start if inputs else 0.0
        read = {v: self._read_bytes(v) for v in cold}
        size = sum(v.type.bytes for v in outputs) + least_from_memory(cold, self._cuts, read)
        moved = size / max(t.dram_bytes, 0.5 * t.l2_bytes)
        return t.launch + 0.6 * latency + max(start, moved)

    def inputs_of(self, part: Part) -> list[Value]:
        """Return the values that a part reads, as :meth:`region_of` would, without examining
        ops."""
        read = 0
        for node in (*part.nodes, *self.dag.inside(part)):
            read |= self._read_between[node]
        given = (v for i, v in enumerate(self.graph.inputs) if read >> i & 1)
        return [*given, *(v for i, v in enumerate(self.nodes) if part.leaves >> i & 1)]

    @cached_property
    def _read_between(self) -> list[int]:
        """The program's inputs between each node and the nodes before it, as bits."""
        return self._inputs_before(self.nodes)

    def _inputs_before(self, nodes: list[Value]) -> list[int]:
        bits = {v: 1 << i for i, v in enumerate(self.graph.inputs)}
        return self._between(nodes, bits, lambda _: 0)

    @cached_property
    def _products(self) -> list[int]:
        """Return, for each node, the matmuls between it and the nodes before it, as bits."""
        order = {op: i for i, op in enumerate(self.graph.ops)}
        own = {op: int(isinstance(op, Matmul)) << i for op, i in order.items()}
        return self._between(self.nodes, {}, own.__getitem__)

    def _between(
        self, nodes: list[Value], bits: dict[Value, int], own: Callable[[Op], int]
    ) -> list[int]:
        """Return, for each node, the union of the ``bits`` of the values, and the ``own`` of the
        ops, between it and the nodes before it."""
        ends = set(nodes)
        found = dict(bits)
        for op in self.graph.ops:
            union = own(op)
            for v in op.operands:
                union |= 0 if v in ends else found.get(v, 0)
            found.update(dict.fromkeys(op.results, union))
        return [found[v] for v in nodes]

    def unfused(self, graph: KernelGraph) -> float:
        """Return the µs of a graph whose ops are separate kernels."""
        t = self.target
        kernels = list(unfused_in(graph))
        return sum(unfused_report(op, t).time for op in kernels) + t.combine * max(
            0, len(kernels) - 1
        )

    # ---- the graph of what may be stored

    def _dag(self, required: tuple[bool, ...]) -> Dag:
        reads = self._reads(self.nodes)
        plain, near = Dag(reads, required), _Near(reads, self._read_between)
        computed = [i for i in range(len(reads)) if not self.stays(self.nodes[i])]
        pairs = [(i, j) for at, j in enumerate(computed) for i in computed[max(0, at - NEAR) : at]]
        alike = frozenset(
            (i, j) for i, j in pairs if self._together(near, i, j) and plain.wanted_beside(i, j)
        )
        return Dag(reads, required, alike)

    def _together(self, near: _Near, i: int, j: int) -> bool:
        """Return whether one kernel could compute two nodes."""
        first, second = self.nodes[i], self.nodes[j]
        return self._alike(first, second) or (self._beside(first, second) and near.share(i, j))

    def _beside(self, first: Value, second: Value) -> bool:
        """Return whether a kernel could compute both values side by side."""
        if self.stays(first) or self.stays(second):
            return False
        return side_by_side(first.type, second.type)

    def _reads(self, nodes: list[Value]) -> tuple[tuple[int, ...], ...]:
        """Return, for each node, the nodes from which it is directly computed."""
        index = {v: i for i, v in enumerate(nodes)}
        nearest: dict[Value, frozenset[int]] = {v: frozenset() for v in self.graph.inputs}
        reads: dict[Value, tuple[int, ...]] = {}
        for op in self.graph.ops:
            below = frozenset[int]().union(*(nearest[v] for v in op.operands))
            for v in op.results:
                nearest[v] = frozenset({index[v]}) if v in index else below
                reads[v] = tuple(sorted(below))
        return tuple(reads[v] for v in nodes)

    def _ordered(self, nodes: list[Value]) -> list[Value]:
        """Return the nodes in the order of the program, except that parts of inputs come first, and
        that nodes which one kernel may compute together are adjacent if possible."""
        near = _Near(self._reads(nodes), self._inputs_before(nodes))
        done = [v for v in range(len(nodes)) if self._is_part_of_input(nodes[v])]
        left = [v for v in range(len(nodes)) if v not in done]
        while left:
            ready = [v for v in left if {*near.reads[v]} <= {*done}]
            last = done[-1] if done else None
            done.append(min(ready, key=lambda v: (self._distance(nodes, near, last, v), v)))
            left.remove(done[-1])
        return [nodes[i] for i in done]

    def _is_part_of_input(self, value: Value) -> bool:
        """Return whether a value is an address in an input of the program."""
        op = self.definitions[value]
        while op.renames or (op.cut_at is not None and op not in self._moved):
            if op.operands[0] in self.graph.inputs:
                return True
            op = self.definitions[op.operands[0]]
        return False

    def _distance(self, nodes: list[Value], near: _Near, last: int | None, v: int) -> int:
        if last is None:
            return 3
        first, second = nodes[last], nodes[v]
        if self._alike(first, second):
            return 0 if first.shape == second.shape else 2
        return 1 if self._beside(first, second) and near.share(last, v) else 3

    def _alike(self, first: Value, second: Value) -> bool:
        """Return whether one block could compute a tile of each value: their tiles have the same
        axes, and both depend on a common input of the program, or one of them on none."""
        if self.stays(first) or self.stays(second):
            return False
        known, others = self._sources[first], self._sources[second]
        if known and others and not known & others:
            return False
        return one_tile(first.type, second.type)

    @cached_property
    def _sources(self) -> dict[Value, frozenset[Value]]:
        """The inputs of the program on which each value depends."""
        out = {v: frozenset({v}) for v in self.graph.inputs}
        for op in self.graph.ops:
            below = frozenset[Value]().union(*(out[v] for v in op.operands))
            out.update((r, below) for r in op.results)
        return out
