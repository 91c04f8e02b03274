"""A program in the form that the front ends produce."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from mirage.errors import SourceLocation
from mirage.frontend.errors import InvalidGraphError
from mirage.semantics.ugraph import KernelGraph, Op, Value

if TYPE_CHECKING:
    from mirage.pipeline.result import Optimized
    from mirage.pipeline.size_classes import OptimizedSizes

T = TypeVar("T")


@dataclass(frozen=True)
class Parameter:
    """An input that the caller does not pass: a weight or buffer of the imported module.

    ``data`` is the ``torch.Tensor`` itself (not a copy), so that later updates of the module are
    seen."""

    index: int  # position among the graph's inputs
    name: str  # as in ``module.state_dict()``; for a constant, its name in the program
    data: object
    trained: bool = True
    """Whether it may hold any values (an ``nn.Parameter``); the contents of a buffer or constant
    are part of the program."""
    also: tuple[str, ...] = ()
    """Other names that the module has for the same parameter (tied weights)."""


@dataclass(frozen=True)
class IndexLimit:
    """All elements of an input are indices of ``below`` places, counted from the end if they are
    negative and ``from_end`` holds, or equal ``ignored``; PyTorch raises an error for others. With
    ``steps``, it is what they compute from inputs, of which ``input`` is the first one
    (:mod:`mirage.runtime.serialization.index_steps`). ``below`` grows by ``each`` with a dynamic
    size."""

    input: int  # position among the graph's inputs
    below: int
    from_end: bool = False
    ignored: int | None = None
    steps: tuple[str, ...] = ()
    each: int = 0


@dataclass(frozen=True)
class Fixed:
    """A result that is not a tensor: None, or a number that does not depend on the inputs."""

    value: bool | int | float | str | None


@dataclass(frozen=True)
class Seen:
    """A result of a type that kernels do not have; the graph's output ``output`` carries it
    (:mod:`mirage.runtime.dispatch.carriers`)."""

    output: int
    dtype: str


@dataclass(frozen=True)
class Program:
    """A kernel graph with the places of its ops in the user's program, its bound inputs, and the
    structure of its results.

    ``results`` gives each result's place among the graph's outputs, or its value if it is not a
    tensor; without ``results``, the outputs are the results. ``keys`` gives the place of each
    result in the returned structure (``['loss']``, ``[0]``; empty: not known). ``unread`` names
    bound tensors that no result depends on. ``updates`` are inputs of the graph that the program
    writes to: the first outputs are their new contents. ``carriers`` maps the numbers of inputs
    that carry tensors of types that kernels do not have to those types. ``limits`` says which
    numbers PyTorch accepts as indices. With ``misses_are_errors``, minus infinity is added only
    where a lookup names no element, for which PyTorch raises an error.
    """

    graph: KernelGraph
    locations: Mapping[Op, SourceLocation] = field(default_factory=dict[Op, SourceLocation])
    parameters: tuple[Parameter, ...] = ()
    results: tuple[int | Fixed | Seen, ...] | None = None
    keys: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    updates: tuple[int, ...] = ()
    carriers: Mapping[int, str] = field(default_factory=dict[int, str])
    limits: tuple[IndexLimit, ...] = ()
    misses_are_errors: bool = False

    @property
    def call_inputs(self) -> tuple[Value, ...]:
        """The inputs that a caller passes, in order."""
        bound = {p.index for p in self.parameters}
        return tuple(v for i, v in enumerate(self.graph.inputs) if i not in bound)

    def returned(
        self, outputs: Sequence[T], seen: Callable[[T, str], T] = lambda output, dtype: output
    ) -> tuple[T | bool | int | float | str | None, ...]:
        """Return all results, given the graph's ``outputs``; ``seen`` returns the tensor that an
        output carries, given its type."""
        if self.results is None:
            return tuple(outputs)
        found: list[T | bool | int | float | str | None] = []
        for r in self.results:
            if isinstance(r, Fixed):
                found.append(r.value)
            else:
                found.append(
                    seen(outputs[r.output], r.dtype) if isinstance(r, Seen) else outputs[r]
                )
        return tuple(found)

    @property
    def foreign(self) -> tuple[str, ...]:
        """The types of inputs, weights and results that kernels do not have."""
        results = (r.dtype for r in self.results or () if isinstance(r, Seen))
        return tuple(dict.fromkeys((*self.carriers.values(), *results)))

    # The only imports of a higher layer, so that a program can be optimized by a method of it.

    def superoptimize(self, **options: object) -> Optimized:
        """Optimize the program by :func:`mirage.optimize` with these options (fields of
        ``mirage.OptimizeOptions``)."""
        from mirage.pipeline.optimize import OptimizeOptions, optimize

        return optimize(self, OptimizeOptions.of(**options))

    def compile(self, **options: object) -> Optimized:
        """Compile the program by :func:`mirage.pipeline.optimize.compile_graph` with these
        options."""
        from mirage.pipeline.optimize import OptimizeOptions, compile_graph

        return compile_graph(self, OptimizeOptions.of(**options))


@dataclass(frozen=True)
class SizedProgram:
    """A program for each size from ``at_least`` to ``at_most``; ``at`` returns it at one size.
    ``inputs`` are the numbers of the graph's inputs that have rows in proportion to the size, and
    ``name`` is the name of the size."""

    name: str
    at_least: int
    at_most: int
    inputs: tuple[int, ...]
    at: Callable[[int], Program]

    @property
    def program(self) -> Program:
        """The program at the largest size."""
        return self.at(self.at_most)

    def superoptimize(self, **options: object) -> OptimizedSizes:
        """Optimize the program by :func:`mirage.pipeline.optimize.optimize_sizes` with these
        options (fields of ``mirage.OptimizeOptions``)."""
        from mirage.pipeline.optimize import OptimizeOptions, optimize_sizes

        return optimize_sizes(self, OptimizeOptions.of(**options))


def check_inputs_used(graph: KernelGraph, locations: Mapping[Value, SourceLocation | None]) -> None:
    """Raise :class:`InvalidGraphError` if an input reaches no output."""
    used = {v for op in graph.ops for v in op.operands} | set(graph.outputs)
    for i, value in enumerate(graph.inputs):
        if value not in used:
            name = f" {value.name!r}" if value.name else ""
            raise InvalidGraphError(
                f"expected every input to reach an output, got unused input {i}{name} "
                f"({value.type}); remove it",
                locations.get(value),
            )
