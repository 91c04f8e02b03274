"""What the passes share: each `kernel.graph` read, handed to a stage and written back in its
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
    """Applies ``stage`` to each graph of ``module``, whose form must be one of ``before`` and
    becomes ``after``.

    None in ``before`` stands for a graph without a form, as ``after`` for leaving the form as it
    is. Errors are :class:`PassError` at the graph."""
    from mirage import ir
    from mirage.mlir_io import graphs_of, read_graph, write_graph

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
            write_graph(
                graph, form=form, locations=read.locations, notes=read.notes, default=op.location
            )
        op.erase()
