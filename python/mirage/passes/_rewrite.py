"""Code that passes share: each `kernel.graph` is read, passed to a stage and written back in its
place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mirage.errors import MirageError, OperationError
from mirage.passes.registry import PassError
from mirage.semantics.ugraph import KernelGraph

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph


def rewrite_graphs(
    module: ir.Operation,
    before: tuple[str | None, ...],
    after: str | None,
    stage: Callable[[ReadGraph, ir.Operation], KernelGraph],
) -> None:
    """Apply ``stage`` to each graph of ``module``, whose form must be one of ``before`` and becomes
    ``after``.

    None in ``before`` stands for a graph without a form, and in ``after`` it leaves the form
    unchanged. A graph with a dynamic size keeps it; kernels whose rows depend on each other are
    refused. Errors are :class:`PassError` at the graph."""
    from mirage import ir
    from mirage.mlir_io import graphs_of, read_graph, write_graph
    from mirage.mlir_io.attributes import write_dynamic

    for op in list(graphs_of(module)):
        read = read_graph(op)
        if read.form not in before:
            expected = " or ".join("none" if form is None else f"'{form}'" for form in before)
            actual = "none" if read.form is None else f"'{read.form}'"
            raise PassError(f"expected form {expected}, got {actual}", op)
        try:
            graph = stage(read, op)
        except OperationError:
            raise
        except MirageError as error:
            raise PassError(error.message, op) from error
        form = read.form if after is None else after
        with op.context, ir.InsertionPoint(op):
            written = write_graph(
                graph, form=form, locations=read.locations, notes=read.notes, default=op.location
            )
            if read.dynamic is not None:
                _check_rows(graph, read.dynamic, op)
                written.attributes["dynamic"] = write_dynamic(*read.dynamic)
        op.erase()


def _check_rows(graph: KernelGraph, dynamic: tuple[int, tuple[int, ...]], at: ir.Operation) -> None:
    """Check that rows of kernels do not depend on each other, since kernels stand for all sizes
    only then. Candidates in alternatives are not checked, since none is chosen yet."""
    from mirage.semantics.alternatives import parts_of
    from mirage.semantics.ugraph import launches
    from mirage.verify.independent_rows import why_rows_depend

    if parts_of(graph) or not list(launches(graph.ops)):
        return
    size, inputs = dynamic
    why = why_rows_depend(graph, inputs, size)
    if why is not None:
        raise PassError(
            f"expected kernels whose rows do not depend on each other, as the graph is dynamic, "
            f"but {why}; leave the attribute 'dynamic' out for kernels of one size",
            at,
        )
