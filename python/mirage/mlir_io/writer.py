"""Conversion of data to MLIR."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from mirage import ir
from mirage.errors import SourceLocation
from mirage.mlir_io import attributes as a
from mirage.mlir_io.data import HOLDS, GraphIOError, InputNote
from mirage.mlir_io.loop_steps import write_reading, write_steps
from mirage.mlir_io.plain_ops import row_of
from mirage.mlir_io.types import write_type
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.numbers import as_number, nearest
from mirage.semantics.ugraph import (
    Constant,
    External,
    KernelGraph,
    Launch,
    Loop,
    Op,
    Reading,
    Value,
    loops,
)


def write_graph(
    graph: KernelGraph,
    *,
    form: str | None = None,
    locations: Mapping[Op, ir.Location] | Mapping[Op, SourceLocation] | None = None,
    notes: Mapping[int, InputNote] | None = None,
    default: ir.Location | None = None,
) -> ir.Operation:
    """Write a `kernel.graph` at the current insertion point, in the current context, and verify it.

    ``default`` is the location of ops that are not in ``locations``.

    Raises :class:`GraphIOError` for data that has no counterpart and ``ir.MLIRError`` if the
    dialects' verifiers refuse it."""
    with default or ir.Location.unknown():
        return _Writer(locations or {}).graph(graph, form, notes or {})


class _Writer:
    def __init__(self, locations: Mapping[Op, Any]) -> None:
        self.locations = locations
        self.values: dict[Value, ir.Value] = {}
        self.in_block = False
        self.scalars: dict[tuple[Value, Reading], ir.Value] = {}

    def graph(
        self, graph: KernelGraph, form: str | None, notes: Mapping[int, InputNote]
    ) -> ir.Operation:
        inputs = [write_type(v.type) for v in graph.inputs]
        results = [write_type(v.type) for v in graph.outputs]
        attributes: dict[str, ir.Attribute] = {
            "sym_name": ir.StringAttr.get(graph.name or "main"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
        }
        if form is not None:
            attributes["form"] = a.write_form(form)
        entries = [_input_entry(v, notes.get(i)) for i, v in enumerate(graph.inputs)]
        if any(entries):
            attributes["arg_attrs"] = ir.ArrayAttr.get(
                [ir.DictAttr.get(entry) for entry in entries]
            )
        op = ir.Operation.create("kernel.graph", attributes=attributes, regions=1)
        try:
            self.region(op.regions[0], graph, "kernel.return")
            op.verify()
        except BaseException:
            op.erase()
            raise
        return op

    def region(self, region: ir.Region, graph: KernelGraph, terminator: str) -> None:
        """Fill a region with a graph's ops."""
        block = region.blocks.append(*[write_type(v.type) for v in graph.inputs])
        with self._isolated(graph.inputs, block):
            for op in graph.ops:
                self.operation(op)
            ir.Operation.create(terminator, operands=[self.value(v) for v in graph.outputs])

    @contextmanager
    def _isolated(self, arguments: tuple[Value, ...], block: ir.Block) -> Generator[None]:
        """Continue inside of ``block``, where only its arguments are known: there, a value may
        represent itself.
        """
        outside = self.values
        self.values = dict(zip(arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            yield
        self.values = outside

    def value(self, value: Value) -> ir.Value:
        found = self.values.get(value)
        if found is None:
            raise GraphIOError(
                f"expected a value that is defined before it is used, got one of type {value.type}"
            )
        return found

    def location(self, op: Op) -> ir.Location:
        place = self.locations.get(op)
        if isinstance(place, SourceLocation):
            location = ir.Location.file(place.file, place.line, 0)
        else:
            location = _current() if place is None else place
        name = op.results[0].name if op.results else ""
        if name and not (location.is_a_name() and location.name_str == name):
            location = ir.Location.name(name, location)
        return location

    def operation(self, op: Op) -> None:
        """Write one op with everything inside of it."""
        special = _SPECIAL.get(type(op))
        created = self._plain(op) if special is None else special(self, op)
        self.values.update(zip(op.results, created.results, strict=True))

    def _create(
        self,
        op: Op,
        mnemonic: str,
        attributes: dict[str, ir.Attribute],
        *,
        regions: int = 0,
        dialect: str | None = None,
        operands: list[ir.Value] | None = None,
    ) -> ir.Operation:
        prefix = dialect or ("block" if self.in_block else "kernel")
        return ir.Operation.create(
            f"{prefix}.{mnemonic}",
            results=[write_type(v.type, in_block=self.in_block) for v in op.results],
            operands=[self.value(v) for v in op.operands] if operands is None else operands,
            attributes=attributes,
            regions=regions,
            loc=self.location(op),
        )

    def _plain(self, op: Op) -> ir.Operation:
        row, level = row_of(type(op)), "block" if self.in_block else "kernel"
        context = ir.Context.current
        assert context is not None  # the location of the module that is written
        if row is None or not context.is_registered_operation(f"{level}.{row.mnemonic}"):
            raise GraphIOError(
                f"expected an op that the {level} dialect has, got {type(op).__name__}"
            )
        attributes = {
            name: codec.write(value)
            for name, codec in row.fields
            if (value := getattr(op, name)) is not False
        }
        return self._create(op, row.mnemonic, attributes)

    def _constant(self, op: Constant) -> ir.Operation:
        value = nearest(op.value)
        attributes = {"value": a.FLOAT.write(value)}
        if as_number(value) != op.value:
            attributes[a.EXACT] = ir.StringAttr.get(str(op.value))
        return self._create(op, "constant", attributes)

    def _external(self, op: External) -> ir.Operation:
        attributes = {name: a.write_plain(value) for name, value in op.arguments}
        if op.seen_as:
            attributes[a.SEEN_AS] = a.NAMES.write(op.seen_as)
        return self._create(op, "external", {**attributes, "target": ir.StringAttr.get(op.target)})

    def _alternatives(self, op: Alternatives) -> ir.Operation:
        attributes: dict[str, ir.Attribute] = {}
        if op.verdicts is not None:
            attributes["verdicts"] = ir.ArrayAttr.get([a.write_verdict(v) for v in op.verdicts])
        if op.costs is not None:
            attributes["costs"] = ir.DenseF64ArrayAttr.get(
                [-1.0 if cost is None else cost for cost in op.costs]
            )
        if op.holds is not None:
            attributes[HOLDS] = ir.ArrayAttr.get([a.write_holds(h) for h in op.holds])
        created = self._create(op, "alternatives", attributes, regions=len(op.programs))
        for region, program in zip(created.regions, op.programs, strict=True):
            self.region(region, program, "kernel.yield")
        return created

    def _launch(self, op: Launch) -> ir.Operation:
        from mirage.dialects import kernel

        attributes: dict[str, ir.Attribute] = {
            "gridNames": a.NAMES.write(tuple(axis.name for axis in op.grid)),
            "gridExtents": a.INTEGERS.write(tuple(axis.extent for axis in op.grid)),
            "schedule": kernel.ScheduleAttr.get(
                op.schedule.warps,
                op.schedule.stages,
                op.schedule.warpgroups,
                op.schedule.resident,
                op.schedule.cluster,
            ),
        }
        created = self._create(op, "launch", attributes, regions=1)
        block = created.regions[0].blocks.append(*[write_type(v.type) for v in op.body.params])
        self.in_block = True
        with self._isolated(op.body.params, block):
            self.scalars = self._scalars(op)
            for inner in op.body.ops:
                self.operation(inner)
            ir.Operation.create(
                "block.store",
                operands=[self.value(o.value) for o in op.body.outputs],
                attributes={
                    "maps": ir.ArrayAttr.get([a.MAP.write(o.map) for o in op.body.outputs])
                },
            )
        self.in_block = False
        return created

    def _scalars(self, op: Launch) -> dict[tuple[Value, Reading], ir.Value]:
        """Write the integers that bound the loops of a launch, each read once."""
        scalars: dict[tuple[Value, Reading], ir.Value] = {}
        for loop in loops(op):
            readings = () if loop.steps is None else loop.steps.readings
            with self.location(loop):
                for tensor, reading in zip(loop.operands, readings, strict=True):
                    if (tensor, reading) not in scalars:
                        scalars[tensor, reading] = write_reading(reading, self.value(tensor))
        return scalars

    def _loop(self, op: Loop) -> ir.Operation:
        attributes: dict[str, ir.Attribute] = {
            "axis": ir.StringAttr.get(op.axis.name),
            "extent": a.INTEGER.write(op.axis.extent),
        }
        read: list[ir.Value] = []
        if op.steps is not None:
            attributes["steps"] = write_steps(op.steps)
            attributes["stepAxes"] = a.NAMES.write(op.steps.axes)
            pairs = zip(op.operands, op.steps.readings, strict=True)
            read = [self.scalars[pair] for pair in pairs]
        created = self._create(op, "loop", attributes, regions=1, operands=read)
        block = created.regions[0].blocks.append()
        with ir.InsertionPoint(block):
            for inner in op.body:
                self.operation(inner)
            self._accumulate(op)
        return created

    def _accumulate(self, op: Loop) -> None:
        from mirage.dialects import block

        rescaled = [(i, x.rescale) for i, x in enumerate(op.accumulators) if x.rescale is not None]
        fns = [ir.Attribute.parse(f"#block.accumulate_fn<{x.fn.value}>") for x in op.accumulators]
        block.AccumulateOp(
            ir.ArrayAttr.get(fns),
            [self.value(x.value) for x in op.accumulators],
            [self.value(m) for _, m in rescaled],
            a.INTEGERS.write(tuple(i for i, _ in rescaled)),
        )


def _current() -> ir.Location:
    location = ir.Location.current
    assert location is not None
    return location


def _input_entry(value: Value, note: InputNote | None) -> dict[str, ir.Attribute]:
    entry: dict[str, ir.Attribute] = {}
    if value.name:
        entry["kernel.name"] = ir.StringAttr.get(value.name)
    if note is not None and note.parameter is not None:
        entry["kernel.parameter"] = ir.StringAttr.get(note.parameter)
    return entry


_SPECIAL: dict[type[Op], Callable[[_Writer, Any], ir.Operation]] = {
    Constant: _Writer._constant,  # pyright: ignore[reportPrivateUsage]
    External: _Writer._external,  # pyright: ignore[reportPrivateUsage]
    Alternatives: _Writer._alternatives,  # pyright: ignore[reportPrivateUsage]
    Launch: _Writer._launch,  # pyright: ignore[reportPrivateUsage]
    Loop: _Writer._loop,  # pyright: ignore[reportPrivateUsage]
}
