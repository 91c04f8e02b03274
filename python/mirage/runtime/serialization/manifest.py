"""The manifest of an artifact: its kernels, their order, and their buffers.

A manifest is plain data and contains everything that a launch needs, so running an artifact
requires no compiler. Reading is strict: a key that is missing, unknown or of the wrong type is an
error, never a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

from mirage.runtime.errors import UnreadableArtifactError
from mirage.runtime.serialization.json_reader import Json, Reader, opened
from mirage.runtime.serialization.sizes import Size, read_size

FORMAT = "mirage-artifact"
VERSION = 8
"""The format version. It increases whenever the meaning of a manifest changes; a runtime reads one
version."""

TORCH_NAMES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}
"""PyTorch's names of the element types."""

ELEMENT_BYTES = {
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "f8E4M3FN": 1, "f8E5M2": 1,
    "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that the caller passes or receives. Strides are in elements; ``parameter`` names a
    weight of the module.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    parameter: str | None = None

    @property
    def bytes(self) -> int:
        """The number of bytes from the first element to the end of the last."""
        if 0 in self.shape:
            return 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return (last + 1) * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class WorkspaceBuffer:
    """An intermediate tensor: a range of bytes of the workspace. Ranges may overlap if lifetimes do
    not.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int

    @property
    def bytes(self) -> int:
        """The size in bytes; the tensor is dense."""
        return prod(self.shape) * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class TensorMap:
    """The tensor memory accelerator's view of a tensor. One copy moves a ``box`` (in elements, one
    extent per dimension, outermost first); in shared memory its 16-byte chunks are permuted within
    ``swizzle`` bytes (0: not permuted). ``strides``, in elements, are given for a part of another
    tensor and None for a dense tensor. With ``tf32`` a copy rounds elements of f32 to TF32.
    """

    shape: tuple[int, ...]
    dtype: str
    box: tuple[int, ...]
    swizzle: int
    strides: tuple[int, ...] | None = None
    tf32: bool = False


@dataclass(frozen=True)
class Argument:
    """A kernel parameter: the address of an ``input``, ``output`` or ``workspace`` buffer plus
    ``offset`` bytes or, with ``map``, the 128-byte description of the tensor that starts there.

    The kernel expects its elements to lie ``strides`` (in elements) apart, or densely without
    ``strides``. A parameter of the kind ``size`` is the program's size, an i32.
    """

    kind: str
    index: int
    offset: int = 0
    map: TensorMap | None = None
    strides: tuple[int, ...] | None = None

    def to_json(self) -> Json:
        """Return the argument as JSON data."""
        return {**vars(self), "map": None if self.map is None else vars(self.map)}


@dataclass(frozen=True)
class KernelLaunch:
    """One kernel: entry point, geometry (blocks, threads, blocks in a cluster), dynamic shared
    memory and parameters.

    A ``dependent`` kernel may start before the previous kernel has ended; it waits for that
    kernel's results itself. ``rows = (a, b)``: at a size ``n`` below the largest, only the first
    ``ceil(n * a / b)`` parts of the grid run, of the number that the largest size has.
    """

    module: int
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]
    cluster: tuple[int, int, int] | None = None
    dependent: bool = False
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, order=True)
class IndexBound:
    """A bound on an input, by its number: all of its elements should be indices of ``below`` rows.
    Other indices have a defined result too; they are errors only for callers who request it."""

    input: int
    below: int


@dataclass(frozen=True)
class Module:
    """A PTX file of the artifact, and machine code for the same chip if it was assembled ahead."""

    ptx: str
    ptx_sha256: str
    cubin: str | None = None
    cubin_sha256: str | None = None


@dataclass(frozen=True)
class Manifest:
    """Everything except the code. ``evidence`` and ``prediction`` inform people; the runtime does
    not read them. With a ``size``, all shapes and grids are those of its value.
    """

    name: str
    compiler: str
    chip: str
    ptx_version: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    workspace: tuple[WorkspaceBuffer, ...]
    modules: tuple[Module, ...]
    kernels: tuple[KernelLaunch, ...]
    resources: Mapping[str, Any] = field(default_factory=dict[str, Any])
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prediction: Mapping[str, Any] = field(default_factory=dict[str, Any])
    size: Size | None = None
    updates: tuple[int, ...] = ()
    """The inputs that the kernels write to; they must not overlap any other tensor."""
    bounds: tuple[IndexBound, ...] = ()

    @property
    def workspace_bytes(self) -> int:
        """The size of the workspace in bytes."""
        return max((b.offset + b.bytes for b in self.workspace), default=0)

    def to_json(self) -> Json:
        """Return the manifest as JSON data, which :func:`from_json` reads."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "compiler": self.compiler,
            "chip": self.chip,
            "ptx_version": self.ptx_version,
            "inputs": [vars(t) for t in self.inputs],
            "outputs": [vars(t) for t in self.outputs],
            "workspace": [vars(b) for b in self.workspace],
            "modules": [vars(m) for m in self.modules],
            "kernels": [
                {**vars(k), "arguments": [a.to_json() for a in k.arguments]} for k in self.kernels
            ],
            "size": None if self.size is None else self.size.to_json(),
            "updates": list(self.updates),
            "bounds": [vars(b) for b in self.bounds],
            "resources": dict(self.resources),
            "evidence": dict(self.evidence),
            "prediction": dict(self.prediction),
        }


def from_json(data: object, where: str) -> Manifest:
    """Return the manifest in ``data``, which comes from the file ``where``. Raises
    :class:`ArtifactVersionError` and :class:`UnreadableArtifactError`.
    """
    if not isinstance(data, dict) or cast(Json, data).get("format") != FORMAT:
        whole = isinstance(data, dict) and cast(Json, data).get("format") == "mirage-model"
        got = "a whole model; call what mirage.runtime.load gives" if whole else "something else"
        raise UnreadableArtifactError(f"{where}: expected a {FORMAT!r} manifest, got {got}")
    advice = "compile the program again with this version"
    reader = opened(data, where, VERSION, "manifest", advice)
    manifest = Manifest(
        name=reader.text("name"),
        compiler=reader.text("compiler"),
        chip=reader.text("chip"),
        ptx_version=reader.text("ptx_version"),
        inputs=tuple(map(read_tensor, reader.items("inputs"))),
        outputs=tuple(map(read_tensor, reader.items("outputs"))),
        workspace=tuple(map(_buffer, reader.items("workspace"))),
        modules=tuple(map(_module, reader.items("modules"))),
        kernels=tuple(map(_kernel, reader.items("kernels"))),
        size=read_size(reader),
        resources=reader.mapping("resources"),
        evidence=reader.mapping("evidence"),
        prediction=reader.mapping("prediction"),
        updates=reader.integers("updates"),
        bounds=tuple(map(_bound, reader.items("bounds"))),
    )
    reader.finish()
    _check_references(manifest, where)
    return manifest


def read_tensor(r: Reader) -> TensorSpec:
    """Read the specification of a tensor."""
    spec = TensorSpec(
        r.text("name"),
        r.integers("shape"),
        r.integers("strides"),
        r.dtype("dtype"),
        r.optional_text("parameter"),
    )
    if len(spec.shape) != len(spec.strides):
        raise r.error("strides", f"{len(spec.shape)} strides", list(spec.strides))
    r.finish()
    return spec


def _buffer(r: Reader) -> WorkspaceBuffer:
    buffer = WorkspaceBuffer(
        r.text("name"), r.integers("shape"), r.dtype("dtype"), r.integer("offset")
    )
    r.finish()
    return buffer


def _module(r: Reader) -> Module:
    ptx, ptx_hash = r.file(r.text("ptx"), "ptx"), r.text("ptx_sha256")
    cubin, cubin_hash = r.optional_text("cubin"), r.optional_text("cubin_sha256")
    if (cubin is None) != (cubin_hash is None):
        raise r.error("cubin_sha256", "a hash exactly where there is a cubin", cubin_hash)
    r.finish()
    return Module(ptx, ptx_hash, None if cubin is None else r.file(cubin, "cubin"), cubin_hash)


def _bound(r: Reader) -> IndexBound:
    bound = IndexBound(r.integer("input"), r.integer("below"))
    r.finish()
    return bound


def _kernel(r: Reader) -> KernelLaunch:
    has_cluster = r.data.get("cluster") is not None
    if not has_cluster:
        r.take("cluster", "three positive integers or null")
    kernel = KernelLaunch(
        module=r.integer("module"),
        entry=r.text("entry"),
        grid=r.triple("grid"),
        block=r.triple("block"),
        shared_bytes=r.integer("shared_bytes"),
        arguments=tuple(map(_argument, r.items("arguments"))),
        cluster=r.triple("cluster") if has_cluster else None,
        dependent=r.truth("dependent"),
        rows=_rows(r),
    )
    r.finish()
    return kernel


def _rows(r: Reader) -> tuple[int, int] | None:
    if r.data.get("rows") is None:
        r.take("rows", "two positive integers or null")
        return None
    rows = r.integers("rows")
    if len(rows) != 2 or 0 in rows:
        raise r.error("rows", "two positive integers or null", list(rows))
    return rows[0], rows[1]


def _argument(r: Reader) -> Argument:
    kind, index, offset = r.text("kind"), r.integer("index"), r.integer("offset")
    argument = Argument(kind, index, offset, _tensor_map(r), _strides(r))
    if argument.kind not in ("input", "output", "workspace", "size"):
        raise r.error("kind", "input, output, workspace or size", argument.kind)
    r.finish()
    return argument


def _tensor_map(r: Reader) -> TensorMap | None:
    if r.data.get("map") is None:
        r.take("map", "an object or null")
        return None
    path = f"{r.path}.map"
    inner = Reader(r.mapping("map"), r.where, path)
    shape, dtype = inner.integers("shape"), inner.dtype("dtype")
    box, swizzle = inner.integers("box"), inner.integer("swizzle")
    if not 1 <= len(shape) <= 5 or 0 in shape:
        raise inner.error("shape", "1 to 5 positive extents", list(shape))
    if len(box) != len(shape) or any(not 1 <= n <= 256 for n in box):
        raise inner.error("box", f"{len(shape)} extents from 1 to 256", list(box))
    if swizzle not in (0, 32, 64, 128):
        raise inner.error("swizzle", "0, 32, 64 or 128", swizzle)
    strides = _strides(inner)
    if strides is not None and len(strides) != len(shape):
        raise inner.error("strides", f"{len(shape)} strides or null", list(strides))
    tf32 = inner.truth("tf32")
    if tf32 and dtype != "f32":
        raise inner.error("tf32", f"false for elements of {dtype}", tf32)
    inner.finish()
    return TensorMap(shape, dtype, box, swizzle, strides, tf32)


def _strides(r: Reader) -> tuple[int, ...] | None:
    if r.data.get("strides") is None:
        r.take("strides", "integers or null")
        return None
    return r.integers("strides")


def _check_references(m: Manifest, where: str) -> None:
    indices = [b.input for b in m.bounds]
    if any(n >= len(m.inputs) or m.inputs[n].dtype not in ("i32", "i64") for n in indices):
        raise UnreadableArtifactError(
            f"{where}: bounds: expected inputs of i32 or i64 among {len(m.inputs)}, got {indices}"
        )
    if any(n >= len(m.inputs) for n in m.updates):
        raise UnreadableArtifactError(
            f"{where}: updates: expected some of {len(m.inputs)} inputs, got {list(m.updates)}"
        )
    counts = {"input": len(m.inputs), "output": len(m.outputs), "workspace": len(m.workspace)}
    counts["size"] = 0 if m.size is None else 1
    if m.size is not None:
        m.size.check(m, where)
    for i, kernel in enumerate(m.kernels):
        if kernel.module >= len(m.modules):
            raise UnreadableArtifactError(
                f"{where}: kernels[{i}].module: expected one of {len(m.modules)} modules, got "
                f"{kernel.module}"
            )
        for j, a in enumerate(kernel.arguments):
            if a.index >= counts[a.kind]:
                raise UnreadableArtifactError(
                    f"{where}: kernels[{i}].arguments[{j}]: expected one of {counts[a.kind]} "
                    f"{'sizes' if a.kind == 'size' else f'{a.kind} buffers'}, got {a.index}"
                )
    written = {a.index for k in m.kernels for a in k.arguments if a.kind == "output"}
    missing = set(range(len(m.outputs))) - written
    if missing:
        raise UnreadableArtifactError(
            f"{where}: outputs {sorted(missing)}: expected a kernel that writes them, got none"
        )
