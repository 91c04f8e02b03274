"""The program that a command works on: ``file.py:object``, ``file.mlir``, or the name of a built-in
workload.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mirage.cli.python_files import (
    BadProgramError,
    check_no_class,
    example_inputs_of,
    object_of,
    read_text,
    run_file,
)
from mirage.errors import MirageError, SourceLocation
from mirage.frontend.program import Parameter, Program
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.workloads.workload import Workload

Array = np.ndarray[Any, Any]

HELP = "file.py:object, file.mlir or the name of a workload"


@dataclass(frozen=True)
class LoadedProgram:
    """A program with everything that is needed to try it.

    ``inputs(seed)`` gives one float array for each input of the graph, weights included, with
    values that the element types can represent. ``module`` is the PyTorch callable, if there is
    one; it takes ``example_inputs``."""

    spec: str
    program: Program
    inputs: Callable[[int], tuple[Array, ...]]
    module: Callable[..., Any] | None = None
    example_inputs: tuple[Any, ...] | None = None
    workload: Workload | None = None
    named: bool = True
    """Whether it is known which inputs a caller passes and which the program holds."""
    given: tuple[Any, ...] = ()
    """The PyTorch callable and its example inputs as given in the file."""
    held: Mapping[int, str] = field(default_factory=dict[int, str])
    """The names of inputs that stand for tensors of a module, by number, if the program is IR."""

    @property
    def graph(self) -> KernelGraph:
        """The program as data."""
        return self.program.graph


def load_program(
    spec: str, *, allow_fallback: bool = False, files: dict[Path, ModuleType] | None = None
) -> LoadedProgram:
    """Return the program that ``spec`` names. With ``files``, a file that has already been run is
    not run again, so that two programs of one file hold the same tensors. Raises
    :class:`BadProgramError` and the errors of the front ends."""
    path, colon, name = spec.rpartition(":")
    if not colon or "." not in Path(path).name:
        path, name = spec, ""
    if path.endswith(".py"):
        return _from_python(spec, Path(path), name, allow_fallback, files)
    if path.endswith(".mlir"):
        return _from_mlir(spec, Path(path), name or None)
    if Path(spec).exists():
        raise BadProgramError(
            f"expected a .py or .mlir file or the name of a workload, got {spec!r}"
        )
    return _from_workload(spec)


def _from_workload(name: str) -> LoadedProgram:
    from mirage.workloads import get

    return of_workload(get(name))


def of_workload(workload: Workload) -> LoadedProgram:
    """Return a built-in program, or a program that was made in the same way."""
    return LoadedProgram(
        workload.name, workload.program(), workload.numpy_inputs, None, None, workload=workload
    )


def _from_mlir(spec: str, path: Path, name: str | None) -> LoadedProgram:
    from mirage.mlir_io import graph_from_text

    read = graph_from_text(read_text(path), name=name, where=str(path))
    graph = read.graph
    held = {i: note.parameter for i, note in read.notes.items() if note.parameter}
    return LoadedProgram(
        spec, Program(graph), lambda seed: random_inputs(graph, seed), held=held, named=bool(held)
    )


def random_inputs(graph: KernelGraph, seed: int) -> tuple[Array, ...]:
    """Return normally distributed values that the inputs' element types can represent."""
    rng = np.random.default_rng(seed)
    return tuple(_random(v, rng) for v in graph.inputs)


_ROWS = 4
"""The bound of drawn integers: any table that they index has this many rows."""


def _random(value: Value, rng: np.random.Generator) -> Array:
    if value.dtype.is_integer:
        high = 2 if value.dtype is DType.I1 else _ROWS
        return rng.integers(0, high, value.shape).astype(_carrier(value.dtype))
    numbers = rng.standard_normal(value.shape, dtype=np.float32)
    return value.dtype.round(numbers).astype(_carrier(value.dtype))


def _carrier(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.float64 if dtype is DType.F64 or dtype.is_integer else np.float32)


def _from_python(
    spec: str, path: Path, name: str, allow_fallback: bool, files: dict[Path, ModuleType] | None
) -> LoadedProgram:
    known = {} if files is None else files
    where = path.resolve()
    file = known[where] = known.get(where) or run_file(path)
    item = object_of(file, path, name)
    from mirage.frontend.kernel_graph import GraphBuilder

    if isinstance(item, GraphBuilder):
        program = item.program()
        return LoadedProgram(spec, program, lambda seed: random_inputs(program.graph, seed))
    if isinstance(item, Program):
        return LoadedProgram(spec, item, lambda seed: random_inputs(item.graph, seed))
    program = None if callable(item) else getattr(item, "program", None)
    if isinstance(program, Program):  # imported there, with its weights
        return LoadedProgram(spec, program, lambda seed: _with_weights(program, seed))
    return _from_torch(spec, path, file, item, allow_fallback)


def _from_torch(
    spec: str, path: Path, file: ModuleType, item: Any, allow_fallback: bool
) -> LoadedProgram:
    check_no_class(item, path)
    if not callable(item):
        raise BadProgramError(
            f"{path}: expected a torch.nn.Module, a function or a mirage graph, got "
            f"{type(item).__name__}"
        )
    example = example_inputs_of(file, item)
    from mirage.frontend.torch_import import from_torch, given_arguments
    from mirage.frontend.torch_import.capture.given_arguments import ByPosition, are_names

    if are_names(item, example):
        example = (example,)
    if not isinstance(example, tuple | list):
        raise BadProgramError(
            f"{path}: expected a tuple `example_inputs` of tensors beside the program, a "
            "dictionary by the names of its parameters, or a dictionary of such ones by the "
            f"programs' names, got {type(example).__name__}"
        )
    name = re.sub(r"\W|^(?=\d)", "_", path.stem)
    try:
        imported = from_torch(item, *example, allow_fallback=allow_fallback, name=name)
        positional, named = given_arguments(item, example, {})
    except MirageError as error:
        error.locate(SourceLocation(str(path), 0))
        raise
    program = imported.program
    called = ByPosition(item, len(positional), list(named)) if named else item
    inputs = (*positional, *named.values())

    def sample(seed: int) -> tuple[Array, ...]:
        parameters = {p.index: p for p in program.parameters}
        call = iter(random_inputs(program.graph, seed) if seed else ())
        examples = iter(inputs)
        values: list[Array] = []
        for i, v in enumerate(program.graph.inputs):
            fresh = next(call) if seed else None
            if i in parameters:
                values.append(_array(_data(parameters[i]), v.dtype))
            elif fresh is not None:
                values.append(fresh)
                next(examples, None)
            else:
                values.append(_array(next(examples), v.dtype))
        return tuple(values)

    return LoadedProgram(spec, program, sample, called, inputs, given=(item, *example))


def _with_weights(program: Program, seed: int) -> tuple[Array, ...]:
    """Return random values for the inputs that a caller passes, and the actual weights."""
    values = list(random_inputs(program.graph, seed))
    for p in program.parameters:
        values[p.index] = _array(_data(p), program.graph.inputs[p.index].dtype)
    return tuple(values)


def default_target(spec: str, graph: KernelGraph) -> Path:
    """Return the folder of a program's artifact: it is named after the object, if the object is
    named."""
    file, colon, name = spec.rpartition(":")
    named = name if colon and "." in Path(file).name else graph.name
    return Path(f"{re.sub(r'[^A-Za-z0-9_]', '_', named or 'program')}.mirage")


def _data(parameter: Parameter) -> Any:
    return parameter.data


def _array(tensor: Any, dtype: DType) -> Array:
    import torch

    wide = torch.float64 if dtype is DType.F64 or dtype.is_integer else torch.float32
    return tensor.detach().to(device="cpu", dtype=wide).numpy()
