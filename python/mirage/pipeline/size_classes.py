"""Programs with a dynamic size: one search for each class of sizes, one table for all.

A class is solved at its largest size. What is found there holds for all of its sizes where the rows
of the program, and of what was found, do not depend on each other
(:mod:`mirage.verify.independent_rows`); its kernels are compiled once more to take the size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mirage.compiler.errors import CompileError
from mirage.errors import MirageError
from mirage.frontend.errors import DynamicShapeError
from mirage.frontend.program import Program, SizedProgram
from mirage.pipeline.checks.emulated_check import emulated, kernel_ops
from mirage.pipeline.checks.kernel_check import KernelCheck, Outcome
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Optimized
from mirage.runtime.artifact import Artifact
from mirage.runtime.by_size import SizedExecutable, SizeTable, write_sizes
from mirage.runtime.errors import ArgumentCountError
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.independent_rows import why_rows_depend

if TYPE_CHECKING:
    import torch

SMALLEST = 16
"""The largest size of the first class: rows of the smallest tile of matrix products."""
GROWTH = 4
"""How many times larger each class goes than the one before."""


class SizeClassError(MirageError):
    """No program was found whose kernels serve all sizes of a class; the message says why."""


@dataclass(frozen=True)
class SizeClass:
    """The sizes up to ``at_most`` that no smaller class has: what was found at that size, and the
    artifact that serves all of them."""

    at_most: int
    optimized: Optimized
    artifact: Artifact
    checks: tuple[KernelCheck, ...] = ()


class OptimizedSizes:
    """A program with a dynamic size, optimized: call it with inputs of any size in its range."""

    def __init__(self, sizes: SizedProgram, classes: Sequence[SizeClass]) -> None:
        self.sizes = sizes
        self.program = sizes.program
        self.classes = tuple(classes)
        artifacts = [c.artifact for c in self.classes]
        self.table = SizeTable(artifacts, self.sizes.at_least, self.sizes.at_most)
        self._executable: SizedExecutable | None = None

    def __repr__(self) -> str:
        name, s = self.program.graph.name, self.sizes
        return (
            f"<optimized {name!r} for {s.name} from {s.at_least} to {s.at_most}: "
            f"{len(self.classes)} sets of kernels>"
        )

    def describe(self) -> str:
        """What was chosen for each class, in words."""
        return "\n\n".join(
            f"{self.sizes.name} up to {c.at_most}\n{c.optimized.describe()}" for c in self.classes
        )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes the table to ``folder`` (whole or not at all); ``mirage.runtime.load`` reads it,
        and what that gives takes the weights as inputs, too."""
        return write_sizes(self.table, folder)

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self._executable is None:
            self._executable = SizedExecutable(self.table)
        return self._executable(inputs=self.with_weights(tensors))

    def with_weights(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs of the graph, of which a caller passes those that are not bound. Raises
        :class:`ArgumentCountError`."""
        names = [v.name for v in self.program.call_inputs]
        if len(tensors) != len(names):
            raise ArgumentCountError(
                f"expected {len(names)} input tensors ({', '.join(names)}), got {len(tensors)}"
            )
        bound: dict[int, Any] = {p.index: p.data for p in self.program.parameters}
        rest = iter(tensors)
        count = len(self.program.graph.inputs)
        return [bound[i].detach() if i in bound else next(rest) for i in range(count)]


def classes_of(sizes: SizedProgram) -> tuple[int, ...]:
    """The largest sizes of the classes. That of the last is not below the largest size of all, and
    a multiple of the first, so that tiles divide it."""
    last = -(-sizes.at_most // SMALLEST) * SMALLEST
    found: list[int] = []
    most = SMALLEST
    while most < last:
        if most >= sizes.at_least:
            found.append(most)
        most *= GROWTH
    return (*found, last)


Optimizer: TypeAlias = Callable[[Program, OptimizeOptions], Optimized]
"""Optimizes a program of one size."""


def solve_classes(
    sizes: SizedProgram, options: OptimizeOptions, optimizer: Optimizer
) -> OptimizedSizes:
    """Optimizes a program with a dynamic size; ``options`` are those of each class.

    Raises the errors of ``optimizer``, :class:`DynamicShapeError` where rows depend on each other,
    and :class:`SizeClassError`.
    """
    bounds = classes_of(sizes)
    largest = sizes.at(bounds[-1])
    why = why_rows_depend(largest.graph, sizes.inputs, bounds[-1])
    if why is not None:
        raise DynamicShapeError(
            f"expected rows along {sizes.name} that do not depend on each other, but {why}; "
            "import the program without dynamic_shapes"
        )
    return OptimizedSizes(
        sizes, [_class(sizes, most, optimizer(sizes.at(most), options)) for most in bounds]
    )


def _class(sizes: SizedProgram, most: int, optimized: Optimized) -> SizeClass:
    """The class up to ``most``, of the first program found for that size that serves all of it."""
    reasons: list[str] = []
    for number in range(len(optimized.finalists)):
        chosen = optimized if number == 0 else optimized.with_finalist(number)
        found = _for_all_sizes(chosen, sizes, most)
        if isinstance(found, SizeClass):
            return found
        reasons.append(found)
    told = "; ".join(dict.fromkeys(reasons))
    raise SizeClassError(
        f"expected kernels for {sizes.name} up to {most} whose rows do not depend on each other, "
        f"got none among {len(reasons)} programs: {told}"
    )


def _for_all_sizes(optimized: Optimized, sizes: SizedProgram, most: int) -> SizeClass | str:
    """What was found at the largest size of a class, for all its sizes; else why it is not."""
    if not optimized.is_one_artifact:
        return "a part stays with PyTorch, or a result is no tensor of its own"
    (step,) = optimized.steps
    graph = step.graph
    assert graph is not None
    why = why_rows_depend(graph, sizes.inputs, most)
    if why is not None:
        return why
    try:
        artifact = _compiled(graph, optimized, sizes, most)
    except CompileError as error:
        return error.message.splitlines()[-1]
    checks: tuple[KernelCheck, ...] = ()
    if optimized.options.check_kernels:
        kernels = artifact.manifest.kernels
        ops = zip(kernel_ops(graph), kernels, strict=True)
        checks = tuple(emulated(op, kernel, artifact) for op, kernel in ops)
    wrong = [c.text for c in checks if c.outcome is Outcome.FAILED]
    if wrong:
        return f"a kernel is wrong: {wrong[0]}"
    return SizeClass(most, optimized, artifact, checks)


def _compiled(graph: KernelGraph, optimized: Optimized, sizes: SizedProgram, most: int) -> Artifact:
    """The kernels of ``graph`` as they take the size."""
    from mirage.compiler import CompileOptions, Names, compile_text
    from mirage.mlir_io import graph_to_text

    o, known = optimized.options, optimized.artifact.manifest
    names = Names(
        tuple(t.name for t in known.inputs),
        tuple(t.name for t in known.outputs),
        {i: t.parameter for i, t in enumerate(known.inputs) if t.parameter is not None},
    )
    text = graph_to_text(graph, form="selected", dynamic=(most, sizes.inputs))
    compiled = compile_text(
        text,
        CompileOptions(chip=o.chip, cubin=o.cubin, use_cache=o.use_cache),
        names=names,
        evidence=known.evidence,
        prediction=known.prediction,
    )
    manifest = compiled.artifact.manifest
    assert manifest.size is not None
    missing = {*range(len(manifest.outputs))} - {*manifest.size.outputs}
    if missing or manifest.size.inputs != tuple(sorted(sizes.inputs)):
        raise CompileError(f"expected all results to have rows, got none of {sorted(missing)}")
    return replace(compiled.artifact, manifest=manifest)
