"""The module that a command exports, and its call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirage.cli.python_files import (
    BadProgramError,
    check_no_class,
    example_inputs_of,
    object_of,
    run_file,
)
from mirage.cli.tensor_archives import dtype_name, read_tensors

HELP = "file.py:object, a torch.nn.Module, a function or an ExportedProgram"


@dataclass(frozen=True)
class LoadedModule:
    """A module with the arguments that it is captured with."""

    path: Path
    module: Any
    inputs: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])


def load_module(spec: str, inputs: Path | None = None) -> LoadedModule:
    """Return the module that ``spec`` names. Its arguments are the tensors of the file ``inputs``,
    by their names, or else its file's ``example_inputs``: a tuple, or a dictionary for named
    arguments. Raises :class:`BadProgramError` and
    :class:`~mirage.cli.tensor_archives.TensorFileError`.
    """
    place, colon, name = spec.rpartition(":")
    if not colon or "." not in Path(place).name:
        place, name = spec, ""
    path = Path(place)
    if path.suffix != ".py":
        raise BadProgramError(f"{spec}: expected {HELP}; `mirage optimize` takes other programs")
    file = run_file(path)
    item = object_of(file, path, name)
    check_no_class(item, path)
    import torch

    if isinstance(item, torch.export.ExportedProgram):
        return LoadedModule(path, item)
    if not callable(item):
        raise BadProgramError(
            f"{path}: expected a torch.nn.Module, a function or an ExportedProgram, got "
            f"{type(item).__name__}"
        )
    if inputs is not None:
        return LoadedModule(path, item, (), _from_file(inputs))
    example = example_inputs_of(file, item)
    if isinstance(example, dict) and all(isinstance(key, str) for key in example):
        return LoadedModule(path, item, (), example)
    if not isinstance(example, tuple | list):
        raise BadProgramError(
            f"{path}: expected `example_inputs` beside the module (a tuple, or a dictionary of "
            f"named arguments) or --inputs, got {type(example).__name__}"
        )
    return LoadedModule(path, item, tuple(example))


def _from_file(path: Path) -> dict[str, Any]:
    """Return the tensors of a file, as torch tensors."""
    import ml_dtypes
    import numpy as np
    import torch

    found: dict[str, Any] = {}
    for name, array in read_tensors(path).items():
        if array.dtype == ml_dtypes.bfloat16:
            wide = torch.from_numpy(array.astype(np.float32))
            found[name] = wide.to(torch.bfloat16)
            continue
        try:
            found[name] = torch.from_numpy(np.array(array))
        except TypeError:
            raise BadProgramError(
                f"{path}: {name}: expected a type that torch has, got {dtype_name(array.dtype)}"
            ) from None
    return found
