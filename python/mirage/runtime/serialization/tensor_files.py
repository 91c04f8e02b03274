"""Tensors by name in ``.safetensors`` files, with torch alone.

A file is mapped into memory, not read: tensors that are unused, or moved to a GPU at once, take no
additional memory.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.runtime.errors import TruncatedArtifactError
from mirage.runtime.serialization.manifest import ELEMENT_BYTES, TORCH_NAMES
from mirage.runtime.serialization.safetensors_header import (
    LENGTH_BYTES,
    Entry,
    HeaderError,
    header_length,
    read_header,
    written_header,
)

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 64  # offset of the first element, in bytes
_CHUNK = 1 << 22


def write_file(path: Path, tensors: Mapping[str, torch.Tensor]) -> str:
    """Write tensors (of any device and strides) and return the hash of the file. Raises
    ``OSError``."""
    import torch

    names = {getattr(torch, known): name for name, known in TORCH_NAMES.items()}
    # The wide ones first, so that all are aligned to their elements.
    order = sorted(tensors, key=lambda name: -tensors[name].element_size())
    described = [(name, names[x.dtype], tuple(x.shape)) for name in order for x in [tensors[name]]]
    hashed = hashlib.sha256()
    with path.open("wb") as file:

        def put(data: Any) -> None:
            file.write(data)
            hashed.update(data)

        put(written_header(described, _ALIGNMENT))
        for name in order:
            x = tensors[name].detach().to("cpu").contiguous()
            if x.numel():
                bytes_of = ctypes.c_char * (x.numel() * x.element_size())
                put(memoryview(bytes_of.from_address(x.data_ptr())))
    return hashed.hexdigest()


def _unreadable(path: Path, error: OSError) -> TruncatedArtifactError:
    return TruncatedArtifactError(f"{path}: expected a file of tensors, got: {error.strerror}")


def hash_of(path: Path) -> str:
    """Return the hash of a file. Raises :class:`TruncatedArtifactError` if it cannot be read."""
    hashed = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                hashed.update(chunk)
    except OSError as e:
        raise _unreadable(path, e) from None
    return hashed.hexdigest()


def read_file(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, mapped into memory on the CPU; writing to them does not change
    the file.

    Raises :class:`TruncatedArtifactError`.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = header_length(file.read(LENGTH_BYTES), size)
            base = LENGTH_BYTES + length
            entries = read_header(file.read(length), size - base)
    except OSError as e:
        raise _unreadable(path, e) from None
    except HeaderError as e:
        raise TruncatedArtifactError(f"{path}: {e}") from None
    import torch

    storage: Any = torch.UntypedStorage.from_file(str(path), False, size)
    return {name: _tensor(entry, storage, base) for name, entry in entries.items()}


def _tensor(entry: Entry, storage: Any, base: int) -> torch.Tensor:
    import torch

    width, first = ELEMENT_BYTES[entry.dtype], base + entry.start
    dtype, shape = getattr(torch, TORCH_NAMES[entry.dtype]), entry.shape
    if first % width:  # a file with other types
        count = entry.end - entry.start
        raw = torch.empty(0, dtype=torch.uint8).set_(storage, first, (count,), (1,))  # pyright: ignore
        return raw.clone().view(dtype).reshape(shape)
    strides = torch.empty(shape, device="meta").stride()
    return torch.empty(0, dtype=dtype).set_(storage, first // width, shape, strides)  # pyright: ignore
