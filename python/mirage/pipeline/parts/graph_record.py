"""µGraphs as the cache stores them: MLIR, and the names of values.

Names are not part of a graph's meaning, but artifacts contain them, and the same program must
become the same artifact. A record is checked when it is read, by MLIR's parser and the dialects'
verifiers, by the rules of µGraphs (:mod:`mirage.semantics.check`), and by the types of inputs and
outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirage.errors import MirageError
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.signature import signature
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, Value, values_in


class BadRecordError(ValueError):
    """A record is not that of a graph with this interface."""


@dataclass(frozen=True)
class GraphRecord:
    """MLIR with one ``kernel.graph``, and the names of its values in order of definition."""

    text: str
    names: tuple[str, ...]


def record_of(graph: KernelGraph) -> GraphRecord:
    """Return the record of a graph. Raises :class:`BadRecordError` if it does not read back as the
    same graph."""
    from mirage import ir
    from mirage.mlir_io import GraphIOError, graph_to_text

    try:
        record = GraphRecord(graph_to_text(graph), tuple(v.name for v in _values(graph)))
    except (GraphIOError, ir.MLIRError) as error:
        raise BadRecordError(f"the graph has no MLIR: {error}") from None
    if signature(graph_of(record, graph)) != signature(graph):
        raise BadRecordError("the graph does not read back as the same")
    return record


def graph_of(record: GraphRecord, reference: KernelGraph) -> KernelGraph:
    """Return the recorded graph, with the name and the inputs of ``reference``, whose interface it
    has. Raises :class:`BadRecordError`."""
    read = graph_by_itself(record, reference.name)
    if _types(read.inputs) != _types(reference.inputs):
        raise BadRecordError("its inputs have other types than those of the reference")
    if _types(read.outputs) != _types(reference.outputs):
        raise BadRecordError("its outputs have other types than those of the reference")
    return rename_graph(read, dict(zip(read.inputs, reference.inputs, strict=True)))


def graph_by_itself(record: GraphRecord, name: str) -> KernelGraph:
    """Return the recorded graph, whatever its interface is. Raises :class:`BadRecordError`."""
    from mirage.mlir_io import graph_from_text

    try:
        read = graph_from_text(record.text).graph
    except MirageError as error:
        raise BadRecordError(f"its IR is not valid: {error}") from None
    values = list(_values(read))
    if len(values) != len(record.names):
        raise BadRecordError(f"expected {len(record.names)} values, got {len(values)}")
    new = {v: Value(v.type, known) for v, known in zip(values, record.names, strict=True)}
    graph = replace(rename_graph(read, new), name=name)
    try:
        check_graph(graph)
    except InvalidGraph as error:
        raise BadRecordError(str(error)) from None
    return graph


def _values(graph: KernelGraph) -> Sequence[Value]:
    return (*graph.inputs, *values_in(graph.ops))


def _types(values: Sequence[Value]) -> list[str]:
    return [str(v.type) for v in values]
