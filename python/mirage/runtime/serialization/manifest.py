"""The manifest of an artifact: its kernels, their order, and their buffers.

A manifest is plain data and contains everything that a launch needs, so running an artifact
requires no compiler. Reading (:mod:`mirage.runtime.serialization.manifest_reader`) is strict: a key
that is missing, unknown or of the wrong type is an error, never a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mirage.runtime.serialization.json_reader import Json
from mirage.runtime.serialization.sizes import Size

FORMAT = "mirage-artifact"
VERSION = 10
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

    The kernel expects the distances ``strides`` (in elements) between its elements, or a dense
    tensor without ``strides``. A parameter of the kind ``size`` is the program's size, an i32.
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
    kernel's results itself. If the first kernel is dependent, it may also start early after kernels
    of another artifact. ``beside`` is the number of preceding kernels during which a kernel may
    run: it touches nothing that they write, writes nothing that they touch, and waits for them only
    at its end. ``writes`` has the numbers of the arguments that the kernel writes to. ``rows = (a,
    b)``: at a size ``n`` below the largest, only the first ``ceil(n * a / b)`` parts of the grid
    run, of the number that the largest size has.
    """

    module: int
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]
    cluster: tuple[int, int, int] | None = None
    dependent: bool = False
    beside: int = 0
    writes: tuple[int, ...] = ()
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, order=True)
class IndexBound:
    """A bound on an input, by its number: all of its elements should be indices of ``below`` rows,
    counted from the end if they are negative and ``from_end`` holds, or equal ``ignored``. Other
    indices have a defined result as well; they are errors only for callers who request it. With
    ``steps``, this concerns what they compute from this input and others
    (:mod:`mirage.runtime.serialization.index_steps`). ``below`` grows by ``each`` with the size of
    a program for any size."""

    input: int
    below: int
    from_end: bool = False
    ignored: int | None = None
    steps: tuple[str, ...] = ()
    each: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain data; ``ignored``, ``steps`` and ``each`` only if there are such."""
        data = {**vars(self), "steps": list(self.steps) or None, "each": self.each or None}
        return {name: value for name, value in data.items() if value is not None}


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
        """Return the manifest as JSON data, for the manifest's reader."""
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
            "bounds": [b.to_json() for b in self.bounds],
            "resources": dict(self.resources),
            "evidence": dict(self.evidence),
            "prediction": dict(self.prediction),
        }
