"""``from_torch``: a PyTorch program as a kernel graph with bound weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from mirage.frontend.program import Program, SizedProgram
from mirage.frontend.torch_import.capture.capture import Captured, capture
from mirage.frontend.torch_import.capture.dynamic import dynamic_program
from mirage.frontend.torch_import.capture.given_arguments import given_arguments
from mirage.frontend.torch_import.conversion.importer import Importer
from mirage.frontend.torch_import.conversion.own_memory import in_own_memory
from mirage.frontend.torch_import.conversion.stays import Stays
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.partition.integer_regions import computes_bits

if TYPE_CHECKING:
    from mirage.pipeline.result import Optimized


@dataclass(frozen=True)
class ImportedGraph:
    """An imported module with bound weights: call the optimized program with the module's own
    inputs.
    """

    program: Program
    stays: tuple[Stays, ...] = ()
    """The calls that stay with PyTorch, in the order of the program."""

    @property
    def updates(self) -> tuple[int, ...]:
        """The inputs of the graph whose new values are the first results."""
        return self.program.updates

    @property
    def graph(self) -> KernelGraph:
        """The program as data; its inputs are the module's inputs, then its weights."""
        return self.program.graph

    def superoptimize(self, **options: object) -> Optimized:
        """Optimize the program; see :meth:`mirage.GraphBuilder.superoptimize`."""

        return self.program.superoptimize(**options)


@overload
def from_torch(
    module: object,
    *example_inputs: object,
    allow_fallback: bool = False,
    allow_updates: bool = False,
    dynamic_shapes: None = None,
    one_of_sizes: bool = False,
    name: str = "main",
    **named: object,
) -> ImportedGraph: ...


@overload
def from_torch(
    module: object,
    *example_inputs: object,
    allow_fallback: bool = False,
    allow_updates: bool = False,
    dynamic_shapes: object,
    one_of_sizes: bool = False,
    name: str = "main",
    **named: object,
) -> SizedProgram: ...


def from_torch(
    module: object,
    *example_inputs: object,
    allow_fallback: bool = False,
    allow_updates: bool = False,
    dynamic_shapes: object = None,
    one_of_sizes: bool = False,
    name: str = "main",
    **named: object,
) -> ImportedGraph | SizedProgram:
    """Import a ``torch.nn.Module``, a function of tensors or a ``torch.export.ExportedProgram``.

    Shapes and element types are those of ``example_inputs`` and of the ``named`` ones, with which
    the module can be called; a single dictionary by the names of its parameters stands for named
    ones. Tensors are inputs of the graph in the order of the parameters. Weights and buffers become
    inputs that are bound to the module's own tensors. Unsupported ops raise
    :class:`UnsupportedOpError`; with ``allow_fallback`` they remain calls of PyTorch in the graph.
    A module that writes to its inputs or buffers is refused; with ``allow_updates`` their new
    contents precede its results (``ImportedGraph.updates``), and the caller must write them back.
    Stores of some elements then remain calls of PyTorch, which may write in place
    (:mod:`mirage.pipeline.make_plan`).

    ``dynamic_shapes`` are those of ``torch.export``: with them the outermost dimension of some
    inputs is a size that is known only at the call
    (:mod:`mirage.frontend.torch_import.capture.dynamic`). A program that is ``one_of_sizes``
    differs from the others in its outermost sizes only.

    After ``torch.set_float32_matmul_precision("high")`` or ``"medium"``, products of f32 round
    their factors to TF32.
    """
    inputs, named = given_arguments(module, example_inputs, named)
    if dynamic_shapes is not None:

        def at(values: Sequence[object], size: int) -> Program:
            keyed = dict(zip(named, values[len(inputs) :], strict=True))
            captured = capture(module, values[: len(inputs)], allow_updates, keyed)
            return _imported(captured, allow_fallback, name, is_sized=True).program

        return dynamic_program(module, inputs, dynamic_shapes, at, named=named)
    captured = capture(module, inputs, allow_updates, named)
    return _imported(captured, allow_fallback, name, one_of_sizes)


def _imported(captured: Captured, allow_fallback: bool, name: str, is_sized: bool) -> ImportedGraph:
    importer = Importer(captured, allow_fallback, name, is_sized)
    program = in_own_memory(importer.program(), captured.memories)
    made = {v for op in program.graph.ops if not computes_bits(op) for v in op.results}
    stays = tuple(stays for value, stays in importer.stays.items() if value in made)
    return ImportedGraph(program, stays)
