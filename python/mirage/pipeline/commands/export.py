"""A whole model as one artifact.

import mirage

mirage.export(model, ids, path="llama.mirage", cache_position=position)
model = mirage.runtime.load("llama.mirage")          # needs `mirage.runtime` and torch, no more

Either everything that the module does is in the artifact, or nothing is written: kernels, calls
that stay with PyTorch, the tensors that the module holds, those to which it writes, and the memory
layout of its results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.frontend.program import Program
from mirage.pipeline.commands.export_sizes import ExportedSizes, export_sizes
from mirage.pipeline.commands.interface import interface_of, name_of
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions, OptionError
from mirage.pipeline.result import Optimized
from mirage.pipeline.whole_model import WEIGHTS, Weights, model_of
from mirage.runtime.models.model_artifact import write_model
from mirage.runtime.serialization.artifact import check_target


@dataclass(frozen=True)
class Exported:
    """The path that was written, and the optimized program in it."""

    path: Path
    optimized: Optimized
    stays: tuple[tuple[str, str], ...]
    """The ops that stay with PyTorch, each with the reason."""

    def __fspath__(self) -> str:
        return str(self.path)


def export(
    model: object,
    *inputs: object,
    path: str | os.PathLike[str],
    weights: Weights = "safetensors",
    options: Mapping[str, object] | OptimizeOptions | None = None,
    dynamic_shapes: object = None,
    **named: object,
) -> Exported | ExportedSizes:
    """Optimize a module (or a function, or an ``ExportedProgram``) as it is called with ``inputs``
    and ``named`` arguments (or a dictionary by the names of its parameters), and write it to the
    folder ``path``, whole or not at all.

    ``weights`` says where the tensors of its state dict go: into a file next to the kernels, or
    nowhere ("reference"); then they are passed when the model is loaded. Other tensors that it
    holds are written in any case. ``options`` are those of :func:`mirage.optimize`.
    ``dynamic_shapes`` are those of ``torch.export``: with them the outermost dimension of some
    arguments is a size that is known only at the call
    (:mod:`mirage.pipeline.commands.export_sizes`).

    Raises the errors of the import, of :func:`mirage.optimize` and of writing, and
    :class:`~mirage.pipeline.whole_model.IncompleteModelError`.
    """
    from mirage.frontend.torch_import import given_arguments

    inputs, named = given_arguments(model, inputs, named)
    if dynamic_shapes is not None:
        return export_sizes(model, inputs, named, dynamic_shapes, path, weights, _options(options))
    return export_with(optimize, model, inputs, named, path, weights, _options(options))


def export_with(
    optimizer: Callable[[Program, OptimizeOptions], Optimized],
    model: object,
    inputs: Sequence[object],
    named: Mapping[str, object],
    path: str | os.PathLike[str],
    weights: Weights,
    options: OptimizeOptions,
) -> Exported:
    """Export like :func:`export`; ``optimizer`` finds the kernels."""
    from mirage.frontend.torch_import import export_program, from_torch

    if weights not in WEIGHTS:
        raise OptionError(f"expected weights to be one of {', '.join(WEIGHTS)}, got {weights!r}")
    check_target(path)
    exported = export_program(model, inputs, named)
    name = name_of(model)
    imported = from_torch(exported, allow_fallback=True, allow_updates=True, name=name)
    program, interface = interface_of(exported, imported, model)
    optimized = optimizer(program, options)
    stays = tuple((s.op, s.reason) for s in imported.stays)
    prediction = optimized.report.prediction
    notes = {
        "stays": [{"op": op, "reason": reason} for op, reason in stays],
        "prediction": {} if prediction is None else prediction.to_json(),
    }
    artifact = model_of(optimized, interface, weights, notes)
    return Exported(write_model(artifact, path), optimized, stays)


def _options(options: Mapping[str, object] | OptimizeOptions | None) -> OptimizeOptions:
    if isinstance(options, OptimizeOptions):
        return options
    return OptimizeOptions.of(**(options or {}))
