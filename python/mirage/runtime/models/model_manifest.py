"""The manifest of a whole model: its parts and calls of PyTorch in order, the tensors that they
use, and the arguments and results of a caller.

Like the manifest of a single part (:mod:`mirage.runtime.serialization.manifest`) it is plain data,
and read strictly (:mod:`mirage.runtime.models.model_reader`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mirage.runtime.dispatch.plan import (
    Argument,
    Device,
    ElementType,
    Launch,
    Plain,
    Plan,
    Rows,
    Step,
    Tensors,
)
from mirage.runtime.models.model_sizes import ModelSize
from mirage.runtime.models.structure import Structure
from mirage.runtime.serialization.json_reader import Json
from mirage.runtime.serialization.manifest import IndexBound, TensorSpec

FORMAT = "mirage-model"
VERSION = 3
"""The format version. It increases whenever the meaning of a manifest changes; a runtime reads one
version."""


@dataclass(frozen=True)
class Fixed:
    """An argument or a result that is not a tensor."""

    value: Plain


@dataclass(frozen=True)
class Given:
    """A tensor that the caller passes; ``spec`` is its specification."""

    spec: TensorSpec


@dataclass(frozen=True)
class Held:
    """A tensor of the model's state. If ``fill`` is a number, all of its elements equal it;
    otherwise it is ``key`` in a ``file`` of the folder or, without a file, ``key`` in the given
    state dict."""

    spec: TensorSpec
    key: str
    file: str | None = None
    fill: int | float | None = None


@dataclass(frozen=True)
class Result:
    """A tensor that the caller receives. Its strides are in elements, and its offset counts from
    the start of its memory. That is the tensor ``memory`` (an argument or state) or, if that is
    None, memory of ``bytes`` that results of the same ``group`` share."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset: int
    bytes: int
    memory: int | None
    group: int


@dataclass(frozen=True)
class PartFolder:
    """An artifact inside of the model's folder: its folder, and the hash of its manifest."""

    folder: str
    sha256: str


@dataclass(frozen=True)
class ModelManifest:
    """The contents of a model's ``manifest.json``.

    Tensors are numbered as in ``plan``: first the arguments that are tensors, then the state. The
    first outputs of the plan are the new values of the tensors in ``plan.updates``; the other
    outputs are, in order, the results that have no ``memory``.
    """

    name: str
    compiler: str
    torch: str
    chip: str
    structure: Structure
    arguments: tuple[Given | Fixed, ...]
    state: tuple[Held, ...]
    parts: tuple[PartFolder, ...]
    """The parts, by the numbers that launches use; equal ones share a folder."""
    files: Mapping[str, str]
    """The hashes of the files of tensors."""
    plan: Plan
    results: tuple[Result | Fixed, ...]
    result_structure: Structure
    notes: Json = field(default_factory=dict[str, Any])
    parameters: tuple[str, ...] = ()
    """The names of the parameters that can be passed by position or by name, in order; empty for
    those that have no name. Arguments can be passed either way, however the model was exported."""
    bounds: tuple[IndexBound, ...] = ()
    """Bounds of indices that callers can ask for, besides those of the parts."""
    size: ModelSize | None = None
    """The size, if it is known only at the call; the rest of the manifest is stated for the largest
    size."""

    @property
    def every_part(self) -> tuple[PartFolder, ...]:
        """All parts, including those for smaller sizes."""
        smaller = () if self.size is None else self.size.smaller
        return (*(p for program in smaller for p in program.parts), *self.parts)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that the caller passes."""
        return tuple(a.spec for a in self.arguments if isinstance(a, Given))

    @property
    def memories(self) -> tuple[TensorSpec, ...]:
        """The tensors that the plan starts with."""
        return (*self.inputs, *(s.spec for s in self.state))

    def to_json(self) -> Json:
        """Return the manifest as JSON data; :mod:`mirage.runtime.models.model_reader` reads it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "compiler": self.compiler,
            "torch": self.torch,
            "chip": self.chip,
            "structure": self.structure.to_json(),
            "parameters": list(self.parameters),
            "arguments": [
                {"tensor": vars(a.spec)} if isinstance(a, Given) else _fixed(a)
                for a in self.arguments
            ],
            "state": [
                {"tensor": vars(s.spec), "key": s.key, "file": s.file, "fill": _plain(s.fill)}
                for s in self.state
            ],
            "parts": [vars(p) for p in self.parts],
            "files": dict(self.files),
            "steps": [_step_json(step) for step in self.plan.steps],
            "outputs": list(self.plan.outputs),
            "updates": list(self.plan.updates),
            "results": [
                {"tensor": vars(r)} if isinstance(r, Result) else _fixed(r) for r in self.results
            ],
            "result_structure": self.result_structure.to_json(),
            "notes": dict(self.notes),
            **({"bounds": [b.to_json() for b in self.bounds]} if self.bounds else {}),
            "size": None if self.size is None else _size_json(self.size),
        }


def _size_json(size: ModelSize) -> Json:
    programs = [
        {
            "at_most": p.at_most,
            "parts": [vars(part) for part in p.parts],
            "steps": [_step_json(step) for step in p.plan.steps],
            "outputs": list(p.plan.outputs),
        }
        for p in size.smaller
    ]
    return {**vars(size), "smaller": programs}


def _fixed(value: Fixed) -> Json:
    return {"fixed": _plain(value.value)}


def _plain(value: object) -> object:
    """Return plain data in which numbers that JSON lacks are objects."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, Rows):
        return {"rows": value.each}
    return (
        list(map(_plain, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else value
    )


def _step_json(step: Step) -> Json:
    places: Json = {"operands": list(step.operands), "results": list(step.results)}
    if isinstance(step, Launch):
        return {"part": step.part, **places, "updates": list(step.updates)}
    arguments = {name: _argument_json(value) for name, value in step.arguments}
    seen: Json = {"seen_as": list(step.seen_as)} if step.seen_as else {}
    return {"call": step.op, **places, "arguments": arguments, "in_place": step.in_place, **seen}


def _argument_json(value: Argument) -> object:
    if isinstance(value, Tensors):
        return {"tensors": list(value.there)}
    if isinstance(value, ElementType):
        return {"dtype": value.name}
    return {"device": "of the model"} if isinstance(value, Device) else _plain(value)
