"""A whole model for a size that is known only at the call, as one artifact.

batch = torch.export.Dim("batch", min=1, max=256)
mirage.export(model, x, path="model.mirage", dynamic_shapes={"x": {0: batch}})

The model is captured for the largest size of each class and for one less. The dimensions of
arguments and results that differ in proportion are their rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.frontend.program import Program
from mirage.pipeline.commands.interface import interface_of, name_of
from mirage.pipeline.optimize import optimize_sizes
from mirage.pipeline.options import OptimizeOptions, OptionError
from mirage.pipeline.size_classes import OptimizedSizes
from mirage.pipeline.whole_model import (
    WEIGHTS,
    IncompleteModelError,
    Interface,
    Weights,
    sized_model_of,
)
from mirage.runtime.models.model_artifact import write_model
from mirage.runtime.models.model_manifest import Fixed, Given, Result
from mirage.runtime.models.model_sizes import ModelSize
from mirage.runtime.serialization.artifact import check_target


@dataclass(frozen=True)
class ExportedSizes:
    """The path that was written, and the optimized program in it."""

    path: Path
    optimized: OptimizedSizes
    stays: tuple[tuple[str, str], ...]
    """The ops that stay with PyTorch, each with the reason."""

    def __fspath__(self) -> str:
        return str(self.path)


def export_sizes(
    model: object,
    inputs: Sequence[object],
    named: Mapping[str, object],
    dynamic_shapes: object,
    path: str | os.PathLike[str],
    weights: Weights,
    options: OptimizeOptions,
) -> ExportedSizes:
    """Export like :func:`mirage.export` with ``dynamic_shapes``. Raises the errors of that and of
    :func:`~mirage.pipeline.optimize.optimize_sizes`."""
    from mirage.frontend.torch_import import dynamic_program, export_program, from_torch

    if weights not in WEIGHTS:
        raise OptionError(f"expected weights to be one of {', '.join(WEIGHTS)}, got {weights!r}")
    check_target(path)
    interfaces: dict[int, Interface] = {}
    stays: tuple[Any, ...] = ()
    name, keys = name_of(model), list(named)

    def at(values: Sequence[object], size: int) -> Program:
        nonlocal stays
        count = len(inputs)
        exported = export_program(model, values[:count], dict(zip(keys, values[count:])))
        imported = from_torch(
            exported, allow_fallback=True, allow_updates=True, one_of_sizes=True, name=name
        )
        program, interfaces[size] = interface_of(exported, imported, model)
        stays = imported.stays
        return program

    sizes = dynamic_program(model, inputs, dynamic_shapes, at, named=named)
    optimized = optimize_sizes(sizes, options)
    stated = optimized.classes[-1].at_most
    arguments, results = _with_rows(interfaces[stated], interfaces[stated - 1], stated)
    size = ModelSize(sizes.name, sizes.at_least, sizes.at_most, stated, arguments, results, ())
    notes = {"stays": [{"op": s.op, "reason": s.reason} for s in stays], "prediction": {}}
    artifact = sized_model_of(optimized.classes, interfaces[stated], weights, notes, size)
    return ExportedSizes(
        write_model(artifact, path), optimized, tuple((s.op, s.reason) for s in stays)
    )


def _with_rows(
    first: Interface, second: Interface, most: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the arguments and results that have rows, by comparing the size
    ``most`` with one less. Raises :class:`IncompleteModelError` if they differ in another way."""
    if (first.structure, first.result_structure) != (second.structure, second.result_structure):
        raise IncompleteModelError("expected results that are nested alike at all sizes")
    arguments: list[int] = []
    for i, (a, b) in enumerate(zip(first.arguments, second.arguments, strict=True)):
        if isinstance(a, Given) and isinstance(b, Given) and a != b:
            _check_rows(f"argument {a.spec.name}", a.spec, b.spec, most)
            arguments.append(i)
    results: list[int] = []
    for i, (a, b) in enumerate(zip(first.results, second.results, strict=True)):
        if isinstance(a, Fixed) or isinstance(b, Fixed):
            if a != b:
                raise IncompleteModelError(f"result {i} depends on the size; return tensors only")
        elif a.shape != b.shape:
            _check_rows(f"result {i}", a, b, most)
            results.append(i)
        elif _lies(a) != _lies(b):
            raise IncompleteModelError(f"result {i} lies elsewhere in memory at other sizes")
    return tuple(arguments), tuple(results)


def _check_rows(what: str, a: Any, b: Any, most: int) -> None:
    each = a.shape[0] - b.shape[0]
    fine = a.shape[1:] == b.shape[1:] and a.shape[0] == each * most
    fine = fine and a.strides == b.strides and a.dtype == b.dtype
    if isinstance(a, Result):
        fine = fine and (a.offset, a.memory, a.group) == (b.offset, b.memory, b.group)
        fine = fine and (a.memory is not None or a.bytes * (most - 1) == b.bytes * most)
    if not fine:
        raise IncompleteModelError(
            f"{what}: expected its outermost dimension alone to be in proportion to the size, got "
            f"shape {list(a.shape)} at {most} and {list(b.shape)} at {most - 1}; return it "
            "transposed, or export the model for one size"
        )


def _lies(x: Result) -> object:
    where = (x.strides, x.dtype, x.offset, x.memory, x.group)
    return (*where, x.bytes) if x.memory is None else where
