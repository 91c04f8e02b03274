"""Conversion of a kernel graph in form ``binary`` to a manifest and PTX.

In that form all computation is in ``kernel.invoke`` of functions whose code is in ``gpu.binary``
ops, beside ops that only name memory (:mod:`mirage.compiler.memory_views`). Everything else is an
error that names the op.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from mirage.compiler.errors import CompileError
from mirage.compiler.lowered_ops import (
    dynamic_of,
    integer,
    integers,
    maker_of,
    pair,
    parameter_count,
    ptx_version,
    start_of,
    strides_of,
    tensor_maps,
    tensor_type,
    triple,
)
from mirage.compiler.memory_views import Buffer, MemoryView, parts_of_joins, reshaped_of
from mirage.compiler.workspace import Lifetime, plan
from mirage.runtime.serialization.artifact import Artifact, sha256
from mirage.runtime.serialization.kernels_beside import conflicts
from mirage.runtime.serialization.manifest import (
    ELEMENT_BYTES,
    Argument,
    KernelLaunch,
    Manifest,
    Module,
    TensorSpec,
    WorkspaceBuffer,
)
from mirage.runtime.serialization.sizes import Size
from mirage.semantics.indexing.strides import dense

if TYPE_CHECKING:
    from mirage import ir


@dataclass(frozen=True)
class Names:
    """The names that the program's author gave to inputs and outputs; inputs that are weights have
    a parameter name."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: Mapping[int, str] = field(default_factory=dict[int, str])


def collect(module: ir.Module, compiler: str, chip: str, names: Names | None = None) -> Artifact:
    """Return the artifact of the only graph in ``module``, which must be in form ``binary``. Raises
    :class:`CompileError`.
    """
    graphs = [op for op in module.body.operations if op.operation.name == "kernel.graph"]
    if len(graphs) != 1:
        raise CompileError(f"expected a module with one kernel.graph, got {len(graphs)}")
    ptx_of = dict(binaries(module))
    return _Collector(graphs[0].operation, ptx_of, names or Names()).run(compiler, chip)


def binaries(module: ir.Module) -> Iterator[tuple[str, str]]:
    """Yield the symbol and PTX of every ``gpu.binary``."""
    from mirage import ir
    from mirage.dialects import gpu

    for op in module.body.operations:
        if op.operation.name != "gpu.binary":
            continue
        name = str(op.operation.attributes["sym_name"]).strip('"')
        objects = list(ir.ArrayAttr(op.operation.attributes["objects"]))
        if len(objects) != 1:
            raise CompileError(f"gpu.binary @{name}: expected one object, got {len(objects)}")
        content: Any = gpu.ObjectAttr(objects[0]).object
        text = content.decode() if isinstance(content, bytes) else str(content)
        yield name, text.rstrip("\0")


class _Collector:
    def __init__(self, graph: ir.Operation, ptx_of: Mapping[str, str], names: Names) -> None:
        self.graph = graph
        self.ptx_of = ptx_of
        self.names = names
        self.block = graph.regions[0].blocks[0]
        self.views: dict[ir.Value, MemoryView] = {}
        self.modules: list[str] = []
        self.kernels: list[tuple[Any, list[MemoryView]]] = []
        self.parts = parts_of_joins(self.block)
        self.updates: list[int] = []

    def run(self, compiler: str, chip: str) -> Artifact:
        inputs = self._inputs()
        self.parts.update(self._stored_rows())
        outputs: list[TensorSpec] = []
        for op in self.block.operations:
            self._visit(op.operation, outputs)
        workspace = self._workspace()
        size = self._size()
        kernels = tuple(self._launch(op, views) for op, views in self.kernels)
        files: dict[str, bytes] = {}
        modules: list[Module] = []
        for i, name in enumerate(self.modules):
            file = "kernels.ptx" if len(self.modules) == 1 else f"kernels{i}.ptx"
            files[file] = self.ptx_of[name].encode()
            modules.append(Module(file, sha256(files[file])))
        name = str(self.graph.attributes["sym_name"]).strip('"')
        version = ptx_version("\n".join(self.ptx_of[m] for m in self.modules))
        manifest = Manifest(
            name,
            compiler,
            chip,
            version,
            inputs,
            tuple(outputs),
            workspace,
            tuple(modules),
            kernels,
            size=size,
            updates=tuple(self.updates),
        )
        for conflict in conflicts(manifest):
            raise CompileError(f"graph {name!r}: {conflict}")
        return Artifact(manifest, files)

    def _inputs(self) -> tuple[TensorSpec, ...]:
        specs: list[TensorSpec] = []
        for i, value in enumerate(self.block.arguments):
            shape, dtype = tensor_type(value)
            self.views[value] = MemoryView(Buffer(shape, dtype, Argument("input", i)))
            name = self.names.inputs[i] if i < len(self.names.inputs) else ""
            specs.append(
                TensorSpec(
                    name or f"arg{i}",
                    shape,
                    dense(shape),
                    dtype,
                    self.names.parameters.get(i),
                )
            )
        return tuple(specs)

    def _visit(self, op: ir.Operation, outputs: list[TensorSpec]) -> None:
        number = len(self.kernels)
        if op.name == "kernel.invoke":
            # Its results do not overlap memory that is used while it runs.
            first = number - _beside(op)
            for value in op.results:
                view = self.parts.get(value) or MemoryView(Buffer(*tensor_type(value)))
                if view.buffer.first < 0:
                    view.buffer.first = first
                self.views[value] = view
            views = [self._view(v, op) for v in (*op.operands, *op.results)]
            for view in views:
                view.buffer.last = number
            self.kernels.append((op, views))
        elif op.name == "kernel.reshape":
            self.views[op.results[0]] = self._view(op.operands[0], op)
        elif op.name == "kernel.slice":
            whole = self._view(op.operands[0], op)
            self.views[op.results[0]] = MemoryView(whole.buffer, whole.offset + start_of(op))
        elif (
            op.name == "kernel.concat"
            and (strides_of(op.operands[0]) is not None or self._is_stored(op))
        ) or op.name == "kernel.index_copy":
            self.views[op.results[0]] = self._view(op.operands[0], op)
        elif op.name == "kernel.return":
            for value in op.operands:
                if maker_of(value) == "kernel.index_copy":
                    self.updates.append(self._updated(value, op))
                else:
                    outputs.append(self._output(len(outputs), value, op))
        else:
            raise CompileError(f"{op.location}: expected compiled kernels only, got {op.name}")

    def _output(self, index: int, value: ir.Value, op: ir.Operation) -> TensorSpec:
        buffer = self._view(value, op).buffer
        if buffer.place is not None:
            what = (
                "an input" if buffer.place.kind == "input" else f"output {buffer.place.index} again"
            )
            raise CompileError(
                f"output {index}: expected a result of a kernel, got {what}; return a copy of it"
            )
        buffer.place = Argument("output", index)
        shape, dtype = tensor_type(value)
        name = self.names.outputs[index] if index < len(self.names.outputs) else ""
        return TensorSpec(name or f"out{index}", shape, dense(shape), dtype)

    def _stored_rows(self) -> Iterator[tuple[ir.Value, MemoryView]]:
        """Yield the results of kernels that are stored to inputs: the kernels take those inputs
        and find the row themselves."""
        for op in self.block.operations:
            if op.operation.name == "kernel.index_copy":
                row, whole = op.operands[2], self.views[op.operands[0]]
                joined = reshaped_of(row)
                is_join = maker_of(joined) == "kernel.concat"
                for part in joined.owner.operands if is_join else [joined]:
                    yield reshaped_of(part), whole

    def _is_stored(self, op: ir.Operation) -> bool:
        """Return whether kernels store the parts that an op joins to an input."""
        views = (self.views.get(v) for v in op.operands)
        return all(v is not None and v.buffer.place is not None for v in views)

    def _updated(self, value: ir.Value, op: ir.Operation) -> int:
        """Return the input whose updated value an output is."""
        place = self._view(value, op).buffer.place
        if place is None or place.kind != "input":
            raise CompileError(f"{op.location}: expected an update of an input")
        return place.index

    def _view(self, value: ir.Value, op: ir.Operation) -> MemoryView:
        view = self.views.get(value)
        if view is None:
            raise CompileError(f"{op.location}: {op.name} reads a value that no kernel writes")
        return view

    def _workspace(self) -> tuple[WorkspaceBuffer, ...]:
        unplaced: list[Buffer] = []
        for _, views in self.kernels:
            new = (v.buffer for v in views if v.buffer.place is None)
            unplaced.extend(b for b in dict.fromkeys(new) if b not in unplaced)
        lifetimes = [
            Lifetime(prod(b.shape) * ELEMENT_BYTES[b.dtype], b.first, b.last) for b in unplaced
        ]
        planned: list[WorkspaceBuffer] = []
        for i, (buffer, offset) in enumerate(zip(unplaced, plan(lifetimes), strict=True)):
            buffer.place = Argument("workspace", i)
            planned.append(WorkspaceBuffer(f"t{i}", buffer.shape, buffer.dtype, offset))
        return tuple(planned)

    def _size(self) -> Size | None:
        """Return the tensors whose rows are in proportion to the size, as kernels expect them.
        Raises :class:`CompileError` if two kernels disagree."""
        stated = dynamic_of(self.graph)
        if stated is None:
            return None
        found: set[Buffer] = {
            self.views[self.block.arguments[number]].buffer for number in stated[1]
        }
        for op, views in self.kernels:
            numbers = (dynamic_of(op) or (0, ()))[1]
            found.update(views[number].buffer for number in numbers)
        for op, views in self.kernels:
            numbers = (dynamic_of(op) or (0, ()))[1]
            for number, view in enumerate(views):
                if (number in numbers) != (view.buffer in found):
                    raise CompileError(
                        f"{op.location}: expected tensor {number} to be dynamic in all kernels or "
                        "in none"
                    )
        places = [b.place for b in found if b.place is not None]
        inputs, outputs, workspace = (
            tuple(sorted({p.index for p in places if p.kind == kind}))
            for kind in ("input", "output", "workspace")
        )
        return Size(stated[0], stated[0], inputs, outputs, workspace)

    def _launch(self, op: ir.Operation, views: list[MemoryView]) -> KernelLaunch:
        container, entry = re.findall(r'@"?([^":]+)"?', str(op.attributes["callee"]))
        if container not in self.ptx_of:
            raise CompileError(f"{op.location}: expected PTX for @{container}, got none")
        if container not in self.modules:
            self.modules.append(container)
        tensors = (*op.operands, *op.results)
        arguments = tuple(
            replace(v.buffer.place, offset=v.offset, strides=strides_of(value))
            for v, value in zip(views, tensors, strict=True)
            if v.buffer.place is not None
        )
        arguments += tuple(
            replace(arguments[number], map=tensor_map, strides=None)
            for number, tensor_map in tensor_maps(op)
        )
        if dynamic_of(op) is not None:
            arguments += (Argument("size", 0),)
        count = parameter_count(self.ptx_of[container], entry)
        if count != len(arguments):
            raise CompileError(
                f"kernel {entry!r}: expected {len(arguments)} parameters, its PTX has {count}"
            )
        cluster = integers(op, "cluster") if "cluster" in op.attributes else None
        return KernelLaunch(
            module=self.modules.index(container),
            entry=entry,
            grid=triple(op, integers(op, "grid")),
            block=triple(op, integers(op, "block")),
            shared_bytes=integer(op, "shared") if "shared" in op.attributes else 0,
            arguments=arguments,
            cluster=None if cluster is None else triple(op, cluster),
            dependent="dependent" in op.attributes,
            beside=_beside(op),
            writes=tuple(range(len(op.operands), len(tensors))),
            rows=pair(integers(op, "rows")) if "rows" in op.attributes else None,
        )


def _beside(op: ir.Operation) -> int:
    """Return the number of kernels before this one that may run at the same time."""
    return integer(op, "beside") if "beside" in op.attributes else 0
