"""Facts about kernels and tensors in lowered IR (attributes, strides, tensor maps) and about
kernels in PTX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from mirage.compiler.errors import CompileError
from mirage.runtime.serialization.manifest import (
    ELEMENT_BYTES,
    TensorMap,
)
from mirage.semantics.indexing.strides import dense
from mirage.semantics.region import contiguous_start

if TYPE_CHECKING:
    from mirage import ir

_MAP_ALIGN = 16
"""The alignment in bytes of all strides of a tensor map, except for those within rows."""


def dynamic_of(op: ir.Operation) -> tuple[int, tuple[int, ...]] | None:
    """Return the largest size of an op, and the numbers of its tensors whose rows it determines."""
    from mirage.mlir_io.attributes import read_dynamic

    return read_dynamic(op)


def pair(numbers: list[int]) -> tuple[int, int]:
    first, second = numbers
    return first, second


def tensor_maps(op: ir.Operation) -> Iterator[tuple[int, TensorMap]]:
    """Yield the tensor maps that a kernel takes after its tensors, each with the number of its
    tensor."""
    from mirage import ir

    tensors = [*op.operands, *op.results]
    if "tensor_maps" not in op.attributes:
        return
    for attribute in ir.ArrayAttr(op.attributes["tensor_maps"]):
        text = str(attribute)
        match = re.search(r"parameter = (\d+), box = \[([\d, ]+)\], swizzle = (\d+)", text)
        if match is None:
            raise CompileError(f"{op.location}: expected a #kernel.tensor_map, got {text}")
        number = int(match[1])
        shape, dtype = tensor_type(tensors[number])
        box = tuple(int(n) for n in match[2].split(","))
        # the last extent of a box of fewer dimensions is one of the last dimensions together
        shape = (*shape[: len(box) - 1], prod(shape[len(box) - 1 :]))
        strides = _map_strides(shape, strides_of(tensors[number]), ELEMENT_BYTES[dtype])
        tf32 = "tf32 = true" in text
        yield number, TensorMap(shape, dtype, box, int(match[3]), strides, tf32)


def _map_strides(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, size: int
) -> tuple[int, ...] | None:
    """Return the strides that a tensor map takes. The stride of a dimension of one element is never
    used, so it may be any number; the driver still requires an aligned one."""
    if strides is None:
        return None
    steps = (_MAP_ALIGN // size if n == 1 else s for n, s in zip(shape, strides, strict=True))
    return (*list(steps)[:-1], strides[-1])


def integers(op: ir.Operation, name: str) -> list[int]:
    from mirage import ir

    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


def integer(op: ir.Operation, name: str) -> int:
    from mirage import ir

    return ir.IntegerAttr(op.attributes[name]).value


def triple(op: ir.Operation, values: list[int]) -> tuple[int, int, int]:
    if not 1 <= len(values) <= 3:
        raise CompileError(f"{op.location}: expected up to three extents, got {values}")
    x, y, z = (*map(int, values), *[1] * (3 - len(values)))
    return x, y, z


def maker_of(value: ir.Value) -> str:
    """Return the name of the op that defines a value; empty for an argument."""
    return str(getattr(value.owner, "name", ""))


def start_of(op: ir.Operation) -> int:
    """Return the bytes before the block of a ``kernel.slice``, which must be contiguous or have
    strides."""
    whole, dtype = tensor_type(op.operands[0])
    offsets = integers(op, "offsets")
    if strides_of(op.results[0]) is None:
        start = contiguous_start(whole, tensor_type(op.results[0])[0], offsets)
        if start is None:
            raise CompileError(f"{op.location}: expected a block in one piece, got {op}")
    else:
        steps = strides_of(op.operands[0]) or dense(whole)
        start = sum(n * step for n, step in zip(offsets, steps, strict=True))
    return start * ELEMENT_BYTES[dtype]


def strides_of(value: ir.Value) -> tuple[int, ...] | None:
    """Return the strides of a tensor that is part of another one, in elements; None for a dense
    tensor."""
    from mirage import ir

    encoding = ir.RankedTensorType(value.type).encoding
    match = None if encoding is None else re.match(r"#kernel\.strides<\[([\d, ]*)\]", str(encoding))
    if match is None:
        return None
    return tuple(int(n) for n in match[1].split(",") if n)


def tensor_type(value: ir.Value) -> tuple[tuple[int, ...], str]:
    """Return the shape and element type of a tensor value."""
    from mirage import ir

    kind = ir.RankedTensorType(value.type)
    return tuple(kind.shape), str(kind.element_type)


def ptx_version(ptx: str) -> str:
    """Return the newest ``.version`` in the text."""
    versions = re.findall(r"^\s*\.version\s+(\d+)\.(\d+)", ptx, re.MULTILINE)
    if not versions:
        raise CompileError("expected PTX with a .version line, got none")
    major, minor = max((int(a), int(b)) for a, b in versions)
    return f"{major}.{minor}"


def parameter_count(ptx: str, entry: str) -> int:
    """Return the number of parameters of a kernel. Raises :class:`CompileError` if there is no such
    kernel."""
    match = re.search(rf"\.entry\s+{re.escape(entry)}\s*(?:\((?P<params>[^)]*)\))?", ptx)
    if match is None:
        raise CompileError(f"expected PTX that defines kernel {entry!r}, got none")
    return (match["params"] or "").count(".param")
