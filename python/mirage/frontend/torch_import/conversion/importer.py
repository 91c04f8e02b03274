"""Conversion of a captured function, in the torch dialect, to a kernel graph: op by op by the
table's rows, and then as a whole.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mirage.errors import SourceLocation
from mirage.frontend.errors import GraphTypeError, InvalidGraphError, UnsupportedOpError
from mirage.frontend.location import user_location
from mirage.frontend.program import Fixed, Parameter, Program, Seen
from mirage.frontend.torch_import.capture.capture import Captured
from mirage.frontend.torch_import.capture.captured_arguments import Argument
from mirage.frontend.torch_import.conversion.error_functions import with_gelus
from mirage.frontend.torch_import.conversion.folded_tensors import as_ops
from mirage.frontend.torch_import.conversion.imported_inputs import GraphInputs, dtype_of
from mirage.frontend.torch_import.conversion.index_limits import Named, limits_of, named_by
from mirage.frontend.torch_import.conversion.nearby_indices import with_nearby_indices
from mirage.frontend.torch_import.conversion.read_ir import (
    constant_of,
    foreign_type,
    hexadecimal,
    is_list,
    location_of,
    needed,
    tensor_type,
)
from mirage.frontend.torch_import.conversion.sorts_of_bytes import sort_of_bytes
from mirage.frontend.torch_import.conversion.stays import (
    Stays,
    are_several_of_doubles,
    external_of,
    foreign_in,
    unsupported,
)
from mirage.frontend.torch_import.conversion.unsigned import with_signed
from mirage.frontend.torch_import.conversion.updates import may_stay, op_name, stores_to
from mirage.frontend.torch_import.known_tensors.known_indices import with_known_indices
from mirage.frontend.torch_import.known_tensors.moved_rows import rows_by_index
from mirage.frontend.torch_import.rows.foreign import Carried
from mirage.frontend.torch_import.rows.lowering import Lowering, Row
from mirage.frontend.torch_import.rows.op_table import IGNORED, TABLE, WITHOUT_CALLS
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import ShapeError
from mirage.semantics.numbers import Number
from mirage.semantics.pages import rows_of_pages
from mirage.semantics.scalar import DType
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, TensorType, Value
from mirage.transforms.certain_choices import without_certain_choices
from mirage.transforms.copies import without_copies, without_repeats
from mirage.transforms.earlier_slices import with_earlier_slices
from mirage.transforms.nested_joins import flat_joins
from mirage.transforms.partition.integer_regions import BIT_CALLS
from mirage.transforms.selections import selected_pieces

if TYPE_CHECKING:
    pass


class Importer:
    """Converts one captured function."""

    def __init__(self, captured: Captured, allow_fallback: bool, name: str, is_sized: bool) -> None:
        self.block = captured.function.regions[0].blocks[0]
        self.arguments = captured.arguments
        self.captured = captured  # owns the IR
        self.allow_fallback = allow_fallback
        self.name = name
        self.is_sized = is_sized
        self.named: list[Named] = []
        tf32 = torch.get_float32_matmul_precision() != "highest"
        self.lowering = Lowering(tf32=tf32, may_stay=allow_fallback, sized=is_sized)
        self.values: dict[Any, object] = {}
        self.locations: dict[Op, SourceLocation] = {}
        self.stays: dict[Value, Stays] = {}  # by the first result
        self.inputs = GraphInputs(self.lowering)
        self.stores: set[Any] = set()  # results of stores to what the program updates

    def program(self) -> Program:
        for argument, block_argument in zip(self.arguments, self.block.arguments, strict=True):
            self._bind_argument(argument, block_argument)
        operations = [
            op.operation for op in self.block.operations
        ]  # the properties of views hide names
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
            dtype, number = dtype_of(argument.data), argument.data.item()
            if dtype is not None and argument.unrounded:
                self.values[block_argument] = self.lowering.constant(number, DType.F32)
                return
            if dtype is not None:
                self.values[block_argument] = self.lowering.constant(_as_it_is(number), dtype)
                return
        result = tensor_type(block_argument.type)
        if result is None:
            self._bind_foreign(argument, block_argument)
            return
        found = as_ops(self.lowering, argument, result, block_argument, self.inputs.hold)
        self.values[block_argument] = found or self.inputs.add(argument, result)

    def _bind_foreign(self, argument: Argument, block_argument: Any) -> None:
        """Bind an argument that is not a tensor of a type that kernels have."""
        foreign = foreign_type(block_argument.type)
        if foreign is not None:
            self.values[block_argument] = self.inputs.carry(argument, foreign)
        elif len(list(block_argument.uses)):
            raise GraphTypeError(
                f"expected a tensor, got {block_argument.type} for {argument.name!r}",
                user_location(),
            )

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

    def _is_inside(self, one: Named) -> bool:
        """Return whether indices are known to name one of their places each."""
        least, most = self.lowering.range_of(one.index)
        return least >= (-one.below if one.from_end else 0) and most < one.below

    def _call(self, call: Call, location: SourceLocation | None) -> object:
        self.named += named_by(call)
        tables = (TABLE,) if self.allow_fallback else (TABLE, WITHOUT_CALLS)
        rows = [table[call.op] for table in tables if call.op in table]
        reason = "an op without a meaning in Mirage"
        foreign = foreign_in(call)
        if foreign:
            signed = self._on_signed(call, location)
            if signed is not None:
                return signed
            reason, rows = f"kernels have no tensors of {foreign}", []
        for row in rows:
            start = len(self.lowering.ops)
            found = self._written(call, row)
            if self.allow_fallback and are_several_of_doubles(self.lowering.ops[start:]):
                del self.lowering.ops[start:]
                found = "kernels do not compute with float64, and PyTorch does so in one call"
            if not isinstance(found, str):
                return found
            reason = found
        computed = call.op in BIT_CALLS and not foreign
        if self.allow_fallback or computed:
            return self._external(call, location, "" if computed else reason)
        raise unsupported(call.op, location, reason, call)

    def _on_signed(self, call: Call, location: SourceLocation | None) -> object:
        """Return a call on unsigned integers as one on signed integers; None for other calls."""
        start = len(self.lowering.ops)
        try:
            return with_signed(self.lowering, call, lambda c: self._call(c, location))
        except (UnsupportedOpError, ShapeError):
            del self.lowering.ops[start:]
            return None

    def _written(self, call: Call, row: Row) -> object:
        """Return the result of a row for a call, or the reason why the row cannot express it."""
        start = len(self.lowering.ops)
        try:
            return self._checked(call, row(self.lowering, call))
        except (Unsupported, ShapeError) as error:
            del self.lowering.ops[start:]
            return str(error)

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
        narrow = sort_of_bytes(self.lowering, call)
        op, results = external_of(narrow or call, location)
        self.lowering.ops.append(op)
        if reason:
            self.stays[op.results[0]] = Stays(call.op, reason)
        if narrow is None:
            return results
        (x, *_) = call.args
        assert isinstance(x, Value)
        return self.lowering.cast(op.results[0], x.dtype), *results[1:]

    def _results(self, terminator: Any) -> tuple[list[Value], list[int | Fixed | Seen]]:
        """Return the outputs of the graph, and the results of the program in terms of these."""
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
        return outputs, results

    def _rewritten(self, full: KernelGraph) -> KernelGraph:
        """Return the graph with groups of ops replaced by single ops, and without unread values."""
        full = full if self.is_sized else with_nearby_indices(full, self.named)
        graph = without_copies(without_dead_ops(with_gelus(full, self.lowering.errors)))
        graph = without_certain_choices(with_earlier_slices(graph))
        graph = rows_of_pages(selected_pieces(without_repeats(graph)))
        graph = flat_joins(without_repeats(graph))
        if self.is_sized:  # rows of a batch have the same indices, except for the batch
            return graph
        graph = rows_by_index(graph, self.lowering.held, self.inputs.hold_once)
        return with_known_indices(graph, self.lowering.held, self.inputs.hold_once)

    def _assemble(self, terminator: Any) -> Program:
        outputs, results = self._results(terminator)
        full = KernelGraph(self.name, (), tuple(self.lowering.ops), tuple(outputs))
        graph = self._rewritten(full)
        updates = [self.arguments[place].name for place in self.captured.updates]
        read = {v for op in graph.ops for v in op.operands} | set(graph.outputs)
        passed, bound = self.inputs.passed(), self.inputs.bound(read, updates)
        inputs = tuple(v for v, _ in (*passed, *bound))
        graph = KernelGraph(self.name, inputs, graph.ops, graph.outputs)
        parameters = tuple(
            Parameter(len(passed) + i, a.name, a.data, a.trained, a.also)
            for i, (_, a) in enumerate(bound)
        )
        named = {p.name for p in parameters}
        unread = (a.name for a in self.arguments if a.data is not None and a.name not in named)
        places = {op.results: at for op, at in self.locations.items()}
        names = [a.name for _, a in (*passed, *bound)]
        carriers = self.inputs.carriers
        makers = {v: op for op in full.ops for v in op.results}
        indices = (one for one in self.named if not self._is_inside(one))
        return Program(
            graph,
            {op: places[op.results] for op in graph.ops if op.results in places},
            parameters,
            None if results == list(range(len(outputs))) else tuple(results),
            self.captured.keys if len(self.captured.keys) == len(results) else (),
            tuple(unread),
            tuple(names.index(name) for name in updates),
            {i: carriers[v] for i, v in enumerate(inputs) if v in carriers},
            limits_of(indices, inputs, makers),
            misses_are_errors=not self.lowering.adds_infinity,
        )


def _as_it_is(element: int | float) -> Number:
    """Return the number that an element of a tensor holds; unlike a number that a program spells,
    it is not read as a decimal.
    """
    return Fraction(element) if math.isfinite(element) else element


_NUMBERS = ("aten.Int.bool", "aten.Int.float", "aten.Float.Scalar", "prim.NumToTensor.Scalar")
"""Conversions of numbers that are constant in the program."""


def _number(name: str, x: object) -> object:
    if isinstance(x, bool | int | float):
        return int(x) if name.startswith("aten.Int") else x
    return x
