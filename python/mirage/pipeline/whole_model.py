"""An optimized program as a whole model: its parts, the calls between them, and what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from mirage.errors import MirageError
from mirage.pipeline.call import NotCompiledError
from mirage.pipeline.make_plan import plan_of
from mirage.runtime.dispatch.plan import Call, Device, ElementType, Plan, Rows, Tensors
from mirage.runtime.dispatch.torch_calls import overload_of
from mirage.runtime.models.model_artifact import ModelArtifact
from mirage.runtime.models.model_manifest import (
    Fixed,
    Given,
    Held,
    ModelManifest,
    PartFolder,
    Result,
)
from mirage.runtime.models.model_sizes import ModelProgram, ModelSize
from mirage.runtime.models.structure import Structure
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.manifest import TORCH_NAMES, IndexBound, TensorSpec
from mirage.semantics.indexing.strides import dense

if TYPE_CHECKING:
    import torch

    from mirage.frontend.program import Parameter
    from mirage.pipeline.result import Optimized
    from mirage.pipeline.size_classes import SizeClass

Weights = Literal["safetensors", "reference"]
WEIGHTS: tuple[Weights, ...] = ("safetensors", "reference")
"""How a model stores the tensors of its state dict: in a file next to it, or only by their names.
"""
WEIGHTS_FILE = "weights.safetensors"
CONSTANTS_FILE = "constants.safetensors"
NAMESPACES = ("aten", "prims")
"""The namespaces of ops that every torch has."""


class IncompleteModelError(MirageError):
    """A program does something that an artifact cannot express, so none is written."""


@dataclass(frozen=True)
class Interface:
    """How a program is called: its arguments, of which the tensors are the graph's first inputs,
    and its results. ``outputs`` are the outputs of the graph that stand for results without memory,
    ``others`` is state that only results read, ``saved`` are the names in the state dict, and
    ``parameters`` the names of positional arguments."""

    structure: Structure
    arguments: tuple[Given | Fixed, ...]
    results: tuple[Result | Fixed, ...]
    result_structure: Structure
    outputs: tuple[int, ...]
    others: tuple[Parameter, ...] = ()
    saved: frozenset[str] = frozenset()
    parameters: tuple[str, ...] = ()


def model_of(
    optimized: Optimized, interface: Interface, weights: Weights, notes: dict[str, Any]
) -> ModelArtifact:
    """Return the model. Raises :class:`IncompleteModelError` if it would lack something."""
    if not optimized.steps and optimized.graph.ops:
        raise NotCompiledError("expected a compiled program, got one optimized with compile=False")
    plan = plan_of(optimized.graph, optimized.steps, optimized.program.updates)
    artifacts = [s.compiled.artifact for s in optimized.steps if s.compiled is not None]
    return _assembled(optimized, [(plan, artifacts)], interface, weights, notes)


def sized_model_of(
    classes: Sequence[SizeClass],
    interface: Interface,
    weights: Weights,
    notes: dict[str, Any],
    size: ModelSize,
) -> ModelArtifact:
    """Assemble a model for sizes in classes. ``interface`` is the one at the largest size; ``size``
    states what has rows, and gets the programs of smaller classes."""
    programs = [(c.plan.plan, c.plan.artifacts) for c in classes]
    model = _assembled(classes[-1].optimized, programs, interface, weights, notes)
    m = model.manifest
    given = iter(m.parts)
    smaller: list[ModelProgram] = []
    for known, (plan, artifacts) in zip(classes, programs, strict=True):
        parts = tuple(next(given) for _ in artifacts)
        smaller.append(ModelProgram(known.at_most, parts, _with_interface(plan, interface)))
    last = smaller.pop()
    manifest = replace(
        m, plan=last.plan, parts=last.parts, size=replace(size, smaller=tuple(smaller))
    )
    return replace(model, manifest=manifest)


def _with_interface(plan: Plan, interface: Interface) -> Plan:
    """Return the plan that gives the results in the form that a caller gets. Raises
    :class:`IncompleteModelError`."""
    updated = plan.outputs[: len(plan.updates)]
    plan = replace(plan, outputs=(*updated, *(plan.outputs[i] for i in interface.outputs)))
    more = len(interface.others)
    plan = _with_more_inputs(plan, more) if more else plan
    check_calls(plan)
    return plan


def _assembled(
    optimized: Optimized,
    programs: Sequence[tuple[Plan, Sequence[Artifact]]],
    interface: Interface,
    weights: Weights,
    notes: dict[str, Any],
) -> ModelArtifact:
    """Return a model with the last plan, and the parts of all plans."""
    import torch

    import mirage

    if foreign := optimized.program.foreign:
        raise IncompleteModelError(
            f"the program takes, holds or returns tensors of {', '.join(foreign)}, which an "
            "artifact cannot describe; convert them around it"
        )
    plans = [_with_interface(plan, interface) for plan, _ in programs]
    folders, parts = _parts([a for _, artifacts in programs for a in artifacts])
    others = (*optimized.program.parameters, *interface.others)
    state, files = _state(others, interface.saved, weights)
    manifest = ModelManifest(
        name=optimized.graph.name or "model",
        compiler=f"mirage {mirage.__version__}",
        torch=str(torch.__version__),
        chip=parts[0].manifest.chip if parts else _chip(optimized),
        structure=interface.structure,
        parameters=interface.parameters,
        arguments=interface.arguments,
        state=state,
        parts=tuple(PartFolder(folder, "") for folder in folders),
        files=dict.fromkeys(files, ""),
        plan=plans[-1],
        results=interface.results,
        result_structure=interface.result_structure,
        notes=notes,
        bounds=tuple(IndexBound(**vars(limit)) for limit in optimized.program.limits),
    )
    named = dict(zip(folders, parts, strict=True))
    return ModelArtifact(manifest, named, files)


def _chip(optimized: Optimized) -> str:
    from mirage.cost.target import target_for

    return target_for(optimized.options.chip).chip


def _with_more_inputs(plan: Plan, more: int) -> Plan:
    """Return the plan with additional inputs, which it does not read, after its own."""

    def moved(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(n + more if n >= plan.inputs else n for n in numbers)

    steps = tuple(
        replace(s, operands=moved(s.operands), results=moved(s.results)) for s in plan.steps
    )
    return Plan(plan.inputs + more, steps, moved(plan.outputs), plan.updates)


def check_calls(plan: Plan) -> None:
    """Raise :class:`IncompleteModelError` if torch alone cannot make a call of the plan."""
    for step in plan.steps:
        if not isinstance(step, Call):
            continue
        if step.op.partition(".")[0] not in NAMESPACES:
            raise IncompleteModelError(
                f"the program calls {step.op}, which is not an op of PyTorch but of a package; an "
                "artifact runs with torch alone, so nothing is written"
            )
        overload_of(step.op)
        for name, value in step.arguments:
            if not _is_plain(value):
                raise IncompleteModelError(
                    f"argument {name!r} of {step.op} cannot be written to an artifact: "
                    f"{value!r:.80}"
                )


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, cast("tuple[object, ...]", value)))
    return value is None or isinstance(
        value, bool | int | float | str | Tensors | ElementType | Device | Rows
    )


def _parts(artifacts: Sequence[Artifact]) -> tuple[list[str], list[Artifact]]:
    """Return the folder of each part and its artifact; equal parts share both."""
    found: dict[str, tuple[str, Artifact]] = {}
    folders: list[str] = []
    same: list[Artifact] = []
    for artifact in artifacts:
        m = replace(artifact.manifest, name="", evidence={}, prediction={})
        nameless = [replace(t, name="", parameter=None) for t in m.inputs]
        m = replace(
            m,
            inputs=tuple(nameless),
            outputs=tuple(replace(t, name="", parameter=None) for t in m.outputs),
        )
        folder, first = found.setdefault(repr(m), (f"part{len(found)}", artifact))
        folders.append(folder)
        same.append(first)
    return folders, same


def _state(
    parameters: Sequence[Parameter], saved: frozenset[str], weights: Weights
) -> tuple[tuple[Held, ...], dict[str, dict[str, torch.Tensor]]]:
    """Return the state that the program holds, and the files that contain it."""
    held: list[Held] = []
    files: dict[str, dict[str, torch.Tensor]] = {}
    keys: dict[tuple[object, ...], str] = {}  # tensors that are several parameters
    for p in parameters:
        x: Any = p.data
        spec = _spec(p.name, x)
        if p.name in saved and weights == "reference":
            held.append(Held(spec, p.name))
            continue
        number = None if p.name in saved else uniform(x)
        if number is not None:
            held.append(Held(spec, p.name, None, number))
            continue
        file = WEIGHTS_FILE if p.name in saved else CONSTANTS_FILE
        place = (file, x.data_ptr(), x.dtype, tuple(x.shape), x.stride())
        key = keys.setdefault(place, p.name)
        files.setdefault(file, {})[key] = x
        held.append(Held(spec, key, file))
    return tuple(held), files


def _spec(name: str, x: Any) -> TensorSpec:
    import torch

    names = {getattr(torch, known): short for short, known in TORCH_NAMES.items()}
    if not isinstance(x, torch.Tensor) or x.is_meta:
        raise IncompleteModelError(
            f"{name}: expected a tensor with elements, got {type(x).__name__} without any; load "
            "the weights first"
        )
    dtype = names.get(x.dtype)
    if dtype is None:
        raise IncompleteModelError(f"{name}: tensors of {x.dtype} cannot be written to an artifact")
    repeated = any(n > 1 and not s for n, s in zip(x.shape, x.stride(), strict=True))
    strides = dense(x.shape) if repeated else x.stride()
    return TensorSpec(name, tuple(x.shape), strides, dtype, None)


def uniform(x: torch.Tensor) -> int | float | None:
    """Return the number that all elements of a tensor equal; None if they differ, or if there are
    none."""
    if not x.numel():
        return None
    first = x.reshape(-1)[0]
    if not bool((x == first).all()):
        return None
    number: Any = first.item()
    return int(number) if isinstance(number, bool) else number


def plain_interface(optimized: Optimized) -> Interface:
    """Return the interface of a program: tensors in the order of its inputs, a tuple of results."""
    program, graph = optimized.program, optimized.program.graph
    arguments: list[Given | Fixed] = []
    for i, v in enumerate(program.call_inputs):
        spec = TensorSpec(v.name or f"x{i}", v.shape, dense(v.shape), v.dtype.value)
        arguments.append(Given(spec))
    results: list[Result | Fixed] = []
    outputs: list[int] = []
    places = program.returned(range(len(graph.outputs)))[len(program.updates) :]
    fixed = [] if program.results is None else program.results[len(program.updates) :]
    for number, place in enumerate(places):
        if fixed and not isinstance(fixed[number], int):
            results.append(Fixed(place))
            continue
        type_ = graph.outputs[cast(int, place)].type
        spec = TensorSpec("", type_.shape, dense(type_.shape), type_.dtype.value)
        outputs.append(cast(int, place))
        results.append(Result(spec.shape, spec.strides, spec.dtype, 0, spec.bytes, None, number))
    leaf = Structure()
    positional = Structure("tuple", (leaf,) * len(arguments))
    return Interface(
        Structure("tuple", (positional, Structure("dict"))),
        tuple(arguments),
        tuple(results),
        Structure("tuple", (leaf,) * len(results)),
        tuple(outputs),
        (),
        frozenset(p.name for p in program.parameters if p.trained),
    )
