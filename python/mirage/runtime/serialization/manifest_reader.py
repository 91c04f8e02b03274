"""Reads the manifest of an artifact, strictly: what is unknown, missing or of the wrong type raises
an error that names its place, and so does the number of something that does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from mirage.runtime.errors import UnreadableArtifactError
from mirage.runtime.serialization.index_steps import why_malformed
from mirage.runtime.serialization.json_reader import Json, Reader, opened
from mirage.runtime.serialization.kernels_beside import conflicts
from mirage.runtime.serialization.manifest import (
    FORMAT,
    VERSION,
    Argument,
    IndexBound,
    KernelLaunch,
    Manifest,
    Module,
    TensorMap,
    TensorSpec,
    WorkspaceBuffer,
)
from mirage.runtime.serialization.sizes import read_size


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
        bounds=tuple(map(read_bound, reader.items("bounds"))),
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


def read_bound(r: Reader) -> IndexBound:
    """Read the bound of an index."""
    ignored = r.signed("ignored") if "ignored" in r.data else None
    steps = r.texts("steps") if "steps" in r.data else ()
    each = r.integer("each") if "each" in r.data else 0
    below, from_end = r.integer("below"), r.truth("from_end")
    bound = IndexBound(r.integer("input"), below, from_end, ignored, steps, each)
    r.finish()
    return bound


def check_bounds(bounds: Sequence[IndexBound], inputs: Sequence[TensorSpec], where: str) -> None:
    """Raise :class:`UnreadableArtifactError` for bounds that no such inputs have."""
    for number, bound in enumerate(bounds):
        why = why_malformed(bound.steps, len(inputs))
        if why is not None:
            raise UnreadableArtifactError(f"{where}: bounds: [{number}]: steps: {why}")
    indices = [b.input for b in bounds if not b.steps]
    if any(n >= len(inputs) or inputs[n].dtype not in ("i32", "i64") for n in indices):
        raise UnreadableArtifactError(
            f"{where}: bounds: expected inputs of i32 or i64 among {len(inputs)}, got {indices}"
        )


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
        beside=r.integer("beside"),
        writes=r.integers("writes"),
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
    check_bounds(m.bounds, m.inputs, where)
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
        if any(n >= len(kernel.arguments) for n in kernel.writes):
            raise UnreadableArtifactError(
                f"{where}: kernels[{i}].writes: expected some of {len(kernel.arguments)} arguments,"
                f" got {list(kernel.writes)}"
            )
        for j, a in enumerate(kernel.arguments):
            if a.index >= counts[a.kind]:
                raise UnreadableArtifactError(
                    f"{where}: kernels[{i}].arguments[{j}]: expected one of {counts[a.kind]} "
                    f"{'sizes' if a.kind == 'size' else f'{a.kind} buffers'}, got {a.index}"
                )
    for conflict in conflicts(m):
        raise UnreadableArtifactError(f"{where}: {conflict}")
    written = {a.index for k in m.kernels for a in k.arguments if a.kind == "output"}
    missing = set(range(len(m.outputs))) - written
    if missing:
        raise UnreadableArtifactError(
            f"{where}: outputs {sorted(missing)}: expected a kernel that writes them, got none"
        )
