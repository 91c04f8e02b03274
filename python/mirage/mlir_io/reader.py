"""Conversion of MLIR to data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mirage import ir
from mirage.mlir_io import attributes as a
from mirage.mlir_io.data import HOLDS, GraphIOError, InputNote, ReadGraph
from mirage.mlir_io.loop_steps import read_reading, read_steps
from mirage.mlir_io.plain_ops import row_named
from mirage.mlir_io.types import read_type
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.numbers import nearest
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    Constant,
    External,
    KernelGraph,
    Launch,
    Loop,
    Op,
    Output,
    Reading,
    Schedule,
    Value,
)


def graphs_of(module: ir.Operation) -> Iterator[ir.Operation]:
    """Yield the `kernel.graph` operations directly inside of ``module``."""
    for block in module.regions[0].blocks:
        for op in block.operations:
            if op.operation.name == "kernel.graph":
                yield op.operation


def read_graph(op: ir.Operation) -> ReadGraph:
    """Return the `kernel.graph` ``op`` as data. Raises :class:`GraphIOError`."""
    op = op.operation
    if op.name != "kernel.graph":
        raise GraphIOError(f"expected a kernel.graph, got {op.name}", op)
    reader = _Reader()
    name = ir.StringAttr(op.attributes["sym_name"]).value
    names, notes = _argument_notes(op)
    graph = reader.region(op.regions[0], name, op, names)
    form = a.read_form(op.attributes["form"]) if "form" in op.attributes else None
    return ReadGraph(graph, form, reader.locations, notes, a.read_dynamic(op))


def _argument_notes(op: ir.Operation) -> tuple[dict[int, str], dict[int, InputNote]]:
    names: dict[int, str] = {}
    notes: dict[int, InputNote] = {}
    if "arg_attrs" in op.attributes:
        for i, attribute in enumerate(ir.ArrayAttr(op.attributes["arg_attrs"])):
            entry = ir.DictAttr(attribute)
            if "kernel.name" in entry:
                names[i] = ir.StringAttr(entry["kernel.name"]).value
            if "kernel.parameter" in entry:
                notes[i] = InputNote(ir.StringAttr(entry["kernel.parameter"]).value)
    return names, notes


class _Reader:
    """Reads one graph; values are shared by all regions in it."""

    def __init__(self) -> None:
        self.values: dict[Any, Value] = {}
        self.scalars: dict[Any, tuple[Value, Reading]] = {}
        self.locations: dict[Op, ir.Location] = {}

    def region(
        self, region: ir.Region, name: str, owner: ir.Operation, names: dict[int, str]
    ) -> KernelGraph:
        """Read a region of tensor ops and its terminator."""
        (block,) = region.blocks
        inputs = self._arguments(block, owner, names)
        *operations, terminator = block.operations
        ops = tuple(self.operation(op.operation) for op in operations)
        return KernelGraph(name, inputs, ops, self._operands(terminator.operation))

    def _arguments(
        self, block: ir.Block, owner: ir.Operation, names: dict[int, str]
    ) -> tuple[Value, ...]:
        values: list[Value] = []
        for i, argument in enumerate(block.arguments):
            value = Value(read_type(argument.type, owner), names.get(i, ""))
            self.values[argument] = value
            values.append(value)
        return tuple(values)

    def _operands(self, op: ir.Operation) -> tuple[Value, ...]:
        return tuple(self.values[x] for x in op.operands)

    def _results(self, op: ir.Operation) -> tuple[Value, ...]:
        name = op.location.name_str if op.location.is_a_name() else ""
        results = tuple(Value(read_type(r.type, op), name) for r in op.results)
        self.values.update(zip(op.results, results, strict=True))
        return results

    def operation(self, op: ir.Operation) -> Op:
        """Read one operation with everything inside of it."""
        special = _SPECIAL.get(op.name)
        result = self._plain(op) if special is None else special(self, op)
        self.locations[result] = op.location
        return result

    def _plain(self, op: ir.Operation) -> Op:
        row = row_named(op.name)
        if row is None:
            raise GraphIOError(f"expected an op that µGraph data has, got {op.name}", op)
        known = dict(row.fields)
        other = [name for name in op.attributes if name not in known]
        if other and row.mnemonic == "matmul":
            raise GraphIOError(
                f"expected a matmul before layout assignment, got attributes {', '.join(other)}", op
            )
        fields = {
            name: codec.read(op.attributes[name])
            for name, codec in row.fields
            if codec is not a.FLAG or name in op.attributes
        }
        operands = self._operands(op)
        return row.kind(operands, self._results(op), **fields)

    def _constant(self, op: ir.Operation) -> Op:
        """Read a constant. `exact` gives its number if that is not the number that the double in
        `value` is read as.
        """
        value = a.FLOAT.read(op.attributes["value"])
        if a.EXACT not in op.attributes:
            return Constant((), self._results(op), value)
        text = str(a.read_plain(op.attributes[a.EXACT], op))
        exact = a.fraction(text)
        if exact is None or nearest(exact) != value:
            raise GraphIOError(
                f"expected a fraction whose nearest double is {value!r}, got {text!r}", op
            )
        return Constant((), self._results(op), exact)

    def _external(self, op: ir.Operation) -> Op:
        target = ir.StringAttr(op.attributes["target"]).value
        arguments = tuple(
            (name, a.read_plain(attribute, op))
            for name, attribute in op.attributes.items()
            if name not in ("target", a.SEEN_AS)
        )
        seen: tuple[str, ...] = ()
        if a.SEEN_AS in op.attributes:
            seen = a.NAMES.read(op.attributes[a.SEEN_AS])
        return External(self._operands(op), self._results(op), target, arguments, seen)

    def _alternatives(self, op: ir.Operation) -> Op:
        programs = tuple(
            self.region(region, f"alternative{i}", op, {}) for i, region in enumerate(op.regions)
        )
        verdicts = None
        if "verdicts" in op.attributes:
            verdicts = tuple(a.read_verdict(v) for v in ir.ArrayAttr(op.attributes["verdicts"]))
        costs = None
        if "costs" in op.attributes:
            numbers = ir.DenseF64ArrayAttr(op.attributes["costs"])
            costs = tuple(None if cost < 0 else cost for cost in numbers)
        holds = None
        if HOLDS in op.attributes:
            holds = tuple(a.read_holds(h) for h in ir.ArrayAttr(op.attributes[HOLDS]))
        return Alternatives(self._operands(op), self._results(op), programs, verdicts, costs, holds)

    def _launch(self, op: ir.Operation) -> Op:
        from mirage.dialects import kernel

        names = a.NAMES.read(op.attributes["gridNames"])
        extents = a.INTEGERS.read(op.attributes["gridExtents"])
        schedule = Schedule()
        if "schedule" in op.attributes:
            attribute = kernel.ScheduleAttr(op.attributes["schedule"])
            schedule = Schedule(
                attribute.warps,
                attribute.stages,
                attribute.warpgroups,
                attribute.resident,
                attribute.cluster,
            )
        (block,) = op.regions[0].blocks
        params = self._arguments(block, op, {})
        *operations, store = block.operations
        ops: list[Op] = []
        for inner in operations:
            if inner.operation.name == "block.scalar":
                (tensor,) = self._operands(inner.operation)
                reading = read_reading(inner.operation)
                self.scalars[inner.operation.results[0]] = tensor, reading
            else:
                ops.append(self.operation(inner.operation))
        store = store.operation
        if store.name != "block.store":
            raise GraphIOError(
                f"expected a body that ends with block.store, got {store.name}", store
            )
        maps = [a.MAP.read(m) for m in ir.ArrayAttr(store.attributes["maps"])]
        outputs = tuple(Output(v, m) for v, m in zip(self._operands(store), maps, strict=True))
        grid = tuple(Axis(name, extent) for name, extent in zip(names, extents, strict=True))
        body = BlockGraph(params, tuple(ops), outputs)
        return Launch(self._operands(op), self._results(op), grid, body, schedule)

    def _loop(self, op: ir.Operation) -> Op:

        if "stages" in op.attributes:
            raise GraphIOError("expected a loop before scheduling, got one with stages", op)
        axis = Axis(
            ir.StringAttr(op.attributes["axis"]).value, a.INTEGER.read(op.attributes["extent"])
        )
        (block,) = op.regions[0].blocks
        *operations, terminator = block.operations
        body = tuple(self.operation(inner.operation) for inner in operations)
        end = terminator.operation.opview
        rescales = dict(zip(end.rescaled, end.rescales, strict=True))
        accumulators = tuple(
            Accumulator(
                _accumulate_fn(fn),
                self.values[value],
                self.values[rescales[i]] if i in rescales else None,
            )
            for i, (fn, value) in enumerate(zip(end.fns, end.values, strict=True))
        )
        steps = None
        read = [self.scalars[x] for x in op.operands]
        if "steps" in op.attributes:
            axes = a.NAMES.read(op.attributes["stepAxes"])
            affine_map = ir.AffineMapAttr(op.attributes["steps"]).value
            steps = read_steps(affine_map, axes, tuple(reading for _, reading in read), op)
        tensors = tuple(tensor for tensor, _ in read)
        return Loop(tensors, self._results(op), axis, body, accumulators, steps)


def _accumulate_fn(attribute: ir.Attribute) -> AccumulateFn:
    """Read `#block.accumulate_fn<sum>`."""
    return AccumulateFn(str(attribute).partition("<")[2].rstrip(">"))


_SPECIAL: dict[str, Callable[[_Reader, ir.Operation], Op]] = {
    "kernel.constant": _Reader._constant,  # pyright: ignore[reportPrivateUsage]
    "block.constant": _Reader._constant,  # pyright: ignore[reportPrivateUsage]
    "kernel.external": _Reader._external,  # pyright: ignore[reportPrivateUsage]
    "kernel.alternatives": _Reader._alternatives,  # pyright: ignore[reportPrivateUsage]
    "kernel.launch": _Reader._launch,  # pyright: ignore[reportPrivateUsage]
    "block.loop": _Reader._loop,  # pyright: ignore[reportPrivateUsage]
}
