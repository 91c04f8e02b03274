"""Programs whose rows do not depend on each other: what a result holds in a row is one function of
that row of the inputs, the same for all rows.

Such a program is the same function at every number of rows: with fewer of them it computes the
first rows of what it computes with more, whatever the others hold. So two of them that are equal at
one number of rows are equal at all. And kernels that were compiled for the largest number compute
the right rows for a smaller one where they read zeros for rows that are not there and write none of
those: what they compute for missing rows, not-a-number included, reaches no other row.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from math import prod

from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import (
    KernelGraph,
    Op,
    UnknownOp,
    Value,
)
from mirage.verify.compression.digits import Structure
from mirage.verify.compression.independent_copies import parallel_digits
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.readings import readings


@dataclass(frozen=True)
class _Rows:
    """The digits of the rows, outermost first, and the structure that they are of."""

    structure: Structure
    digits: tuple[Hashable, ...]

    def leads(self, value: Value) -> bool:
        """Whether the outermost dimension of a tensor begins with the rows."""
        return self._of(value, 0)[: len(self.digits)] == self.digits

    def occur(self, value: Value) -> bool:
        """Whether elements of a value are told apart by the row."""
        return any(
            d in self.digits for dim in range(len(value.shape)) for d in self._of(value, dim)
        )

    def _of(self, value: Value, dim: int) -> tuple[Hashable, ...]:
        return tuple(self.structure.digits_of(self.structure.slot(value, dim)))


def why_rows_depend(graph: KernelGraph, inputs: Collection[int], rows: int) -> str | None:
    """Why it is not shown that the ``rows`` rows of some ``inputs`` (by their numbers; an outermost
    dimension has a multiple of them) do not depend on each other, in words; None if it is shown.

    Then every value of the program that is computed from these inputs has the rows outermost, and
    no other one has them. Ops whose indices the verifier's digits do not relate, positions and
    lookups among them, are not known to treat rows alike.
    """
    first = None
    try:
        for reading in readings((decompose(graph),)):
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


def _together(graph: KernelGraph, inputs: Collection[int]) -> list[set[int]]:
    """The inputs in groups of which nothing is computed together: each has rows of its own."""
    groups: list[set[int]] = [{i} for i in inputs]
    of: dict[Value, set[int]] = {graph.inputs[i]: {i} for i in inputs}
    for op in graph.ops:
        reached = set[int]().union(*(of.get(v, set[int]()) for v in op.operands))
        of.update(dict.fromkeys(op.results, reached))
        met = [g for g in groups if g & reached]
        if len(met) > 1:
            groups = [g for g in groups if not g & reached] + [set[int]().union(*met)]
    return groups


def _why(
    graph: KernelGraph, structure: Structure, inputs: Collection[int], rows: int
) -> str | None:
    """:func:`why_rows_depend` by one reading of the program."""
    parallel = parallel_digits((graph,), structure)
    found = _rows_of(structure, graph.inputs[min(inputs)], rows)
    if isinstance(found, str):
        return found
    if any(d not in parallel for d in found.digits):
        return "an op relates rows to each other"
    if any(len(structure.digits[d].segments) > 1 for d in found.digits):
        return "rows are cut into unequal parts"
    return next(_exceptions(graph, inputs, found), None)


def _rows_of(structure: Structure, value: Value, rows: int) -> _Rows | str:
    """The digits of the rows, by an input that has them; where a dimension within a row is read as
    one with them, of the parts of rows that it tells apart: those are rows, too."""
    digits = tuple(structure.digits_of(structure.slot(value, 0)))
    for count in range(1, len(digits) + 1):
        if prod(structure.digits[d].radix for d in digits[:count]) % rows == 0:
            return _Rows(structure, digits[:count])
    return f"tiles cut across the {rows} rows of {value.name or 'an input'}"


def _exceptions(graph: KernelGraph, inputs: Collection[int], rows: _Rows) -> Iterator[str]:
    """What is not the same function of each row."""
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


def computed_from(graph: KernelGraph, inputs: Collection[int]) -> set[Value]:
    """Some inputs, by their numbers, and all values that are computed from them."""
    found = {graph.inputs[i] for i in inputs}
    for op in graph.ops:
        if any(v in found for v in op.operands):
            found.update(op.results)
    return found


def _name(op: Op) -> str:
    return f"an op of kind {type(op).__name__.lower()}"
