"""Programs with a dynamic size: one search for each class of sizes, and one table for all.

A class is solved at its largest size (:mod:`mirage.pipeline.sized_source`). The result holds for
all of its sizes if the rows of the program, and those of the result, do not depend on each other;
its kernels are compiled once more so that they take the size (:mod:`mirage.pipeline.sized_plan`).
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mirage.errors import MirageError
from mirage.frontend.program import SizedProgram
from mirage.pipeline.call import SizedLauncher, SizedRunner, on_gpu_by_size, sized_emulator
from mirage.pipeline.checks.kernel_check import KernelCheck
from mirage.pipeline.options import NothingFoundError, OptimizeOptions
from mirage.pipeline.result import Optimized
from mirage.pipeline.size_bounds import MOST_CLASSES, class_of
from mirage.pipeline.sized_plan import NotForAllSizesError, SizedPlan, compared_at, sized_plan
from mirage.pipeline.sized_source import SizedSource, sized_source
from mirage.runtime.errors import ArgumentCountError, ArgumentSizeError, ArgumentTypeError
from mirage.runtime.launching.by_size import SizedExecutable, SizeTable, write_sizes
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.sizes import common_size
from mirage.verify.other_rows import computed_from

if TYPE_CHECKING:
    import torch


class SizeClassError(MirageError):
    """There is no program whose kernels serve all sizes of a class; the message says why."""


@dataclass(frozen=True)
class SizeClass:
    """The sizes up to ``at_most`` that no smaller class contains: the result at that size, and the
    plan that serves all of them."""

    at_most: int
    optimized: Optimized
    plan: SizedPlan
    checks: tuple[KernelCheck, ...] = ()
    number: int = 0
    """The number of the finalist that was chosen."""

    @property
    def artifact(self) -> Artifact:
        """The only compiled part. Raises :class:`NothingFoundError` if there are several."""
        assert self.optimized.artifact is not None
        return self.plan.artifacts[0]


class OptimizedSizes:
    """An optimized program with a dynamic size. Call it with inputs of any size in its range."""

    def __init__(self, sizes: SizedProgram, classes: Sequence[SizeClass]) -> None:
        self.sizes = sizes
        self.program = sizes.program
        self.classes = tuple(classes)
        self._runners: dict[int, SizedRunner] = {}
        self._executable: SizedExecutable | None = None

    def __repr__(self) -> str:
        name, s = self.program.graph.name, self.sizes
        return (
            f"<optimized {name!r} for {s.name} from {s.at_least} to {s.at_most}: "
            f"{len(self.classes)} sets of kernels>"
        )

    def describe(self) -> str:
        """Describe the choice for each class in words."""
        return "\n\n".join(
            f"{self.sizes.name} up to {c.at_most}\n{c.optimized.describe()}" for c in self.classes
        )

    @property
    def is_one_artifact(self) -> bool:
        """Whether all classes consist of kernels only."""
        return all(c.optimized.is_one_artifact for c in self.classes)

    @property
    def table(self) -> SizeTable:
        """The artifacts as one table. Raises :class:`NothingFoundError` if the program also has
        calls."""
        return SizeTable(
            [c.artifact for c in self.classes], self.sizes.at_least, self.sizes.at_most
        )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the table to ``folder`` (whole or not at all). ``mirage.runtime.load`` reads it;
        the loaded table takes the weights as inputs, too. Raises :class:`NothingFoundError` if
        there are calls of PyTorch besides the kernels: :func:`mirage.export` writes those."""
        if not self.is_one_artifact:
            raise NothingFoundError(
                "expected a program that is kernels alone for all sizes, got one with calls of "
                "PyTorch or views beside them; write it with mirage.export(..., "
                "dynamic_shapes=...) or `mirage export --dynamic`"
            )
        return write_sizes(self.table, folder)

    def __call__(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        """Run the program on tensors on a GPU and return its results. Without a GPU that torch
        sees, kernels run in the emulator, which is exact and slow."""
        import torch

        if not torch.cuda.is_available():
            return self.run(sized_emulator, tensors)
        if self._executable is None and self.is_one_artifact:
            self._executable = SizedExecutable(self.table)
        if self._executable is not None:
            return self._executable(inputs=self.with_weights(tensors))
        return self.run(on_gpu_by_size, tensors)

    def run(
        self, launcher: Callable[[SizedPlan], SizedLauncher], tensors: Sequence[torch.Tensor]
    ) -> tuple[Any, ...]:
        """Run the program and return its results; ``launcher`` returns the function that runs the
        compiled parts of a class."""
        size = self.size_of(tensors)
        s = self.sizes
        if not s.at_least <= size <= s.at_most:
            raise ArgumentSizeError(
                f"expected a size from {s.at_least} to {s.at_most}, which "
                f"{self.program.graph.name!r} was compiled for, got {size}; compile it for more, "
                "or call it with parts of that"
            )
        number = bisect_left([c.at_most for c in self.classes], size)
        if number not in self._runners:
            found = self.classes[number]
            self._runners[number] = SizedRunner(found.optimized.program, found.plan)
        runner = self._runners[number]
        return runner(launcher, self.with_weights(tensors), size)

    def size_of(self, tensors: Sequence[torch.Tensor]) -> int:
        """Return the size of inputs. Raises :class:`~mirage.runtime.errors.CallError`."""
        given = self.with_weights(tensors)
        shapes = [_shape(i, x) for i, x in enumerate(given)]
        inputs = self.program.graph.inputs
        stated = {i: (inputs[i].name, inputs[i].shape) for i in self.sizes.inputs}
        return common_size(stated, self.sizes.at_most, shapes)

    def with_weights(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the inputs of the graph; a caller passes those that are not bound. Raises
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


def _shape(number: int, x: object) -> tuple[int, ...]:
    shape = getattr(x, "shape", None)
    if shape is None:
        raise ArgumentTypeError(f"input {number}: expected a torch.Tensor, got {type(x).__name__}")
    return tuple(shape)


def classes_of(sizes: SizedProgram) -> tuple[int, ...]:
    """Return the largest sizes of the classes. The last one is at least the largest size of all."""
    found: list[int] = []
    least = sizes.at_least
    while not found or found[-1] < sizes.at_most:
        found.append(class_of(least, sizes.at_most))
        least = found[-1] + 1
    return tuple(found)


ClassSolver: TypeAlias = "Callable[[SizedSource, OptimizeOptions, str], SizeClass]"
"""A function that finds the kernels of a class, given the name of the size."""


def solve_classes(
    sizes: SizedProgram, options: OptimizeOptions, solver: ClassSolver
) -> OptimizedSizes:
    """Optimize a program with a dynamic size; ``options`` apply to each class.

    Raises the errors of ``solver``, :class:`DynamicShapeError` if rows depend on each other, and
    :class:`SizeClassError`.
    """
    sources = {most: sized_source(sizes, most) for most in reversed(classes_of(sizes))}

    def solve(least: int, most: int) -> SizeClass:
        source = sources.get(most)
        if source is None or source.least != least:
            source = sources[most] = sized_source(sizes, most, least)
        return solver(source, options, sizes.name)

    def split(found: SizeClass) -> int | None:
        return split_of(sources[found.at_most], found)

    classes = [solve(source.least, most) for most, source in reversed(sources.items())]
    return OptimizedSizes(
        sizes, with_splits(classes, sources[classes[0].at_most].least, split, solve)
    )


def split_of(source: SizedSource, found: SizeClass) -> int | None:
    """Return the size up to which sizes should form a class of their own, because another finalist
    is predicted to be much faster there. None if the choice is near the best everywhere."""
    optimized = found.optimized
    compared = compared_at(source, optimized.options.chip)
    graphs = [optimized.with_finalist(n).graph for n in range(len(optimized.finalists))]
    if not computed_from(optimized.graph, source.inputs):
        return None
    return compared.split(compared.restaged(optimized.graph), graphs)


def with_splits(
    classes: Sequence[SizeClass], least: int, split: Callable[[SizeClass], int | None],
    solve: Callable[[int, int], SizeClass],
) -> list[SizeClass]:  # fmt: skip
    """Return the classes from the size ``least`` on, split as ``split`` says as long as there are
    not too many."""
    found = list(classes)
    number = 0
    while number < len(found) and len(found) < MOST_CLASSES:
        most = found[number].at_most
        at = split(found[number])
        if at is None or not least <= at < most:
            number += 1
            least = most + 1
        else:
            found[number : number + 1] = [solve(least, at), solve(at + 1, most)]
    return found


def _order(source: SizedSource, optimized: Optimized) -> Sequence[int]:
    """Return the numbers of the finalists in the order in which they are tried: by measurements at
    the largest size if there are any, otherwise by predictions at all sizes."""
    numbers = range(len(optimized.finalists))
    if optimized.report.measured is not None or not computed_from(optimized.graph, source.inputs):
        return numbers
    graphs = [optimized.with_finalist(number).graph for number in numbers]
    return compared_at(source, optimized.options.chip).tied_first(graphs)


def solve_class(source: SizedSource, optimized: Optimized, name: str) -> SizeClass:
    """Return the class of a program, made of the first result for its largest size that serves the
    whole class. Raises :class:`SizeClassError`."""
    check = optimized.options.check_kernels
    reasons: list[str] = []
    for number in _order(source, optimized):
        chosen = optimized if number == 0 else optimized.with_finalist(number)
        try:
            plan, checks = sized_plan(chosen, source, check=check)
        except NotForAllSizesError as error:
            reasons.append(error.message)
        else:
            return SizeClass(source.most, chosen, plan, checks, number)
    told = "; ".join(dict.fromkeys(reasons))
    raise SizeClassError(
        f"expected kernels for {name} up to {source.most} whose rows do not depend on each other, "
        f"got none among {len(reasons)} programs: {told}"
    )
