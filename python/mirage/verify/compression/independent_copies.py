"""Digits along which programs are many independent copies of one program: batches, heads, rows.

No sum or maximum runs over such a digit, and no value has two indices of it. So an output's element
at an index depends on the data of that index alone, whatever the data of the others; all indices of
a segment may then hold the same data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    KernelGraph,
    Launch,
    Loop,
    Movement,
    Op,
    Scan,
    Source,
    Value,
    unknown,
)
from mirage.verify.compression.digits import Structure
from mirage.verify.compression.index_relations import Slot


def parallel_digits(graphs: Iterable[KernelGraph], structure: Structure) -> frozenset[Hashable]:
    """Return the digits that are parallel in all of several graphs, which have only primitive
    ops."""
    search = _Search(structure)
    for graph in graphs:
        search.graph(graph)
    return frozenset(
        name
        for name, digit in structure.digits.items()
        if name not in search.mixed and not digit.pinned
    )


class _Search:
    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.mixed: set[Hashable] = set()
        self._around: Counter[Hashable] = Counter()  # digits of the axes around the current op

    def graph(self, graph: KernelGraph) -> None:
        """Find the digits that ``graph`` mixes."""
        self._values(graph.inputs)
        for op in graph.ops:
            if not isinstance(op, Launch):
                self._op(op)
                continue
            self._values(op.results)
            axes = [self.structure.axis(op, a.name) for a in op.grid]
            self._around.update(self._digits(axes))
            self._block(op, op.body.ops)
            self._around.clear()

    def _block(self, launch: Launch, ops: Sequence[Op]) -> None:
        for op in ops:
            if not isinstance(op, Loop):
                self._op(op)
                continue
            digits = self._digits([self.structure.axis(launch, op.axis.name)])
            self.mixed.update(digits)
            self._around.update(digits)
            self._block(launch, op.body)
            self._around.subtract(digits)
            self._values(op.results)

    def _op(self, op: Op) -> None:
        if isinstance(op, Contraction):
            self._mixes(op.operands[0], op.over[0])
        elif not isinstance(op, Source | Elementwise | Movement | Scan):
            raise unknown(op, "which indices an op mixes")
        self._values(op.results)

    def _mixes(self, value: Value, dims: Iterable[int]) -> None:
        self.mixed.update(self._digits([self.structure.slot(value, d) for d in dims]))

    def _values(self, values: Iterable[Value]) -> None:
        """Note the digits of which one value has two indices: it relates them."""
        for v in values:
            slots = [self.structure.slot(v, d) for d in range(len(v.shape))]
            count = Counter(self._digits(slots))
            count.update(+self._around)
            self.mixed.update(d for d, n in count.items() if n > 1)

    def _digits(self, slots: Iterable[Slot]) -> list[Hashable]:
        return [d for s in slots for d in self.structure.digits_of(s)]
