"""Tensors by name in ``.safetensors`` files, with torch alone.

A file is a length, a header in JSON, and the tensors' elements. It is mapped into memory, not read:
what is not used, or goes to a GPU at once, needs no memory of its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mirage.runtime.errors import TruncatedArtifactError
from mirage.runtime.manifest import ELEMENT_BYTES, TORCH_NAMES

if TYPE_CHECKING:
    import torch

_NAMES = {name: "BOOL" if name == "i1" else name.upper() for name in ELEMENT_BYTES}
_ALIGNMENT = 64  # of the first element, in bytes
_LONGEST_HEADER = 100_000_000  # bytes, as the format says
_CHUNK = 1 << 22


def write_file(path: Path, tensors: Mapping[str, torch.Tensor]) -> str:
    """Writes tensors (of any device and strides) and returns the hash of the file. Raises
    ``OSError``."""
    import torch

    names = {getattr(torch, known): name for name, known in TORCH_NAMES.items()}
    # The wide ones first, so that all are aligned to their elements.
    order = sorted(tensors, key=lambda name: -tensors[name].element_size())
    header: dict[str, Any] = {}
    start = 0
    for name in order:
        x = tensors[name]
        end = start + x.numel() * x.element_size()
        kind = _NAMES[names[x.dtype]]
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    hashed = hashlib.sha256()
    with path.open("wb") as file:

        def put(data: Any) -> None:
            file.write(data)
            hashed.update(data)

        put(len(text).to_bytes(8, "little"))
        put(text)
        for name in order:
            x = tensors[name].detach().to("cpu").contiguous()
            if x.numel():
                bytes_of = ctypes.c_char * (x.numel() * x.element_size())
                put(memoryview(bytes_of.from_address(x.data_ptr())))
    return hashed.hexdigest()


def _unreadable(path: Path, error: OSError) -> TruncatedArtifactError:
    return TruncatedArtifactError(f"{path}: expected a file of tensors, got: {error.strerror}")


def hash_of(path: Path) -> str:
    """Hash of a file. Raises :class:`TruncatedArtifactError` where it cannot be read."""
    hashed = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                hashed.update(chunk)
    except OSError as e:
        raise _unreadable(path, e) from None
    return hashed.hexdigest()


def read_file(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file, in its memory on the CPU; writing to them does not change the file.

    Raises :class:`TruncatedArtifactError`.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LONGEST_HEADER):
                raise TruncatedArtifactError(
                    f"{path}: expected a .safetensors file, got one that is cut off"
                )
            header = json.loads(file.read(length))
    except OSError as e:
        raise _unreadable(path, e) from None
    except ValueError as e:
        raise TruncatedArtifactError(
            f"{path}: expected a .safetensors header, got an error: {e}"
        ) from None
    if not isinstance(header, dict):
        raise TruncatedArtifactError(f"{path}: expected a .safetensors header, got something else")
    entries = {k: v for k, v in cast("dict[str, Any]", header).items() if k != "__metadata__"}
    import torch

    storage: Any = torch.UntypedStorage.from_file(str(path), False, size)
    return {
        name: _tensor(path, name, entry, storage, 8 + length) for name, entry in entries.items()
    }


def _tensor(path: Path, name: str, entry: Any, storage: Any, base: int) -> torch.Tensor:
    import torch

    kinds = {kind: known for known, kind in _NAMES.items()}
    try:
        kind = kinds[entry["dtype"]]
        shape = tuple(map(int, entry["shape"]))
        start, end = map(int, entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as e:
        raise TruncatedArtifactError(
            f"{path}: {name}: expected a type, a shape and offsets, got an error: {e}"
        ) from None
    width = ELEMENT_BYTES[kind]
    wanted = prod(shape) * width
    room = storage.nbytes() - base
    if not 0 <= start <= end <= room or end - start != wanted or min(shape, default=0) < 0:
        raise TruncatedArtifactError(
            f"{path}: {name}: expected {wanted} bytes for {list(shape)} of {kind}, got bytes "
            f"{start} to {end} of {room}"
        )
    dtype = getattr(torch, TORCH_NAMES[kind])
    strides = torch.empty(shape, device="meta").stride()
    first = base + start
    if first % width:  # a file of others
        raw = torch.empty(0, dtype=torch.uint8).set_(storage, first, (wanted,), (1,))  # pyright: ignore
        return raw.clone().view(dtype).reshape(shape)
    return torch.empty(0, dtype=dtype).set_(storage, first // width, shape, strides)  # pyright: ignore
