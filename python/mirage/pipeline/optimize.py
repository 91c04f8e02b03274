"""The whole way, from a program to something that can be called.

optimized = optimize(program, OptimizeOptions(chip="h200"))
print(optimized.describe())
out, = optimized(x, w)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from mirage.frontend.errors import GraphTypeError
from mirage.frontend.location import user_location
from mirage.frontend.program import Program
from mirage.pipeline.errors import StageError
from mirage.pipeline.kept_program import found_before
from mirage.pipeline.optimization import Optimization, OutdatedError
from mirage.pipeline.options import NothingFoundError, OptimizeOptions, OptionError
from mirage.pipeline.result import Finalist, Optimized, Report, Step
from mirage.semantics.ugraph import KernelGraph

if TYPE_CHECKING:
    from mirage.frontend.kernel_graph import GraphBuilder
    from mirage.frontend.torch_import import ImportedGraph

Source: TypeAlias = "Program | KernelGraph | GraphBuilder | ImportedGraph"
"""What can be optimized: a built or imported graph, or one as data."""


def optimize(program: Source, options: OptimizeOptions | None = None) -> Optimized:
    """Searches for faster equivalent programs, verifies each, takes the cheapest and compiles it.

    Where no candidate of a part is left, the part keeps its own ops, and the report says why.
    Raises the errors of the stages, and :class:`NothingFoundError` where not even those can be
    taken.
    """
    program, options = _as_program(program), options or OptimizeOptions()
    if options.reuses:
        found = load_found(program, options)
        if found is not None:
            return found
    try:
        return Optimization(program, options).optimize()
    except OutdatedError:
        return Optimization(program, replace(options, fresh=True)).optimize()


def load_found(program: Program, options: OptimizeOptions, *, run: bool = True) -> Optimized | None:
    """What an earlier run has found for a program, without any search; None where there is nothing.
    Without ``run`` no kernel is run to check it."""
    return found_before(
        program, options, lambda: Optimization(program, options).forms_alone(), run=run
    )


def compile_graph(program: Source, options: OptimizeOptions | None = None) -> Optimized:
    """Compiles a program whose kernels are chosen already (written by hand): no search, nothing to
    verify against.
    """
    return Optimization(_as_program(program), options or OptimizeOptions()).compile_only()


def _as_program(source: Source) -> Program:
    if isinstance(source, Program):
        return source
    if isinstance(source, KernelGraph):
        return Program(source)
    program = getattr(source, "program", None)  # of a builder a method, of an import an attribute
    found = program() if callable(program) else program
    if not isinstance(found, Program):
        raise GraphTypeError(
            "optimize: expected a graph (import a module with mirage.from_torch first), got "
            f"{type(source).__name__}",
            user_location(),
        )
    return found


__all__ = [
    "Finalist",
    "NothingFoundError",
    "OptimizeOptions",
    "Optimized",
    "OptionError",
    "Report",
    "StageError",
    "Step",
    "compile_graph",
    "load_found",
    "optimize",
]
