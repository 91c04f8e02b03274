"""Conversion between MLIR and µGraphs as plain data, in both directions and without loss.

    read = read_graph(operation)                 # a kernel.graph
    write_graph(graph, form="reference")         # at the current insertion point

Every op of the `kernel` dialect except compiled calls has a counterpart, and so has every op of the
`block` dialect except those that layout assignment inserts. Anything else is a
:class:`GraphIOError` at its operation."""

from mirage.mlir_io.data import GraphIOError, InputNote, ReadGraph
from mirage.mlir_io.reader import graphs_of, read_graph
from mirage.mlir_io.text import graph_from_text, graph_to_text
from mirage.mlir_io.writer import write_graph

__all__ = [
    "GraphIOError",
    "InputNote",
    "ReadGraph",
    "graph_from_text",
    "graph_to_text",
    "graphs_of",
    "read_graph",
    "write_graph",
]
