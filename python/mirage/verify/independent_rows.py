"""Programs whose rows do not depend on each other: a row of a result is a function of that row of
the inputs, and the function is the same for all rows.

Such a program is the same function at every number of rows: with fewer rows it computes the first
rows of its result for more rows, whatever the other rows hold. So two such programs that are equal
at one number of rows are equal at all of them. A kernel that was compiled for the largest number of
rows also computes the right rows for a smaller number, if it reads zeros for missing rows and does
not write them: its results for missing rows, NaN included, reach no other row.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, replace
from math import prod

from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn, ReduceFn
from mirage.semantics.ugraph import Cumulation, KernelGraph, Op, Structure, UnknownOp, Value
from mirage.verify.compression.digits import Structure as Digits
from mirage.verify.compression.independent_copies import parallel_digits
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.readings import readings
from mirage.verify.other_rows import computed_from, graph_at, size_of_whole_tiles


@dataclass(frozen=True)
class _Rows:
    """The digits of the rows, outermost first, and the structure that they belong to."""

    structure: Digits
    digits: tuple[Hashable, ...]

    def leads(self, value: Value) -> bool:
        """Return whether the outermost dimension of a tensor starts with the rows."""
        return self._of(value, 0)[: len(self.digits)] == self.digits

    def occur(self, value: Value) -> bool:
        """Return whether elements of a value differ by the row."""
        return any(
            d in self.digits for dim in range(len(value.shape)) for d in self._of(value, dim)
        )

    def _of(self, value: Value, dim: int) -> tuple[Hashable, ...]:
        return tuple(self.structure.digits_of(self.structure.slot(value, dim)))


def why_rows_depend(graph: KernelGraph, inputs: Collection[int], rows: int) -> str | None:
    """Say why it is not shown that the ``rows`` rows of some ``inputs`` (by their numbers) do not
    depend on each other; None if it is shown. The outermost dimension of each of these inputs is a
    multiple of ``rows``.

    If it is shown, then every value that is computed from these inputs has the rows outermost, and
    no other value has them. Ops whose indices the verifier's digits do not relate, such as
    positions and lookups, are not known to treat rows alike.
    """
    why = _why_at_sizes(graph, inputs, rows)
    if why is None or any(_one_by_one(graph, inputs, rows)):
        return why
    return None


def _one_by_one(graph: KernelGraph, inputs: Collection[int], rows: int) -> Iterator[bool]:
    """Yield for each op on rows whether rows may depend on each other. If they are independent in
    every op, they are independent in the graph: some ops may cut rows where others, which relate
    the parts of a row, cannot be cut."""
    dependent = computed_from(graph, inputs)
    for op in graph.ops:
        operands = tuple(dict.fromkeys(op.operands))
        given = [i for i, v in enumerate(operands) if v in dependent]
        if given:
            alone = KernelGraph(graph.name, operands, (op,), op.results)
            yield _why_at_sizes(alone, given, rows) is not None


def _why_at_sizes(graph: KernelGraph, inputs: Collection[int], rows: int) -> str | None:
    """Answer :func:`why_rows_depend` for all ops at once."""
    why = _why_at(graph, inputs, rows)
    if why is None:
        return None
    # The last tile of rows may be partial. At a size without partial tiles, the same blocks compute
    # the same for existing rows.
    size = size_of_whole_tiles(graph, inputs, rows)
    if size is None:
        return why
    grown = graph_at(graph, inputs, rows, size)
    try:
        check_graph(grown)
    except InvalidGraph:
        return why
    return None if _why_at(grown, inputs, size) is None else why


def _why_at(graph: KernelGraph, inputs: Collection[int], rows: int) -> str | None:
    """Answer :func:`why_rows_depend` for the tiles at this size."""
    first = None
    try:
        for reading in readings((_with_totals(decompose(graph)),)):
            (read,) = reading.graphs
            groups = (_why(read, reading.structure, g, rows) for g in _together(read, inputs))
            why = next(filter(None, groups), None)
            if why is None:
                return None
            first = first or why
    except Irregular as error:
        return f"tiles and dimensions do not fit each other ({error})"
    except UnknownOp as error:
        return str(error)
    return first


def _with_totals(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with each cumulation replaced by a function of the element and of the total
    along the dimension. Each result still depends on everything on which it depended before, in the
    same way in all rows."""
    ops = tuple(new for op in graph.ops for new in _in_place_of(op))
    return KernelGraph(graph.name, graph.inputs, ops, graph.outputs)


def _in_place_of(op: Op) -> Iterator[Op]:
    if isinstance(op, Cumulation):
        b = Builder(in_block=True)
        (x,) = op.operands
        total = b.reduce(ReduceFn.SUM, x, (op.along,))
        b.binary(BinaryFn.ADD, x, total)
        yield from b.ops[:-1]
        yield replace(b.ops[-1], results=op.results)
    elif isinstance(op, Structure):
        yield op.rebuilt(tuple(new for x in op.inside for new in _in_place_of(x)), lambda v: v)
    else:
        yield op


def _together(graph: KernelGraph, inputs: Collection[int]) -> list[set[int]]:
    """Group the inputs that are used together; each group has rows of its own."""
    groups: list[set[int]] = [{i} for i in inputs]
    of: dict[Value, set[int]] = {graph.inputs[i]: {i} for i in inputs}
    for op in graph.ops:
        reached = set[int]().union(*(of.get(v, set[int]()) for v in op.operands))
        of.update(dict.fromkeys(op.results, reached))
        met = [g for g in groups if g & reached]
        if len(met) > 1:
            groups = [g for g in groups if not g & reached] + [set[int]().union(*met)]
    return groups


def _why(graph: KernelGraph, structure: Digits, inputs: Collection[int], rows: int) -> str | None:
    """Answer :func:`why_rows_depend` for one reading of the program."""
    parallel = parallel_digits((graph,), structure)
    found = _rows_of(structure, graph.inputs[min(inputs)], rows)
    if isinstance(found, str):
        return found
    if any(d not in parallel for d in found.digits):
        return "an op relates rows to each other"
    if any(len(structure.digits[d].segments) > 1 for d in found.digits):
        return "rows are cut into unequal parts"
    return next(_exceptions(graph, inputs, found), None)


def _rows_of(structure: Digits, value: Value, rows: int) -> _Rows | str:
    """Return the digits of the rows of an input that has them. If the reading merges a dimension
    within a row with the rows, the parts of rows that it distinguishes count as rows too."""
    digits = tuple(structure.digits_of(structure.slot(value, 0)))
    for count in range(1, len(digits) + 1):
        if prod(structure.digits[d].radix for d in digits[:count]) % rows == 0:
            return _Rows(structure, digits[:count])
    return f"tiles cut across the {rows} rows of {value.name or 'an input'}"


def _exceptions(graph: KernelGraph, inputs: Collection[int], rows: _Rows) -> Iterator[str]:
    """Yield the values that are not the same function of each row."""
    for i, value in enumerate(graph.inputs):
        name = value.name or f"input {i}"
        if i in inputs and not rows.leads(value):
            yield f"{name} does not have the rows outermost"
        elif i not in inputs and rows.occur(value):
            yield f"{name}, which has no rows, tells them apart"
    dependent = computed_from(graph, inputs)
    for op in graph.ops:
        for value in op.results:
            if value in dependent and not (value.shape and rows.leads(value)):
                yield f"a result of {_name(op)} does not have the rows outermost"
            elif value not in dependent and rows.occur(value):
                yield f"{_name(op)} tells rows apart and does not depend on them"


def _name(op: Op) -> str:
    return f"an op of kind {type(op).__name__.lower()}"
