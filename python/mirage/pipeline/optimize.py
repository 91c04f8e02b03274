"""Optimization of a program, from its source to a callable.

optimized = optimize(program, OptimizeOptions(chip="h200"))
print(optimized.describe())
out, = optimized(x, w)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from mirage.cache import key_of, kind_version, shared_store
from mirage.frontend.errors import GraphTypeError
from mirage.frontend.location import user_location
from mirage.frontend.program import Program, SizedProgram
from mirage.pipeline.checks.defined_somewhere import check_defined_somewhere
from mirage.pipeline.errors import StageError
from mirage.pipeline.kept_program import found_before, is_kept, key_for
from mirage.pipeline.optimization import Optimization, OutdatedError
from mirage.pipeline.options import NothingFoundError, OptimizeOptions, OptionError
from mirage.pipeline.result import Finalist, Optimized, Report, Step
from mirage.pipeline.size_classes import OptimizedSizes, SizeClass, solve_class, solve_classes
from mirage.pipeline.sized_plan import NotForAllSizesError, sized_plan
from mirage.pipeline.sized_source import SizedSource
from mirage.semantics.ugraph import KernelGraph

if TYPE_CHECKING:
    from mirage.frontend.kernel_graph import GraphBuilder
    from mirage.frontend.torch_import import ImportedGraph

Source: TypeAlias = "Program | KernelGraph | GraphBuilder | ImportedGraph"
"""The sources that can be optimized: a built or imported graph, or one as data."""


def optimize(program: Source, options: OptimizeOptions | None = None) -> Optimized:
    """Search for faster equivalent programs, verify each, and compile the cheapest.

    Where no candidate of a part is left, the part keeps its own ops, and the report says why.
    Raises the errors of the stages, :class:`NothingFoundError` where not even those can be taken,
    and :class:`~mirage.frontend.errors.InvalidGraphError` for a program that is defined for no
    inputs.
    """
    program, options = _as_program(program), options or OptimizeOptions()
    check_defined_somewhere(program)
    if options.reuses:
        found = load_found(program, options)
        if found is not None:
            return found
    try:
        return Optimization(program, options).optimize()
    except OutdatedError:
        return Optimization(program, replace(options, fresh=True)).optimize()


def load_found(program: Program, options: OptimizeOptions, *, run: bool = True) -> Optimized | None:
    """Return the result of an earlier run for a program, without any search; None if there is none.
    Without ``run``, no kernel is run to check it."""
    return found_before(
        program, options, lambda: Optimization(program, options).forms_alone(), run=run
    )


def compile_graph(program: Source, options: OptimizeOptions | None = None) -> Optimized:
    """Compile a program whose kernels are already chosen (written by hand); nothing is searched or
    verified.
    """
    return Optimization(_as_program(program), options or OptimizeOptions()).compile_only()


def _as_program(source: Source) -> Program:
    if isinstance(source, Program):
        return source
    if isinstance(source, KernelGraph):
        return Program(source)
    program = getattr(source, "program", None)  # a method of a builder, an attribute of an import
    found = program() if callable(program) else program
    if not isinstance(found, Program):
        raise GraphTypeError(
            "optimize: expected a graph (import a module with mirage.from_torch first), got "
            f"{type(source).__name__}",
            user_location(),
        )
    return found


# ---- programs with a dynamic size ----------------------------------------------------------------

CLASS = "class"
Optimizer: TypeAlias = Callable[[Program, OptimizeOptions], Optimized]
"""A function that optimizes a program of one size."""


def optimize_sizes(sizes: SizedProgram, options: OptimizeOptions | None = None) -> OptimizedSizes:
    """Optimize a program with a dynamic size, for all of its sizes, like :func:`mirage.optimize`
    (:mod:`mirage.pipeline.size_classes`)."""
    return solve_classes(sizes, options or OptimizeOptions(), optimize_class)


def _for_classes(options: OptimizeOptions) -> OptimizeOptions:
    """Return options whose parts are kernels, since a part's calls are known at one size only, and
    whose kernels do not depend on whether the number of rows is a multiple."""
    bounds = {**options.bounds, "row_classes": 1}
    return replace(options, pytorch_where_faster=False, bounds=bounds)


def key_of_class(source: SizedSource, options: OptimizeOptions) -> str:
    """Return the key of a class, made of the key of its program at the largest size and the tensors
    that have rows."""
    program, _ = key_for(source.program, _for_classes(options))
    return key_of(CLASS, kind_version(CLASS), program, source.least, source.most, source.inputs)


def optimize_class(
    source: SizedSource, options: OptimizeOptions, name: str, optimizer: Optimizer = optimize
) -> SizeClass:
    """Return the result for a class, of an earlier run if there is one. Raises the errors of
    ``optimizer`` and :class:`~mirage.pipeline.size_classes.SizeClassError`."""
    found = load_class(source, options)
    if found is not None:
        return found
    found = solve_class(source, optimizer(source.program, _for_classes(options)), name)
    if options.use_cache:
        graph = source.program.graph
        about = f"{graph.name or 'program'} for {options.chip}: {name} up to {source.most}"
        shared_store().put(
            CLASS, key_of_class(source, options), str(found.number).encode(),
            version=kind_version(CLASS), about=about,
        )  # fmt: skip
    return found


def class_is_kept(source: SizedSource, options: OptimizeOptions) -> bool:
    """Return whether an earlier run has a result for the class."""
    if not options.reuses or not is_kept(source.program, _for_classes(options)):
        return False
    return shared_store().has(CLASS, key_of_class(source, options))


def load_class(
    source: SizedSource, options: OptimizeOptions, *, run: bool = True
) -> SizeClass | None:
    """Return the result of an earlier run for a class, or None. Without ``run``, no kernel is run
    to check it."""
    if not options.reuses:
        return None
    payload = shared_store().get(CLASS, key_of_class(source, options))
    if payload is None:
        return None
    optimized = load_found(source.program, _for_classes(options), run=run)
    if optimized is None:
        return None
    try:
        number = int(payload)
        chosen = optimized if number == 0 else optimized.with_finalist(number)
        plan, checks = sized_plan(chosen, source, check=False)
    except (ValueError, IndexError, NotForAllSizesError) as error:
        shared_store().damaged(CLASS, key_of_class(source, options), str(error))
        return None
    return replace(SizeClass(source.most, chosen, plan, checks), number=number)


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
