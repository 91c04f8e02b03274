"""Tensors by name in files: NumPy's ``.npz``, and ``.safetensors``, which has bf16 too."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mirage.errors import MirageError
from mirage.runtime.serialization.safetensors_header import (
    LENGTH_BYTES,
    HeaderError,
    header_length,
    read_header,
    written_header,
)

Array = np.ndarray[Any, Any]

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
        "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    }.items()
}  # fmt: skip
"""Element types by mirage's names."""
NOT_IN_NPZ = ("bf16", "f8E4M3FN", "f8E5M2")
KINDS = (".npz", ".safetensors")


class TensorFileError(MirageError, ValueError):
    """A file of tensors cannot be read or written, or does not contain the expected tensors."""


def check_kind(path: Path) -> None:
    """Raise :class:`TensorFileError` if the file's name does not show its kind."""
    if path.suffix not in KINDS:
        raise TensorFileError(f"{path}: expected a file {' or '.join(KINDS)}, got {path.suffix!r}")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return mirage's name of an element type, or NumPy's name if mirage has none."""
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype))


def read_tensors(path: Path) -> dict[str, Array]:
    """Return all tensors of a file. Raises :class:`TensorFileError`."""
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
    try:
        base = LENGTH_BYTES + header_length(content[:LENGTH_BYTES], len(content))
        data = memoryview(content)[base:]
        entries = read_header(content[LENGTH_BYTES:base], len(data))
    except HeaderError as e:
        raise TensorFileError(f"{path}: {e}") from None
    return {
        name: np.frombuffer(data[e.start : e.end], DTYPES[e.dtype]).reshape(e.shape)
        for name, e in entries.items()
    }


def check_writable(path: Path, types: Mapping[str, str]) -> None:
    """Raise :class:`TensorFileError` if tensors with these names and types cannot be written."""
    check_kind(path)
    if not path.parent.is_dir():
        raise TensorFileError(
            f"{path}: expected a folder to write to, but there is no {path.parent}"
        )
    others = {name: kind for name, kind in types.items() if kind in NOT_IN_NPZ}
    if path.suffix == ".npz" and others:
        kinds = ", ".join(f"{name} is {kind}" for name, kind in others.items())
        raise TensorFileError(
            f"{path}: expected types that .npz has, but {kinds}; write a .safetensors file"
        )


def write_tensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write a file, completely or not at all. Raises :class:`TensorFileError`."""
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
    header = written_header((n, dtype_name(x.dtype), x.shape) for n, x in tensors.items())
    return header + b"".join(np.ascontiguousarray(x).tobytes() for x in tensors.values())
