"""Runnable objects: an artifact, or a program that is optimized first."""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mirage.cli.artifacts import chip_of
from mirage.cli.given_inputs import Wanted
from mirage.cli.output import Output
from mirage.cli.programs import LoadedProgram, load_program

if TYPE_CHECKING:
    from mirage.pipeline.result import Optimized
    from mirage.runtime.serialization.artifact import Artifact


@dataclass(frozen=True)
class Runnable:
    """Something that can be run: an artifact, or an optimized program that may be more than one."""

    name: str
    inputs: tuple[Wanted, ...]
    outputs: tuple[Result, ...]
    artifact: Artifact | None = None
    optimized: Optimized | None = None


@dataclass(frozen=True)
class Result:
    """A result of a runnable object."""

    name: str
    shape: tuple[int, ...]
    dtype: str


def _of_artifact(artifact: Artifact) -> Runnable:
    m = artifact.manifest
    inputs = tuple(
        Wanted(tuple(dict.fromkeys((t.name, t.parameter or t.name))), t.shape, t.dtype)
        for t in m.inputs
    )
    outputs = tuple(Result(t.name, t.shape, t.dtype) for t in m.outputs)
    return Runnable(m.name, inputs, outputs, artifact)


def _of_optimized(o: Optimized) -> Runnable:
    """Return the artifact if the program is one; otherwise the program, with its weights as
    ordinary inputs."""
    from mirage.pipeline.options import NothingFoundError
    from mirage.pipeline.result import Optimized

    with suppress(NothingFoundError):
        return _of_artifact(o.artifact)
    program = replace(o.program, parameters=())
    optimized = Optimized(program, o.options, o.graph, o.steps, o.mlir, o.report, o.finalists)
    graph = program.graph
    names = {p.index: p.name for p in o.program.parameters}
    inputs = tuple(
        Wanted(
            tuple(dict.fromkeys((v.name or f"x{i}", names.get(i, v.name or f"x{i}")))),
            v.shape,
            v.dtype.value,
        )
        for i, v in enumerate(graph.inputs)
    )
    outputs = tuple(
        Result(v.name or f"y{i}", v.shape, v.dtype.value) for i, v in enumerate(graph.outputs)
    )
    return Runnable(graph.name, inputs, outputs, None, optimized)


def runnable(options: argparse.Namespace, output: Output) -> tuple[Runnable, LoadedProgram | None]:
    """Return the object to run, and the program that it should compute, if known."""
    from mirage.runtime.serialization.artifact import read_artifact

    compares = None if options.program is None else load_program(options.program)
    if is_artifact(options.artifact):
        return _of_artifact(read_artifact(options.artifact)), compares
    from mirage.pipeline.optimize import compile_graph, optimize
    from mirage.pipeline.options import OptimizeOptions
    from mirage.semantics.ugraph import Structure

    loaded = load_program(options.artifact)
    settings = OptimizeOptions(
        chip=chip_of(options), watch=lambda text: output.say(text, style="dim")
    )
    written = all(isinstance(op, Structure) for op in loaded.graph.ops)
    optimized = (compile_graph if written else optimize)(loaded.program, settings)
    return _of_optimized(optimized), compares or loaded


def is_artifact(name: str) -> bool:
    """Return whether a path is a folder, or could only be one (even if it does not exist)."""
    path = Path(name)
    is_file = ".py" in path.name or ".mlir" in path.name
    return path.is_dir() or path.suffix == ".mirage" or (len(path.parts) > 1 and not is_file)
