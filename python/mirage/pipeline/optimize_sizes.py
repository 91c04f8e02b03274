"""The whole way for programs with a dynamic size: all classes, or one of them.

Which of what was found at the largest size of a class serves all of its sizes is kept in the cache:
another run neither executes its kernels nor tries those before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from mirage.cache import key_of, kind_version, shared_store
from mirage.frontend.program import Program, SizedProgram
from mirage.pipeline.kept_program import is_kept, key_for
from mirage.pipeline.optimize import load_found, optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Optimized
from mirage.pipeline.size_classes import OptimizedSizes, SizeClass, solve_class, solve_classes
from mirage.pipeline.sized_plan import NotForAllSizesError, sized_plan
from mirage.pipeline.sized_source import SizedSource

KIND = "class"
Optimizer: TypeAlias = Callable[[Program, OptimizeOptions], Optimized]
"""Optimizes a program of one size."""


def optimize_sizes(sizes: SizedProgram, options: OptimizeOptions | None = None) -> OptimizedSizes:
    """:func:`mirage.optimize` for a program with a dynamic size, for all of them
    (:mod:`mirage.pipeline.size_classes`)."""
    return solve_classes(sizes, options or OptimizeOptions(), optimize_class)


def key_of_class(source: SizedSource, options: OptimizeOptions) -> str:
    """The key of a class: that of its program at the largest size, and what has rows."""
    program, _ = key_for(source.program, options)
    return key_of(KIND, kind_version(KIND), program, source.most, source.inputs)


def optimize_class(
    source: SizedSource, options: OptimizeOptions, name: str, optimizer: Optimizer = optimize
) -> SizeClass:
    """What was found for a class before, else what is found now. Raises the errors of
    ``optimizer`` and :class:`~mirage.pipeline.size_classes.SizeClassError`."""
    found = load_class(source, options)
    if found is not None:
        return found
    found = solve_class(source, optimizer(source.program, options), name)
    if options.use_cache:
        graph = source.program.graph
        about = f"{graph.name or 'program'} for {options.chip}: {name} up to {source.most}"
        shared_store().put(
            KIND, key_of_class(source, options), str(found.number).encode(),
            version=kind_version(KIND), about=about,
        )  # fmt: skip
    return found


def class_is_kept(source: SizedSource, options: OptimizeOptions) -> bool:
    """Whether an earlier run has found the class."""
    if not options.reuses or not is_kept(source.program, options):
        return False
    return shared_store().has(KIND, key_of_class(source, options))


def load_class(
    source: SizedSource, options: OptimizeOptions, *, run: bool = True
) -> SizeClass | None:
    """What an earlier run has found for a class, None where there is nothing. Without ``run`` no
    kernel is run to check it."""
    if not options.reuses:
        return None
    payload = shared_store().get(KIND, key_of_class(source, options))
    optimized = None if payload is None else load_found(source.program, options, run=run)
    if payload is None or optimized is None:
        return None
    try:
        number = int(payload)
        chosen = optimized if number == 0 else optimized.with_finalist(number)
        plan, checks = sized_plan(chosen, source, check=False)
    except (ValueError, IndexError, NotForAllSizesError) as error:
        shared_store().damaged(KIND, key_of_class(source, options), str(error))
        return None
    return replace(SizeClass(source.most, chosen, plan, checks), number=number)
