"""A program as the front ends hand it on."""

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
    name: str  # as in ``module.state_dict()``; of a constant the name that the program gives it
    data: object
    trained: bool = True
    """Whether it may hold anything (an ``nn.Parameter``); what a buffer or a constant holds is part
    of the program."""


@dataclass(frozen=True)
class Fixed:
    """A result that is no tensor: None, or a number that does not depend on the inputs."""

    value: bool | int | float | str | None


@dataclass(frozen=True)
class Program:
    """A kernel graph with what else is known of it: where its ops stand in the user's program,
    bound inputs, and which results are no tensors (``results`` has the others' places among the
    graph's outputs; left out, the outputs are the results). ``keys`` says where each result stands
    in what the program returns (``['loss']``, ``[0]``; empty: not known), ``unread`` names bound
    tensors that no result depends on. ``updates`` are inputs of the graph that the program writes
    to: the first outputs are what they hold afterwards.
    """

    graph: KernelGraph
    locations: Mapping[Op, SourceLocation] = field(default_factory=dict[Op, SourceLocation])
    parameters: tuple[Parameter, ...] = ()
    results: tuple[int | Fixed, ...] | None = None
    keys: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    updates: tuple[int, ...] = ()

    @property
    def call_inputs(self) -> tuple[Value, ...]:
        """The inputs that a caller passes, in order."""
        bound = {p.index for p in self.parameters}
        return tuple(v for i, v in enumerate(self.graph.inputs) if i not in bound)

    def returned(self, outputs: Sequence[T]) -> tuple[T | bool | int | float | str | None, ...]:
        """All results, of which ``outputs`` are those of the graph."""
        if self.results is None:
            return tuple(outputs)
        return tuple(r.value if isinstance(r, Fixed) else outputs[r] for r in self.results)

    # The only imports of a higher layer, so that a program can be optimized by a method of it.

    def superoptimize(self, **options: object) -> Optimized:
        """:func:`mirage.optimize` with these options (fields of ``mirage.OptimizeOptions``)."""
        from mirage.pipeline.optimize import OptimizeOptions, optimize

        return optimize(self, OptimizeOptions.of(**options))

    def compile(self, **options: object) -> Optimized:
        """:func:`mirage.pipeline.optimize.compile_graph` with these options."""
        from mirage.pipeline.optimize import OptimizeOptions, compile_graph

        return compile_graph(self, OptimizeOptions.of(**options))


@dataclass(frozen=True)
class SizedProgram:
    """A program for each size from ``at_least`` to ``at_most``, of which ``inputs`` (by their
    numbers among the graph's) have rows in proportion: ``at`` gives it at one size. ``name`` is
    that of the size."""

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
        """:func:`mirage.pipeline.optimize.optimize_sizes` with these options (fields of
        ``mirage.OptimizeOptions``)."""
        from mirage.pipeline.optimize import OptimizeOptions, optimize_sizes

        return optimize_sizes(self, OptimizeOptions.of(**options))


def check_inputs_used(graph: KernelGraph, locations: Mapping[Value, SourceLocation | None]) -> None:
    """Raises :class:`InvalidGraphError` if an input reaches no output."""
    used = {v for op in graph.ops for v in op.operands} | set(graph.outputs)
    for i, value in enumerate(graph.inputs):
        if value not in used:
            name = f" {value.name!r}" if value.name else ""
            raise InvalidGraphError(
                f"expected every input to reach an output, got unused input {i}{name} "
                f"({value.type}); remove it",
                locations.get(value),
            )
