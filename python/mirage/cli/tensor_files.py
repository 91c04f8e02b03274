"""Tensors by name in files: NumPy's ``.npz``, and ``.safetensors``, which has bf16 too."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mirage.errors import MirageError

Array = np.ndarray[Any, Any]

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
        "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    }.items()
}  # fmt: skip
"""By mirage's names of element types."""
_SAFETENSORS = {name.upper(): name for name in DTYPES} | {"BOOL": "i1"}
_LONGEST_HEADER = 100_000_000  # bytes, as the format says
KINDS = (".npz", ".safetensors")


class TensorFileError(MirageError, ValueError):
    """A file of tensors cannot be read or written, or does not hold what is wanted."""


def check_kind(path: Path) -> None:
    """Raises :class:`TensorFileError` where the file's name does not say what it is."""
    if path.suffix not in KINDS:
        raise TensorFileError(f"{path}: expected a file {' or '.join(KINDS)}, got {path.suffix!r}")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """What mirage calls an element type; NumPy's name for others."""
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype))


def read_tensors(path: Path) -> dict[str, Array]:
    """All tensors of a file. Raises :class:`TensorFileError`."""
    check_kind(path)
    try:
        content = path.read_bytes()
    except OSError as e:
        raise TensorFileError(f"{path}: cannot be read: {e.strerror}") from None
    return _from_npz(path, content) if path.suffix == ".npz" else _from_safetensors(path, content)


def _from_npz(path: Path, content: bytes) -> dict[str, Array]:
    try:
        with np.load(BytesIO(content), allow_pickle=False) as file:
            if not hasattr(file, "files"):
                raise TensorFileError(f"{path}: expected arrays by name, got a single one")
            return {name: np.asarray(file[name]) for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as e:
        if isinstance(e, TensorFileError):
            raise
        raise TensorFileError(f"{path}: expected an .npz file of numbers: {e}") from None


def _from_safetensors(path: Path, content: bytes) -> dict[str, Array]:
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > min(len(content) - 8, _LONGEST_HEADER):
        raise TensorFileError(f"{path}: expected a .safetensors file, got one that is cut off")
    data = memoryview(content)[8 + size :]
    try:
        header = json.loads(content[8 : 8 + size])
        if not isinstance(header, dict):
            raise TypeError("it is no object")
        entries: dict[str, Any] = {name: header[name] for name in header if name != "__metadata__"}
        return {name: _tensor(path, name, entry, data) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        if isinstance(e, TensorFileError):
            raise
        raise TensorFileError(f"{path}: expected a .safetensors header, got another: {e}") from None


def _tensor(path: Path, name: str, entry: Mapping[str, Any], data: memoryview) -> Array:
    kind = _SAFETENSORS.get(entry["dtype"])
    if kind is None:
        known = ", ".join(_SAFETENSORS)
        raise TensorFileError(f"{path}: {name}: expected a type of {known}, got {entry['dtype']}")
    shape, (start, end) = tuple(map(int, entry["shape"])), map(int, entry["data_offsets"])
    wanted = prod(shape) * DTYPES[kind].itemsize
    if not 0 <= start <= end <= len(data) or end - start != wanted or min(shape, default=0) < 0:
        raise TensorFileError(
            f"{path}: {name}: expected {wanted} bytes for {list(shape)} of {kind}, got bytes "
            f"{start} to {end} of {len(data)}"
        )
    return np.frombuffer(data[start:end], DTYPES[kind]).reshape(shape)


def check_writable(path: Path, types: Mapping[str, str]) -> None:
    """Raises :class:`TensorFileError` where tensors of these names and types cannot be written."""
    check_kind(path)
    if not path.parent.is_dir():
        raise TensorFileError(
            f"{path}: expected a folder to write to, but there is no {path.parent}"
        )
    halves = [name for name, kind in types.items() if kind == "bf16"]
    if path.suffix == ".npz" and halves:
        raise TensorFileError(
            f"{path}: expected types that .npz has, but {', '.join(halves)} is bf16; "
            "write a .safetensors file"
        )


def write_tensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Writes a file, whole or not at all. Raises :class:`TensorFileError`."""
    check_writable(path, {name: dtype_name(x.dtype) for name, x in tensors.items()})
    if path.suffix == ".npz":
        buffer = BytesIO()
        np.savez(buffer, **dict(tensors))  # pyright: ignore[reportArgumentType]
        content = buffer.getvalue()
    else:
        content = _safetensors(tensors)
    name = ""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except OSError as e:
        with suppress(OSError):
            os.unlink(name)
        raise TensorFileError(f"{path}: cannot be written: {e.strerror}") from None


def _safetensors(tensors: Mapping[str, Array]) -> bytes:
    names = {kind: name for name, kind in _SAFETENSORS.items()}
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    start = 0
    for name, x in tensors.items():
        parts.append(np.ascontiguousarray(x).tobytes())
        end = start + len(parts[-1])
        kind = names[dtype_name(x.dtype)]
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
