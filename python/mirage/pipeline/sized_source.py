"""A program with a dynamic size, prepared for optimization at the largest size of a class, and its
calls of PyTorch at other sizes.

Kernels of a class run at sizes below its largest one, which is right if rows do not depend on each
other (:mod:`mirage.verify.independent_rows`). This is checked for each part between calls. Calls
are made at the actual size, so any call is allowed as long as its arguments are known there: they
are those of the same call of the program at another size, in proportion.

Ops that make rows from something that has none (positions along them, one row repeated) and ops
that look rows up become calls, so the rows of a part come from its inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from mirage.frontend.errors import DynamicShapeError
from mirage.frontend.program import Program, SizedProgram
from mirage.pipeline.size_bounds import least_of
from mirage.runtime.dispatch.plan import Rows
from mirage.semantics.positions import Lookup
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.two_sizes import why_different, with_rows
from mirage.semantics.ugraph import Boundary, External, KernelGraph, Op, Value, View
from mirage.transforms.computed_integers import places
from mirage.transforms.partition.calls import calls_of, filled
from mirage.transforms.partition.partition import Part, partition
from mirage.verify.independent_rows import why_rows_depend
from mirage.verify.other_rows import computed_from

Arguments: TypeAlias = "tuple[tuple[str, object], ...]"


@dataclass(frozen=True)
class CallBySize:
    """A call at all sizes: its arguments, in which :class:`Rows` stand for numbers in proportion to
    the size, and which operands and results have rows."""

    arguments: Arguments
    operands: tuple[bool, ...]
    results: tuple[bool, ...]


@dataclass(frozen=True)
class SizedSource:
    """The ``program`` at the size ``most``; ``inputs`` are the numbers of the inputs that have
    rows. ``least`` is the smallest size of the class."""

    program: Program
    least: int
    most: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    """The numbers of the results that have rows."""
    calls: dict[Hashable, CallBySize | None]
    """The calls at all sizes, by the call at the largest size; None for calls that are equal there
    but differ at other sizes."""

    def call(self, op: External) -> CallBySize | None:
        """Return a call at other sizes; None if that is not known."""
        return self.calls.get(_key(op))


def sized_source(sizes: SizedProgram, most: int, least: int | None = None) -> SizedSource:
    """Return the program of a class that ends at ``most`` and starts after the previous class or at
    ``least``.

    Raises :class:`DynamicShapeError` if rows depend on each other, or if calls depend on the size.
    """
    first, second = sizes.at(most), sizes.at(most - 1)
    mine, other = with_rows(first.graph, second.graph), with_rows(second.graph, first.graph)
    first = replace(first, graph=_rows_given(first.graph, mine))
    second = replace(second, graph=_rows_given(second.graph, other))
    calls: dict[Hashable, CallBySize | None] = {}
    pieces, others = partition(first.graph), partition(second.graph)
    if len(pieces) != len(others):
        raise _refused(sizes.name, "it has other parts at other sizes")
    for piece, twin in zip(pieces, others, strict=True):
        if isinstance(piece, Part) and isinstance(twin, Part):
            why = why_different(piece.graph, most, twin.graph, most - 1)
            why = why or _why_part(piece.graph, with_rows(piece.graph, twin.graph), most)
            if why is not None:
                raise _refused(sizes.name, why)
        elif isinstance(piece, Part) or isinstance(twin, Part):
            raise _refused(sizes.name, "it has other parts at other sizes")
        else:
            for call, same in zip(calls_of(piece), calls_of(twin), strict=True):
                key, found = _key(call), _by_size(call, same, most)
                if isinstance(found, str):
                    raise _refused(sizes.name, found)
                calls[key] = found if calls.get(key, found) == found else None
    results = zip(first.graph.outputs, second.graph.outputs, strict=True)
    outputs = tuple(i for i, (a, b) in enumerate(results) if a.shape != b.shape)
    least = least_of(most) if least is None else least
    return SizedSource(first, least, most, sizes.inputs, outputs, calls)


def _refused(name: str, why: str) -> DynamicShapeError:
    return DynamicShapeError(
        f"expected rows along {name} that do not depend on each other, but {why}; "
        "import the program without dynamic_shapes"
    )


def _rows_given(graph: KernelGraph, rows: frozenset[Value]) -> KernelGraph:
    """Return ``graph`` with calls in place of the ops that make rows of something that has none or
    look them up."""
    like = next((v for v in graph.inputs if v in rows), None)

    def made(op: Op) -> Iterator[Op]:
        mine = any(v in rows for v in op.results)
        given = any(v in rows for v in op.operands)
        if not (mine or given):
            yield op
        elif op.number is not None:
            yield filled(op.results[0], op.number, like)
        elif isinstance(op, Boundary) or not given:
            yield from calls_of(op)
        else:
            yield op

    ops = tuple(new for op in graph.ops for new in made(op))
    given = replace(graph, ops=ops)
    lookups = (step for step in partition(given) if isinstance(step, Lookup))
    if any(not rows.isdisjoint(op.picks_from) for op in lookups):
        given = _without_picks(given, rows)
    return _views_given(given, rows)


def _without_picks(graph: KernelGraph, rows: Collection[Value]) -> KernelGraph:
    """Return ``graph`` with calls that move integers of rows: a kernel that picks elements of them
    would have to know the number of rows."""

    def is_moved(op: Op) -> bool:
        if not op.results[0].dtype.is_integer or not any(v in rows for v in op.operands):
            return False
        return op.joined_along is not None or (isinstance(op, View) and places(op) is None)

    ops = tuple(new for op in graph.ops for new in (calls_of(op) if is_moved(op) else [op]))
    return replace(graph, ops=ops)


def _views_given(graph: KernelGraph, rows: Collection[Value]) -> KernelGraph:
    """Return ``graph`` with calls for views of rows that leave the kernels, if they do not just
    rename memory: a kernel would copy such a view, and kernels cannot copy rows that do not
    exist."""
    definitions = {v: op for op in graph.ops for v in op.results}
    given: dict[Value, Value] = {}
    ops: list[Op] = []

    def handed(value: Value) -> Value:
        op = definitions.get(value)
        if value not in rows or not isinstance(op, View):
            return value
        source = handed(op.operands[0])
        if op.renames and source is op.operands[0]:
            return value
        if value not in given:
            given[value] = Value(value.type, value.name)
            call = replace(op, operands=(source,), results=(given[value],))
            ops.extend(calls_of(call))
        return given[value]

    for op in graph.ops:
        if isinstance(op, Boundary):
            op = replace(op, operands=tuple(map(handed, op.operands)))
        ops.append(op)
    outputs = tuple(map(handed, graph.outputs))
    return without_dead_ops(replace(graph, ops=tuple(ops), outputs=outputs))


def _why_part(part: KernelGraph, rows: Collection[Value], most: int) -> str | None:
    """Say why the rows of a part may depend on each other, or may not be those of its inputs."""
    inputs = [i for i, v in enumerate(part.inputs) if v in rows]
    if not inputs:
        return "rows are made from a tensor without rows" if rows else None
    if not computed_from(part, inputs).issuperset(rows):
        return "rows are made from a tensor without rows"
    return why_rows_depend(part, inputs, most)


def _key(op: External) -> Hashable:
    types = tuple(v.type for v in op.operands), tuple(v.type for v in op.results)
    return op.target, op.arguments, types


def _by_size(call: External, twin: External, most: int) -> CallBySize | str:
    """Return a call in the form for all sizes, derived from the sizes ``most`` and one less;
    otherwise the reason why that is not known."""
    short = call.target.removeprefix("aten.")
    if call.target != twin.target:
        return f"{short} is another call at other sizes"
    try:
        arguments = _in_proportion(call.arguments, twin.arguments, most)
    except ValueError:
        return f"the arguments of {short} are not in proportion to it"
    pairs = (
        tuple(_varies(a, b, most) for a, b in zip(mine, others, strict=True))
        for mine, others in ((call.operands, twin.operands), (call.results, twin.results))
    )
    operands, results = pairs
    if None in operands or None in results:
        return f"{short} has tensors with the size in other than their outermost dimension"
    known: Any = arguments
    return CallBySize(known, tuple(map(bool, operands)), tuple(map(bool, results)))


def _in_proportion(a: object, b: object, most: int) -> object:
    """Return the value that is ``a`` at the size ``most`` and ``b`` at one less. Raises
    ``ValueError``."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        pairs: Any = zip(a, b, strict=True)
        return tuple(_in_proportion(x, y, most) for x, y in pairs)
    if a == b or (a != a and b != b):
        return a
    if isinstance(a, int) and isinstance(b, int) and a == (a - b) * most:
        return Rows(a - b)
    raise ValueError


def _varies(a: Value, b: Value, most: int) -> bool | None:
    """Return whether a tensor has rows; None if it differs in another way."""
    if a.shape == b.shape:
        return False
    each = a.shape[0] - b.shape[0]
    fine = a.shape[1:] == b.shape[1:] and a.shape[0] == each * most and a.dtype is b.dtype
    return True if fine else None
