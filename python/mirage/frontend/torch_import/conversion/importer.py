"""``from_torch``: conversion of the torch dialect to a kernel graph."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch

from mirage.errors import SourceLocation
from mirage.frontend.errors import (
    GraphTypeError,
    InvalidGraphError,
)
from mirage.frontend.location import user_location
from mirage.frontend.program import Fixed, Parameter, Program, Seen, SizedProgram
from mirage.frontend.torch_import.capture.capture import (
    Argument,
    Captured,
    capture,
)
from mirage.frontend.torch_import.capture.dynamic import dynamic_program
from mirage.frontend.torch_import.capture.given_arguments import given_arguments
from mirage.frontend.torch_import.conversion.error_functions import with_gelus
from mirage.frontend.torch_import.conversion.folded_tensors import as_ops
from mirage.frontend.torch_import.conversion.own_memory import in_own_memory
from mirage.frontend.torch_import.conversion.read_ir import (
    constant_of,
    foreign_type,
    hexadecimal,
    is_list,
    location_of,
    needed,
    tensor_type,
)
from mirage.frontend.torch_import.conversion.stays import (
    Stays,
    external_of,
    foreign_in,
    unsupported,
)
from mirage.frontend.torch_import.conversion.updates import may_stay, op_name, stores_to
from mirage.frontend.torch_import.known_tensors.known_indices import with_known_indices
from mirage.frontend.torch_import.known_tensors.moved_rows import rows_by_index
from mirage.frontend.torch_import.rows.foreign import Carried
from mirage.frontend.torch_import.rows.lowering import Call, Lowering, Unsupported
from mirage.frontend.torch_import.rows.op_table import IGNORED, TABLE
from mirage.runtime.dispatch.carriers import carried
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.builder import ShapeError
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import Array, DType
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, TensorType, Value
from mirage.transforms.copies import without_copies, without_repeats
from mirage.transforms.nested_joins import flat_joins
from mirage.transforms.pages import rows_of_pages
from mirage.transforms.selections import selected_pieces

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
    importer = _Importer(captured, allow_fallback, name, is_sized)
    program = in_own_memory(importer.program(), captured.memories)
    made = {v for op in program.graph.ops for v in op.results}
    stays = tuple(stays for value, stays in importer.stays.items() if value in made)
    return ImportedGraph(program, stays)


class _Importer:
    """Converts one captured function."""

    def __init__(self, captured: Captured, allow_fallback: bool, name: str, is_sized: bool) -> None:
        self.block = captured.function.regions[0].blocks[0]
        self.arguments = captured.arguments
        self.captured = captured  # owns the IR
        self.allow_fallback = allow_fallback
        self.name = name
        self.is_sized = is_sized
        self.lowering = Lowering(tf32=torch.get_float32_matmul_precision() != "highest")
        self.values: dict[Any, object] = {}
        self.locations: dict[Op, SourceLocation] = {}
        self.stays: dict[Value, Stays] = {}  # by the first result
        self.inputs: list[tuple[Value, Argument]] = []
        self.tables: dict[bytes, Value] = {}
        self.carriers: dict[Value, str] = {}  # inputs of types that kernels do not have
        self.stores: set[Any] = set()  # results of stores to what the program updates

    def program(self) -> Program:
        for argument, block_argument in zip(self.arguments, self.block.arguments, strict=True):
            self._bind_argument(argument, block_argument)
        operations = [
            op.operation for op in self.block.operations
        ]  # the views' properties hide names
        used = needed(operations)
        for place, new in zip(self.captured.updates, operations[-1].operands):
            self.stores |= stores_to(self.block.arguments[place], new)
        for operation in operations[:-1]:
            if used[operation]:
                start = len(self.lowering.ops)
                location = location_of(operation)
                self._operation(operation, location)
                if location is not None:
                    self.locations.update(dict.fromkeys(self.lowering.ops[start:], location))
        return self._assemble(operations[-1])

    def _bind_argument(self, argument: Argument, block_argument: Any) -> None:
        if argument.inline:
            assert argument.data is not None
            dtype = _dtype_of(argument.data)
            if dtype is not None:
                self.values[block_argument] = self.lowering.constant(
                    _as_it_is(float(argument.data)), dtype
                )
                return
        result = tensor_type(block_argument.type)
        if result is None:
            self._bind_foreign(argument, block_argument)
            return
        found = as_ops(self.lowering, argument, result, block_argument, self._hold)
        self.values[block_argument] = found or self._input(argument, result)

    def _input(self, argument: Argument, result: TensorType) -> Value:
        value = Value(result, _identifier(argument.name, self._names))
        self.inputs.append((value, argument))
        if argument.folded and result.dtype.is_integer and result.size:
            assert argument.data is not None
            low, high = argument.data.min(), argument.data.max()
            self.lowering.given[value] = (float(low), float(high))
            self.lowering.held[value] = argument.data.cpu().numpy()
        return value

    def _hold(self, data: torch.Tensor) -> Value:
        """Make a tensor that is known at import an input."""
        argument = Argument(_identifier("folded_table", self._names), data, folded=True)
        dtype = _dtype_of(data)
        assert dtype is not None
        return self._input(argument, TensorType(tuple(data.shape), dtype))

    def _held_once(self, data: Array) -> Value:
        """Make known elements an input, the same one for the same elements."""
        key = f"{data.dtype}{data.shape}".encode() + data.tobytes()
        if key not in self.tables:
            self.tables[key] = self._hold(torch.from_numpy(data))
        return self.tables[key]

    def _bind_foreign(self, argument: Argument, block_argument: Any) -> None:
        """Bind an argument that is not a tensor of a type that kernels have."""
        foreign = foreign_type(block_argument.type)
        if foreign is not None:
            data = None if argument.data is None else carried(argument.data.detach())
            value = Value(foreign.carrier, _identifier(argument.name, self._names))
            self.inputs.append((value, replace(argument, data=data)))
            self.carriers[value] = foreign.dtype
            self.values[block_argument] = Carried(value, foreign.dtype)
        elif len(list(block_argument.uses)):
            raise GraphTypeError(
                f"expected a tensor, got {block_argument.type} for {argument.name!r}",
                user_location(),
            )

    @property
    def _names(self) -> set[str]:
        return {v.name for v, _ in self.inputs}

    def _operation(self, operation: Any, location: SourceLocation | None) -> None:
        name = op_name(operation)
        operands = [self.values.get(x) for x in operation.operands]
        if name.startswith("constant."):
            self.values[operation.result] = constant_of(name.removeprefix("constant."), operation)
        elif name == "prim.ListConstruct":
            self.values[operation.result] = operands
        elif name == "prim.ListUnpack":
            self._bind(operation, operands[0])
        elif name in _NUMBERS:
            self.values[operation.result] = _number(name, operands[0])
        elif name == "aten.view_as_real" and isinstance(operands[0], Carried):
            self.values[operation.result] = operands[0].value
        elif name == "aten.view_as_complex" and isinstance(operands[0], Value):
            foreign = foreign_type(operation.result.type)
            assert foreign is not None
            self.values[operation.result] = Carried(operands[0], foreign.dtype)
        elif name == "vtensor.literal":
            self.values[operation.result] = self._literal(operation, location)
        elif name not in IGNORED:
            results = [tensor_type(r.type) for r in operation.results]
            used = tuple(bool(list(r.uses)) for r in operation.results)
            foreign = tuple(foreign_type(r.type) for r in operation.results)
            call = Call(name, tuple(operands), tuple(results), used, foreign)
            if operation.results[0] in self.stores and may_stay(call):
                self._bind(operation, self._external(call, location))
            else:
                self._bind(operation, self._call(call, location))

    def _bind(self, operation: Any, values: object) -> None:
        items = list(values) if isinstance(values, (list, tuple)) else [values]  # pyright: ignore
        if len(operation.results) == 1 and is_list(operation.results[0].type):
            self.values[operation.results[0]] = items
            return
        for result, value in zip(operation.results, items, strict=False):
            self.values[result] = value

    def _literal(self, operation: Any, location: SourceLocation | None) -> Value:
        result = tensor_type(operation.result.type)
        text = re.match(r"dense<([^\[\]]+)> :", str(operation.attributes["value"]))
        if text is None or (result is not None and result.size != 1):
            raise unsupported(
                "a tensor literal",
                location,
                "pass the tensor as an input or register it as a buffer",
            )
        result = result or TensorType((), DType.F32)
        words = {"true": 1.0, "false": 0.0}
        if text[1] in words:
            value = words[text[1]]
        else:
            value = float(text[1]) if not text[1].startswith("0x") else hexadecimal(operation)
        rounded = float(result.dtype.round(np.asarray(value)))
        return self.lowering.filled(_as_it_is(rounded), result)

    def _call(self, call: Call, location: SourceLocation | None) -> object:
        row = TABLE.get(call.op)
        start = len(self.lowering.ops)
        reason = "an op without a meaning in Mirage"
        foreign = foreign_in(call)
        if foreign:
            reason = f"kernels have no tensors of {foreign}"
        elif row is not None:
            try:
                return self._checked(call, row(self.lowering, call))
            except (Unsupported, ShapeError) as error:
                del self.lowering.ops[start:]
                reason = str(error)
        if self.allow_fallback:
            return self._external(call, location, reason)
        raise unsupported(call.op, location, reason, call)

    def _checked(self, call: Call, got: object) -> object:
        """Return the values of a row, in the types that PyTorch gives them."""
        values: list[Value] = [got] if isinstance(got, Value) else list(got)  # pyright: ignore
        if len(call.results) == 1 and call.results[0] is None:
            return values  # a list of tensors
        checked: list[Value] = []
        for value, expected in zip(values, call.results, strict=False):
            if expected is None or value.shape != expected.shape:
                raise Unsupported(f"a result of type {expected} (the import gives {value.type})")
            checked.append(self.lowering.typed(value, expected.dtype))
        return checked

    def _external(
        self, call: Call, location: SourceLocation | None, reason: str = ""
    ) -> tuple[Value | Carried, ...]:
        op, results = external_of(call, location)
        self.lowering.ops.append(op)
        if reason:
            self.stays[op.results[0]] = Stays(call.op, reason)
        return results

    def _assemble(self, terminator: Any) -> Program:
        outputs: list[Value] = []
        results: list[int | Fixed | Seen] = []
        for operand in terminator.operands:
            value = self.values.get(operand)
            if isinstance(value, Carried):
                results.append(Seen(len(outputs), value.dtype))
                outputs.append(value.value)
            elif isinstance(value, Value):
                results.append(len(outputs))
                outputs.append(value)
            elif operand in self.values and isinstance(value, None | bool | int | float | str):
                results.append(Fixed(value))
            else:
                raise GraphTypeError(
                    f"expected outputs that are tensors or numbers, got {operand.type}",
                    user_location(),
                )
        if not outputs:
            raise InvalidGraphError(
                "expected a program that returns tensors, got one that returns none",
                user_location(),
            )
        full = KernelGraph(self.name, (), tuple(self.lowering.ops), tuple(outputs))
        graph = without_copies(without_dead_ops(with_gelus(full, self.lowering.errors)))
        graph = rows_of_pages(selected_pieces(without_repeats(graph)))
        graph = flat_joins(without_repeats(graph))
        if not self.is_sized:  # rows of a batch have the same indices, but for the batch
            graph = rows_by_index(graph, self.lowering.held, self._held_once)
            graph = with_known_indices(graph, self.lowering.held, self._held_once)
        updated = {self.arguments[place].name for place in self.captured.updates}
        read = {v for op in graph.ops for v in op.operands} | set(graph.outputs)
        read |= {v for v, a in self.inputs if a.name in updated}
        passed = [v for v, a in self.inputs if a.data is None]
        bound = [(v, a) for v, a in self.inputs if a.data is not None and v in read]
        graph = KernelGraph(self.name, (*passed, *(v for v, _ in bound)), graph.ops, graph.outputs)
        parameters = tuple(
            Parameter(len(passed) + i, a.name, a.data, a.trained) for i, (_, a) in enumerate(bound)
        )
        named = {p.name for p in parameters}
        unread = (a.name for a in self.arguments if a.data is not None and a.name not in named)
        places = {op.results: at for op, at in self.locations.items()}
        given = [a for _, a in self.inputs if a.data is None] + [a for _, a in bound]
        inputs = [a.name for a in given]
        return Program(
            graph,
            {op: places[op.results] for op in graph.ops if op.results in places},
            parameters,
            None if results == list(range(len(outputs))) else tuple(results),
            self.captured.keys if len(self.captured.keys) == len(results) else (),
            tuple(unread),
            tuple(inputs.index(self.arguments[place].name) for place in self.captured.updates),
            {i: self.carriers[v] for i, v in enumerate(graph.inputs) if v in self.carriers},
        )


def _as_it_is(element: float) -> Number:
    """Return the number that an element of a tensor holds; unlike a number that a program spells,
    it is not read as a decimal.
    """
    return Fraction(element) if math.isfinite(element) else element


def _identifier(name: str, taken: set[str]) -> str:
    base = re.sub(r"\W", "_", name)
    base = base if base.isidentifier() else f"v_{base}"
    unique, number = base, 0
    while unique in taken:
        number += 1
        unique = f"{base}_{number}"
    return unique


def _dtype_of(tensor: torch.Tensor) -> DType | None:
    names = {getattr(torch, name): DType(short) for short, name in TORCH_NAMES.items()}
    return names.get(tensor.dtype)


_NUMBERS = ("aten.Int.bool", "aten.Int.float", "aten.Float.Scalar", "prim.NumToTensor.Scalar")
"""Conversions of numbers that are constant in the program."""


def _number(name: str, x: object) -> object:
    if isinstance(x, bool | int | float):
        return int(x) if name.startswith("aten.Int") else x
    return x
