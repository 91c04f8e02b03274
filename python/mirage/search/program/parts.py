"""A program as its partitions see it: which ops stay outside of kernels, which values may be
stored, and the region between a value and what it is computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from mirage.cost.copy_kernels import (
    copies_in,
    moves_elements,
    product_time,
    unfused_in,
    unfused_report,
)
from mirage.cost.kernel_time import HOT
from mirage.cost.target import Target
from mirage.search.algebra.axes import AxisTable, UnlabelableError, regroup
from mirage.search.kernel.growth import Growth, growth_of
from mirage.search.kernel.workers import Region
from mirage.search.limits import SearchReport
from mirage.search.program.dag import Dag, Part
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Constant,
    Contraction,
    Elementwise,
    KernelGraph,
    Matmul,
    Op,
    Reduce,
    Reshape,
    Source,
    Transpose,
    Unary,
    Value,
    View,
)

LABELLED = Constant | Unary | Binary | Cast | Broadcast | Reduce | Matmul | Transpose
"""Ops whose result the algebra has for any labels of its dimensions."""

SLACK = 1.25
"""How many times the bytes of a value may be read instead, to compute it again."""

NEAR = 4
"""How many values that kernels compute lie between the results of one kernel, less one."""


class Program:
    """A graph of primitive ops, and the values of it that a plan may or must store."""

    def __init__(self, graph: KernelGraph, target: Target, report: SearchReport) -> None:
        self.graph, self.target = graph, target
        self.definitions: dict[Value, Op] = {r: op for op in graph.ops for r in op.results}
        self._hot: dict[Value, bool] = {}
        self._moved = copies_in(graph)
        self.order = {v: i for i, v in enumerate((*graph.inputs, *self.definitions))}
        self.live = self._live()
        self.kept = self._kept_ops(report)
        required = self._required()
        wanted = required | self._intermediates(required)
        self.nodes = self._ordered([v for v in self.definitions if v in wanted])
        self.dag = self._dag(tuple(v in required for v in self.nodes))

    def stays(self, value: Value) -> bool:
        """Whether an op that is no kernel defines the value."""
        return self.definitions[value] in self.kept

    def region_of(self, part: Part) -> Region:
        """What a part computes, as a graph; the largest result comes first."""
        leaves = {v for i, v in enumerate(self.nodes) if part.leaves >> i & 1}
        values = (self.nodes[i] for i in part.nodes)
        results = sorted(values, key=lambda v: (-v.type.size, self.order[v]))
        return self.region(tuple(results), leaves)

    def region(self, values: tuple[Value, ...], stored: Iterable[Value]) -> Region:
        """What computes ``values`` from ``stored`` ones and inputs of the program."""
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
        scales = self._growth.scales(inputs)
        return Region(KernelGraph(self.graph.name, inputs, inside, values), tuple(hot), scales)

    @cached_property
    def _growth(self) -> Growth:
        return growth_of(self.graph)

    def matmuls(self, part: Part) -> int:
        """Matmuls in a part's region."""
        computed = 0
        for node in (*part.nodes, *self.dag.inside(part)):
            computed |= self._products[node]
        return computed.bit_count()

    def _is_hot(self, value: Value) -> bool:
        """Whether L2 still holds a value when it is read: a kernel, rather than the caller, has
        just written it."""
        if value not in self._hot:
            small = value.type.bytes < self.target.l2_size / 2
            self._hot[value] = small and self._is_written(value)
        return self._hot[value]

    def _is_written(self, value: Value) -> bool:
        """Whether a kernel writes a value, rather than the caller."""
        op = self.definitions.get(value)
        while op is not None and op.cut_at is not None and op not in self._moved:
            op = self.definitions.get(op.operands[0])
        return op is not None

    def floor(self, part: Part) -> float:
        """µs that a kernel for a part takes at least: its launch, and what it must read from and
        write to device memory.

        Tensors that are no larger than the outputs may be read by a combine kernel, whose reads
        are not costed.
        """
        t, outputs = self.target, [self.nodes[i] for i in part.nodes]
        inputs = self._inputs_of(part)
        elements = sum(v.type.size for v in outputs)
        cold = [v for v in inputs if v.type.size > elements and not self._is_hot(v)]
        latency = (t.latency if cold else HOT * t.latency) if inputs else 0.0
        start = latency + t.block_start if inputs else 0.0
        size = sum(v.type.bytes for v in (*outputs, *cold))
        moved = size / max(t.dram_bytes, 0.5 * t.l2_bytes)
        return t.launch + 0.6 * latency + max(start, moved)

    def _inputs_of(self, part: Part) -> list[Value]:
        """What a part reads: those of :meth:`region_of`, without looking at ops."""
        read = 0
        for node in (*part.nodes, *self.dag.inside(part)):
            read |= self._read_between[node]
        given = (v for i, v in enumerate(self.graph.inputs) if read >> i & 1)
        return [*given, *(v for i, v in enumerate(self.nodes) if part.leaves >> i & 1)]

    @cached_property
    def _read_between(self) -> list[int]:
        """For each node the program's inputs between it and the nodes before, as bits."""
        return self._between({v: 1 << i for i, v in enumerate(self.graph.inputs)}, lambda _: 0)

    @cached_property
    def _products(self) -> list[int]:
        """For each node the matmuls between it and the nodes before, as bits."""
        order = {op: i for i, op in enumerate(self.graph.ops)}
        return self._between({}, lambda op: int(isinstance(op, Matmul)) << order[op])

    def _between(self, bits: dict[Value, int], own: Callable[[Op], int]) -> list[int]:
        """For each node the union of ``bits`` of values and of ``own`` of ops between it and the
        nodes before."""
        nodes = set(self.nodes)
        found = dict(bits)
        for op in self.graph.ops:
            union = own(op)
            for v in op.operands:
                union |= 0 if v in nodes else found.get(v, 0)
            found.update(dict.fromkeys(op.results, union))
        return [found[v] for v in self.nodes]

    def unfused(self, graph: KernelGraph) -> float:
        """µs of a graph whose ops are kernels of their own."""
        t = self.target
        kernels = list(unfused_in(graph))
        return sum(unfused_report(op, t).time for op in kernels) + t.combine * max(
            0, len(kernels) - 1
        )

    # ---- what is stored

    def _live(self) -> set[Value]:
        """Values that some output depends on."""
        live: set[Value] = set(self.graph.outputs)
        for op in reversed(self.graph.ops):
            if any(v in live for v in op.results):
                live.update(op.operands)
        return live

    def _kept_ops(self, report: SearchReport) -> set[Op]:
        """Ops that axis labels cannot follow: they stay, and their operands and results are
        device tensors."""
        table = self._axes = AxisTable.of(self.graph)
        kept: set[Op] = set()
        for op in self.graph.ops:
            if isinstance(op, LABELLED):
                continue
            if isinstance(op, Reshape):
                flat = tuple(x for dim in table.dims(op.result) for x in dim)
                try:
                    regroup(flat, op.operands[0].shape, table.sizes)
                    continue
                except UnlabelableError as error:
                    report.note(str(error))
            elif op in self._moved or not moves_elements(op):
                report.note(f"{type(op).__name__.lower()} stays a kernel of its own")
            kept.add(op)
        return kept | self._shapes_for(kept)

    def _shapes_for(self, kept: set[Op]) -> set[Op]:
        """Reshapes of what is in memory for ops that stay, and of what these give for the caller:
        no kernel writes the result anew."""
        given = {v for op in kept for v in op.results}
        in_memory = given.union(self.graph.inputs)
        found: list[Op] = []
        for op in self.graph.ops:
            if op.renames and op.operands[0] in in_memory:
                in_memory.add(op.result)
                given.update(op.results if op.operands[0] in given else ())
                found.append(op)
        read = {v for op in kept for v in op.operands} | given.intersection(self.graph.outputs)
        shapes: set[Op] = set()
        for op in reversed(found):
            if not read.isdisjoint(op.results):
                shapes.add(op)
                read.update(op.operands)
        return shapes

    def _required(self) -> set[Value]:
        """Values that every plan stores: the outputs, and what stays outside of kernels reads and
        writes."""
        stored = set(self.graph.outputs)
        for op in self.kept:
            stored.update(op.results)
            stored.update(op.operands)
        filled = {v for v in stored if self.filling(v)} - set(self.graph.outputs)
        return stored - filled - set(self.graph.inputs)

    def filling(self, value: Value) -> list[Op]:
        """The ops that make a value that is one constant everywhere: no kernel has to write it for
        an op that is none, whose kernel knows it. Empty for other values."""
        ops: list[Op] = []
        op = self.definitions.get(value)
        while isinstance(op, View) and op.whole and len(op.operands) == 1:
            ops.append(op)
            op = self.definitions.get(op.operands[0])
        return [op, *reversed(ops)] if isinstance(op, Source) else []

    def _intermediates(self, required: set[Value]) -> set[Value]:
        """Values worth storing: no views, nothing that is cheap to compute from inputs, nothing
        that the next elementwise op changes, and nothing that is no smaller than the one other such
        value from which it is cheap to compute."""
        users: dict[Value, list[Op]] = {}
        for op in self.graph.ops:
            if any(v in self.live for v in op.results):
                for v in op.operands:
                    users.setdefault(v, []).append(op)
        shallow: set[Value] = set(self.graph.inputs)
        for op in self.graph.ops:
            address = op.cut_at is not None and op not in self._moved
            if (address or _in_place(op)) and all(v in shallow for v in op.operands):
                shallow.update(op.results)
        found: set[Value] = set()
        for value in self.definitions:
            if value in shallow:
                continue
            while len(uses := users.get(value, [])) == 1 and _keeps_rows(uses[0]):
                value = uses[0].result  # stored in the layout in which it is used
            if uses and not (len(uses) == 1 and _absorbs(uses[0], value, self.definitions)):
                found.add(value)
        return found - self._copies(found | required, shallow)

    def _copies(self, nodes: set[Value], shallow: set[Value]) -> set[Value]:
        """Values that are cheap to compute from one other of ``nodes`` and from inputs, or parts of
        them (``shallow``), which are together hardly larger."""
        copies: set[Value] = set()
        factors = self._factors()
        # nodes and inputs from which a value is computed element by element; None: it is not
        nearest: dict[Value, frozenset[Value] | None] = {v: frozenset({v}) for v in self.order}
        for op in self.graph.ops:
            near = [nearest[v] for v in op.operands]
            below: frozenset[Value] | None = None
            if _in_place(op) and not any(x is None for x in near):
                below = frozenset[Value]().union(*(x for x in near if x is not None))
            for v in op.results:
                if (
                    below is not None
                    and v not in factors
                    and sum(w in nodes - shallow for w in below) == 1
                    and sum(w.type.bytes for w in below) <= SLACK * v.type.bytes
                ):
                    copies.add(v)
                nearest[v] = frozenset({v}) if v in nodes - copies else below
        return copies

    def _factors(self) -> set[Value]:
        """What products read, as it is or in another shape, that take longer to multiply than to
        read their factors: what multiplies fastest has them from memory as they are, so that they
        may be worth storing even where they are cheap to compute. Not what is only scaled along
        other axes than those of the sums: the product is scaled instead."""
        factors: set[Value] = set()
        for op in reversed(self.graph.ops):
            read = sum(v.type.bytes for v in op.operands)
            long = product_time(op, self.target) > read / self.target.dram_bytes
            if long and isinstance(op, Contraction):
                summed = self._axes_of(op.operands[0], op.over[0])
                factors.update(v for v in op.operands if not self._is_scaled(v, summed))
            elif isinstance(op, View) and op.whole and op.result in factors:
                factors.update(op.operands)
        return factors

    def _is_scaled(self, value: Value, summed: set[str]) -> bool:
        """Whether a value is another one of its type times, or over, what does not vary along the
        ``summed`` axes."""
        dtype, scaled = value.dtype, False
        while (op := self.definitions.get(value)) is not None and _in_place(op):
            varying = [v for v in op.operands if not summed.isdisjoint(self._axes_of(v))]
            if op.function is BinaryFn.MUL or op.function is BinaryFn.DIV:
                if len(varying) != 1 or (op.function is BinaryFn.DIV and op.operands[1] in varying):
                    return False
                scaled, (value,) = True, varying
            elif isinstance(op, View) or (isinstance(op, Elementwise) and op.identity):
                value = op.operands[0]
            else:
                return False
        return scaled and value.dtype is dtype

    def _axes_of(self, value: Value, dims: Iterable[int] | None = None) -> set[str]:
        """The axes of some dimensions of a value, or of all."""
        labels = self._axes.dims(value)
        chosen = labels if dims is None else (labels[d] for d in dims)
        return {axis for dim in chosen for axis in dim}

    # ---- the graph of what may be stored

    def _dag(self, required: tuple[bool, ...]) -> Dag:
        reads = self._reads(self.nodes)
        plain = Dag(reads, required)
        computed = [i for i in range(len(reads)) if not self.stays(self.nodes[i])]
        pairs = [(i, j) for at, j in enumerate(computed) for i in computed[max(0, at - NEAR) : at]]
        alike = frozenset(
            (i, j)
            for i, j in pairs
            if self._alike(self.nodes[i], self.nodes[j]) and plain.wanted_beside(i, j)
        )
        return Dag(reads, required, alike)

    def _reads(self, nodes: list[Value]) -> tuple[tuple[int, ...], ...]:
        """For each node the nodes that it is computed from directly."""
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
        """Nodes in the order of the program, but parts of inputs come first, and those that one
        kernel may compute together follow each other where they can."""
        reads = self._reads(nodes)
        done = [v for v in range(len(nodes)) if self._is_part_of_input(nodes[v])]
        left = [v for v in range(len(nodes)) if v not in done]
        while left:
            ready = [v for v in left if {*reads[v]} <= {*done}]
            last = nodes[done[-1]] if done else None
            done.append(min(ready, key=lambda v: (self._distance(last, nodes[v]), v)))
            left.remove(done[-1])
        return [nodes[i] for i in done]

    def _is_part_of_input(self, value: Value) -> bool:
        """Whether a value is an address in an input of the program."""
        op = self.definitions[value]
        while op.renames or (op.cut_at is not None and op not in self._moved):
            if op.operands[0] in self.graph.inputs:
                return True
            op = self.definitions[op.operands[0]]
        return False

    def _distance(self, last: Value | None, value: Value) -> int:
        if last is None or not self._alike(last, value):
            return 2
        return int(last.shape != value.shape)

    def _alike(self, first: Value, second: Value) -> bool:
        """Whether one block could compute a tile of each: the same shape, or one with size 1, and
        an input of the program on which both depend."""
        if self.stays(first) or self.stays(second):
            return False
        large, small = sorted((first, second), key=lambda v: -v.type.size)
        rank = len(small.shape)
        if rank > len(large.shape):
            return False
        aligned = zip(small.shape, large.shape[len(large.shape) - rank :], strict=True)
        shared = self._sources[first] & self._sources[second]
        return all(a in (1, b) for a, b in aligned) and bool(shared)

    @cached_property
    def _sources(self) -> dict[Value, frozenset[Value]]:
        """The inputs of the program that each value depends on."""
        out = {v: frozenset({v}) for v in self.graph.inputs}
        for op in self.graph.ops:
            below = frozenset[Value]().union(*(out[v] for v in op.operands))
            out.update((r, below) for r in op.results)
        return out


def _keeps_rows(use: Op) -> bool:
    """Whether an op is a view in whose order the value is written in rows as well. (What a matmul
    reads across its rows it need not have stored across.)"""
    if isinstance(use, Transpose):
        return use.permutation[-1] == len(use.permutation) - 1
    return isinstance(use, View) and use.whole


def _in_place(op: Op) -> bool:
    """Whether each element of the result is made of few others: no sums, cuts or joins."""
    return isinstance(op, Elementwise | Source) or (isinstance(op, View) and op.whole)


def _absorbs(use: Op, value: Value, definitions: dict[Value, Op]) -> bool:
    """Whether an op only changes the elements of a value, with constants. (With another tensor it
    may split axes that are one before, as a mask does: then either may be the one to store.)"""
    others = [definitions.get(v) for v in use.operands if v is not value]
    return isinstance(use, Elementwise) and all(isinstance(op, Source) for op in others)
