"""The inputs that a user passes to ``mirage run``: by name, with the right shapes and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mirage.cli.tensor_archives import NOT_IN_NPZ, TensorFileError, dtype_name

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Wanted:
    """An expected input: its name (a weight also has its parameter's name) and type. ``own`` is the
    program's own tensor for it."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    own: Array | None = None


def given_inputs(
    path: Path, tensors: Mapping[str, Array], wanted: Sequence[Wanted]
) -> tuple[Array, ...]:
    """Return the inputs among the tensors of a file, in order, as arrays that NumPy can compute
    with. Inputs that the program holds itself may be missing. Raises :class:`TensorFileError`."""
    found = [_found(path, w, tensors) for w in wanted]
    known = {name for w in wanted for name in w.names}
    unknown = [name for name in tensors if name not in known]
    missing = [w.names[0] for w, x in zip(wanted, found, strict=True) if x is None]
    if unknown or missing:
        have = f"there is no {', '.join(missing)}" if missing else "got every one"
        more = f" and no input is called {', '.join(unknown)}" if unknown else ""
        inputs = ", ".join(f"{w.names[0]} {w.dtype}{list(w.shape)}" for w in wanted)
        raise TensorFileError(f"{path}: expected tensors for the inputs {inputs}, but {have}{more}")
    return tuple(x for x in found if x is not None)


def _found(path: Path, wanted: Wanted, tensors: Mapping[str, Array]) -> Array | None:
    names = [name for name in wanted.names if name in tensors]
    if not names:
        return wanted.own
    if len(names) > 1:
        raise TensorFileError(f"{path}: expected one of {' and '.join(names)}, which are one input")
    tensor, name = tensors[names[0]], names[0]
    got = dtype_name(tensor.dtype)
    if tensor.shape != wanted.shape or got != wanted.dtype:
        hint = ""
        if wanted.dtype in NOT_IN_NPZ and path.suffix == ".npz":
            hint = f" (.npz has no {wanted.dtype}: use a .safetensors file)"
        raise TensorFileError(
            f"{path}: {name}: expected {wanted.dtype}{list(wanted.shape)}, got "
            f"{got}{list(tensor.shape)}{hint}"
        )
    return tensor.astype(np.float32) if got in ("f16", *NOT_IN_NPZ) else tensor
