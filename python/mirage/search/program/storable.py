"""The values that a plan may or must store: results, values at the borders of ops that are not
kernels, and values that are not cheaper to compute again where they are read."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from mirage.cost.copy_kernels import copies_in, moves_elements, product_time
from mirage.cost.target import Target
from mirage.search.algebra.axes import AxisTable, UnlabelableError, regroup
from mirage.search.kernel.loop_nests.columns import GROUP_COLUMNS
from mirage.search.limits import SearchReport
from mirage.semantics.element_types import DType
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Constant,
    Contraction,
    Cumulate,
    Elementwise,
    KernelGraph,
    Matmul,
    Op,
    Reduce,
    Source,
    Transpose,
    Unary,
    Value,
    View,
)

LABELLED = Constant | Unary | Binary | Cast | Broadcast | Reduce | Cumulate | Matmul | Transpose
"""The ops whose results the algebra can express for any labels of their dimensions."""

SLACK = 1.25
"""The most bytes that may be read to compute a value again, as a multiple of its own bytes."""


class Storable:
    """The storable values of a graph of primitive ops. ``kept`` are ops that are not kernels;
    ``required`` are values that every plan stores, and ``wanted`` are those that a plan may store,
    too."""

    def __init__(self, graph: KernelGraph, target: Target, report: SearchReport) -> None:
        self.graph, self.target = graph, target
        self.definitions: dict[Value, Op] = {r: op for op in graph.ops for r in op.results}
        self.order = {v: i for i, v in enumerate((*graph.inputs, *self.definitions))}
        self.moved = copies_in(graph)
        self._axes = AxisTable.of(graph)
        self.live = self._live()
        self.kept = self._kept_ops(report)
        self.required = self._required()
        self.wanted = self.required | self._intermediates(self.required)

    def _live(self) -> set[Value]:
        """Return the values that some output depends on."""
        live: set[Value] = set(self.graph.outputs)
        for op in reversed(self.graph.ops):
            if any(v in live for v in op.results):
                live.update(op.operands)
        return live

    def _kept_ops(self, report: SearchReport) -> set[Op]:
        """Return the ops that axis labels cannot follow: they stay, and their operands and results
        are device tensors."""
        table = self._axes
        kept: set[Op] = set()
        for op in self.graph.ops:
            if isinstance(op, LABELLED):
                continue
            if op.renames:
                flat = tuple(x for dim in table.dims(op.result) for x in dim)
                try:
                    regroup(flat, op.operands[0].shape, table.sizes)
                    continue
                except UnlabelableError as error:
                    report.note(str(error))
            elif op in self.moved or not moves_elements(op):
                report.note(f"{type(op).__name__.lower()} stays a separate kernel")
            kept.add(op)
        return kept | self._shapes_for(kept)

    def _shapes_for(self, kept: set[Op]) -> set[Op]:
        """Return the reshapes of tensors in memory for ops that stay, and of the results of these
        for the caller: no kernel copies them. The results for the caller are in memory, too."""
        given = {v for op in kept for v in op.results}
        in_memory = given.union(self.graph.inputs, self.graph.outputs)
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
        """Return the values that every plan stores: the outputs, and the operands and results of
        ops that stay outside of kernels."""
        stored = set(self.graph.outputs)
        for op in self.kept:
            stored.update(op.results)
            stored.update(op.operands)
        filled = {v for v in stored if self.filling(v)} - set(self.graph.outputs)
        return stored - filled - set(self.graph.inputs)

    def filling(self, value: Value) -> list[Op]:
        """Return the ops that make a value that is one constant everywhere; none for other values.
        No kernel has to write such a value for an op that stays: the op's own kernel knows the
        constant."""
        ops: list[Op] = []
        op = self.definitions.get(value)
        while isinstance(op, View) and op.whole and len(op.operands) == 1:
            ops.append(op)
            op = self.definitions.get(op.operands[0])
        return [op, *reversed(ops)] if isinstance(op, Source) else []

    def _intermediates(self, required: set[Value]) -> set[Value]:
        """Return the values worth storing. These are not views, nor other values in a wider type,
        nor cheap to compute from inputs, nor changed by the next elementwise op, and they are
        smaller than the other value, if there is one, from which they would be cheap to compute."""
        users: dict[Value, list[Op]] = {}
        for op in self.graph.ops:
            if any(v in self.live for v in op.results):
                for v in op.operands:
                    users.setdefault(v, []).append(op)
        shallow: set[Value] = set(self.graph.inputs)
        for op in self.graph.ops:
            address = op.cut_at is not None and op not in self.moved
            if (address or _in_place(op)) and all(v in shallow for v in op.operands):
                shallow.update(op.results)
        found: set[Value] = set()
        factors, late = self._factors(of_few_rows=False), self._late_logarithms()
        scattered = self._scattered()
        for value, op in self.definitions.items():
            computed = value in factors and not self._is_given(value)
            if value in shallow and not computed and value not in scattered:
                continue
            if widens(op):
                continue  # its operand takes less memory
            while len(uses := users.get(value, [])) == 1 and _keeps_rows(uses[0]):
                value = uses[0].result  # stored in the layout in which it is used
            absorbed = len(uses) == 1 and _absorbs(uses[0], value, self.definitions)
            if uses and not (absorbed and uses[0] not in late):
                found.add(value)
        return found - self._totals() - self._copies(found | required, shallow)

    def _scattered(self) -> set[Value]:
        """Return the factors of products whose neighbours in memory belong to other products of the
        batch (``ikc,jkc->ijc``): a tile of one product reads single elements. They are inputs in
        another order."""
        found: set[Value] = set()
        for op in self.graph.ops:
            if not (isinstance(op, Contraction) and len(op.operands) == 2):
                continue
            axes = [self._axes_of(v) for v in op.operands]
            batch = axes[0] & axes[1] & self._axes_of(op.result)
            for v, own in zip(op.operands, axes, strict=True):
                given = v
                while isinstance(made := self.definitions.get(given), View) and made.whole:
                    given = made.operands[0]
                beside = [axis for dim in self._axes.dims(given) for axis in dim][-1:]
                if made is None and v is not given and batch.issuperset(beside) and own > batch:
                    found.add(v)
        return found

    def _late_logarithms(self) -> set[Op]:
        """Return the logarithms of sums that are left to the readers, since what is stored of a sum
        of exponentials is relative to their maximum: what a reader subtracts from that maximum
        loses no digits. If an exponential follows, the sum may be computed with it."""
        followed: set[Value] = set()
        found: set[Op] = set()
        for op in reversed(self.graph.ops):
            if op.function is UnaryFn.EXP or not followed.isdisjoint(op.results):
                followed.update(op.operands)
            elif op.function is UnaryFn.LOG and _adds_up(self.definitions.get(op.operands[0])):
                found.add(op)
        return found

    def _totals(self) -> set[Value]:
        """Return the values that are cheap to compute from partial sums: their sum, and functions
        of it alone."""
        totals: set[Value] = set()
        for op in self.graph.ops:
            before = [v for v in op.operands if not self.filling(v)]
            adds = _adds_up(op) and any(_adds_up(self.definitions.get(v)) for v in before)
            if adds or (_in_place(op) and before and totals.issuperset(before)):
                totals.update(op.results)
        return totals

    def _is_given(self, value: Value) -> bool:
        """Return whether a value is a view of an input, or a number."""
        while isinstance(op := self.definitions.get(value), View):
            value = op.operands[0]
        return op is None or isinstance(op, Source)

    def _copies(self, nodes: set[Value], shallow: set[Value]) -> set[Value]:
        """Return the values that are cheap to compute from one other of ``nodes`` and from inputs,
        or parts of them (``shallow``), which are together hardly larger."""
        copies: set[Value] = set()
        factors = self._factors(of_few_rows=True)
        # nodes and inputs from which a value is computed element by element; None if it is not
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

    def _factors(self, *, of_few_rows: bool) -> set[Value]:
        """Return the values that products read, directly or in another shape, and whose
        multiplication takes longer than reading them. The fastest products read their factors
        unchanged from memory, so these may be worth storing even if they are cheap to compute; but
        not in a second layout where they are 16-bit, since those are read across their rows as
        well. Where both factors are 16-bit values in a wider type, they are multiplied as these.
        Values that are only scaled along axes other than those of the sums are left out: the
        product is scaled instead. On request, a few rows that are multiplied by a large factor
        belong to these values, too."""
        factors: set[Value] = set()
        halves: set[Value] = set()
        for op in reversed(self.graph.ops):
            if isinstance(op, Contraction) and len(op.operands) == 2:
                if all(self._narrowest(v).is_half for v in op.operands):
                    halves.update(op.operands)
                read = sum(v.type.bytes for v in op.operands)
                long = product_time(op, self.target) > read / self.target.dram_bytes
                summed = self._axes_of(op.operands[0], op.over[0])
                for v, other in zip(op.operands, reversed(op.operands), strict=True):
                    wanted = long or (of_few_rows and self._is_few_rows(v, other, summed))
                    if wanted and not self._is_scaled(v, summed):
                        factors.add(v)
            elif op.result in factors and (widens(op) or (isinstance(op, View) and op.whole)):
                factors.update(op.operands)
                halves.update(op.operands if op.result in halves else ())
                half = op.result.dtype.is_half
                if (half and not _keeps_rows(op)) or (op.result in halves and not half):
                    factors.discard(op.result)
        return factors

    def _narrowest(self, value: Value) -> DType:
        """Return the type of a value, or of that which it is in a wider type."""
        while (op := self.definitions.get(value)) is not None and (
            widens(op) or (isinstance(op, View) and op.whole)
        ):
            value = op.operands[0]
        return value.dtype

    def _is_few_rows(self, value: Value, other: Value, summed: set[str]) -> bool:
        """Return whether a factor has as many rows as warpgroups multiply
        (:mod:`mirage.search.kernel.loop_nests.columns`), but is much smaller than the other one:
        reading a share of that takes longer than starting another kernel."""
        rows = self._axes_of(value) - summed - self._axes_of(other)
        count = prod(self._axes.sizes[axis] for axis in rows)
        share = (SLACK - 1.0) * other.type.bytes
        start = (self.target.launch + self.target.combine) * self.target.dram_bytes
        return count >= GROUP_COLUMNS and share >= max(value.type.bytes, start)

    def _is_scaled(self, value: Value, summed: set[str]) -> bool:
        """Return whether a value is another value of its type, multiplied or divided by something
        that does not vary along the ``summed`` axes."""
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
        """Return the axes of some dimensions of a value, or of all."""
        labels = self._axes.dims(value)
        chosen = labels if dims is None else (labels[d] for d in dims)
        return {axis for dim in chosen for axis in dim}


def _keeps_rows(use: Op) -> bool:
    """Return whether an op is a view that also keeps the order in which the value is written in
    rows. (A value that a matmul reads along its columns need not be stored by columns.)"""
    if isinstance(use, Transpose):
        return use.permutation[-1] == len(use.permutation) - 1
    return isinstance(use, View) and use.whole


def _adds_up(op: Op | None) -> bool:
    """Return whether an op sums elements of one tensor."""
    return isinstance(op, Contraction) and len(op.operands) == 1 and op.sums


def widens(op: Op) -> bool:
    """Return whether an op only converts its operand to a type that takes more memory."""
    same = isinstance(op, Elementwise) and op.identity
    return same and op.result.dtype.bytes > op.operands[0].dtype.bytes


def _in_place(op: Op) -> bool:
    """Return whether each element of the result depends on a few others: there are no sums, cuts or
    joins."""
    return isinstance(op, Elementwise | Source) or (isinstance(op, View) and op.whole)


def _absorbs(use: Op, value: Value, definitions: dict[Value, Op]) -> bool:
    """Return whether an op only changes the elements of a value, with constants. (With another
    tensor it may split axes that were one before, as a mask does: then either value may be the one
    to store.)"""
    others = [definitions.get(v) for v in use.operands if v is not value]
    in_place = isinstance(use, Elementwise) and not widens(use)
    return in_place and all(isinstance(op, Source) for op in others)
