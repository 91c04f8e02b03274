"""µGraphs as MLIR text, in a context of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirage import ir
from mirage.errors import MirageError, SourceLocation
from mirage.mlir_io.attributes import write_dynamic
from mirage.mlir_io.data import InputNote, ReadGraph
from mirage.mlir_io.reader import graphs_of, read_graph
from mirage.mlir_io.writer import write_graph
from mirage.semantics.ugraph import KernelGraph, Op

_DIALECTS = ("kernel", "block")
"""The dialects of the ops of µGraphs. A context that loads everything takes 3 ms more."""


class MalformedTextError(MirageError, ValueError):
    """The text is not an MLIR module with one `kernel.graph`."""


def graph_to_text(
    graph: KernelGraph,
    *,
    form: str | None = None,
    locations: Mapping[Op, SourceLocation] | None = None,
    notes: Mapping[int, InputNote] | None = None,
    debug_info: bool = False,
    dynamic: tuple[int, Sequence[int]] | None = None,
) -> str:
    """Return a module with ``graph``; ``debug_info`` prints the locations too. ``dynamic`` is the
    largest size and the numbers of the inputs whose rows it determines."""
    with ir.Context(load_on_create_dialects=_DIALECTS):
        module = ir.Module.create(ir.Location.unknown())
        with ir.InsertionPoint(module.body):
            op = write_graph(graph, form=form, locations=locations, notes=notes)
            if dynamic is not None:
                op.attributes["dynamic"] = write_dynamic(*dynamic)
                op.verify()
        return module.operation.get_asm(enable_debug_info=debug_info)


def graph_from_text(text: str, *, name: str | None = None, where: str = "<text>") -> ReadGraph:
    """Return the graph called ``name`` (by default the only one) of the module in ``text``.

    The result has no MLIR locations, since their context no longer exists. Raises
    :class:`MalformedTextError` and :class:`~mirage.mlir_io.GraphIOError`.
    """
    with ir.Context(load_on_create_dialects=_DIALECTS):
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise MalformedTextError(_first_diagnostic(error, where)) from None
        graphs = [read_graph(op) for op in graphs_of(module.operation)]
    named = [g for g in graphs if name is None or g.graph.name == name]
    if len(named) != 1:
        what = f"one kernel.graph called {name!r}" if name else "one kernel.graph"
        there = ", ".join(repr(g.graph.name) for g in graphs) or "none"
        raise MalformedTextError(f"{where}: expected {what}, got {there}")
    (found,) = named
    return ReadGraph(found.graph, found.form, {}, found.notes, found.dynamic)


def _first_diagnostic(error: ir.MLIRError, where: str) -> str:
    for diagnostic in error.error_diagnostics:
        location = diagnostic.location
        place = (
            f"{where}:{location.start_line}:{location.start_col}" if location.is_a_file() else where
        )
        return f"{place}: {diagnostic.message}"
    return f"{where}: {error}"
