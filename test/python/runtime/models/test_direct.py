"""Models that consist of one part are called without their plan, with the same results, errors and
sizes; others use the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from mirage.runtime.dispatch.plan import Call, Launch, Plan
from mirage.runtime.errors import ArgumentCountError, ArgumentShapeError, ArgumentSizeError
from mirage.runtime.launching.executable import Executable
from mirage.runtime.models.direct import Direct
from mirage.runtime.models.model import Model, SizedModel, direct_call
from mirage.runtime.models.model_artifact import ModelArtifact
from mirage.runtime.models.model_manifest import (
    Fixed,
    Given,
    Held,
    ModelManifest,
    PartFolder,
    Result,
)
from mirage.runtime.models.model_sizes import ModelProgram, ModelSize, class_at
from mirage.runtime.models.structure import Structure
from mirage.runtime.serialization.manifest import TensorSpec
from small_artifacts.host_driver import Driver, addresses, on_host
from small_artifacts.sized_artifact import sized_artifact
from small_artifacts.small_artifact import small_artifact

LEAF = Structure()
PLAN = Plan(1, (Launch(0, (0,), (1,)),), (1,))


def manifest(x: TensorSpec, y: TensorSpec, result: Structure = LEAF, **other: Any) -> ModelManifest:
    """y of x, by one part."""
    args = Structure("tuple", (Structure("tuple", (LEAF,)), Structure("dict")))
    whole = ModelManifest(
        name="twice", compiler="mirage 0", torch="2", chip="sm_80", structure=args,
        arguments=(Given(x),), state=(), parts=(PartFolder("p", ""),), files={}, plan=PLAN,
        results=(Result(y.shape, y.strides, y.dtype, 0, y.bytes, None, 0),),
        result_structure=result,
    )  # fmt: skip
    return replace(whole, **other)


def small(**other: Any) -> tuple[ModelArtifact, Executable, Driver]:
    part = small_artifact()
    driver = Driver(part.manifest)
    m = part.manifest
    whole = ModelArtifact(manifest(m.inputs[0], m.outputs[0], **other), {"p": part})
    return whole, on_host(Executable(part), driver, 4096), driver


def call_of(**other: Any) -> Direct | None:
    whole, part, _ = small(**other)
    model = Model(whole, device="cpu")
    return direct_call(whole, {"p": part}, model._held)


@pytest.mark.parametrize(
    ("result", "kind"),
    [(LEAF, torch.Tensor), (Structure("tuple", (LEAF,)), tuple), (Structure("list", (LEAF,)), list),
     (Structure("dict", (LEAF,), ("y",)), dict)],
)  # fmt: skip
def test_results_are_nested_as_the_model_nests_them(result: Structure, kind: type) -> None:
    call = call_of(result=result)
    assert call is not None
    found = call((torch.zeros(8, 8),), {})
    assert type(found) is kind


def test_named_arguments_and_state() -> None:
    whole, _, _ = small()
    m = whole.manifest
    part = replace(whole.parts["p"].manifest, inputs=whole.parts["p"].manifest.inputs * 3)
    artifact = replace(whole.parts["p"], manifest=part)
    spec = m.inputs[0]
    args = Structure("tuple", (Structure("tuple", (LEAF,)), Structure("dict", (LEAF,), ("z",))))
    m = replace(
        m, structure=args, arguments=(Given(spec), Given(replace(spec, name="z"))),
        state=(Held(replace(spec, name="w"), "w", None, 2.0),),
        plan=Plan(3, (Launch(0, (1, 2, 0), (3,)),), (3,)),
    )  # fmt: skip
    whole = ModelArtifact(m, {"p": artifact})
    driver = Driver(part)
    model = Model(whole, device="cpu")
    call = direct_call(whole, {"p": on_host(Executable(artifact), driver, 0)}, model._held)
    assert call is not None
    x, z = torch.zeros(8, 8), torch.zeros(8, 8)
    assert call((x,), {"z": z}) is not None
    assert addresses(driver.launches[0][4])[0] == z.data_ptr()  # input 0 of the part
    for args_, named in (((x,), {}), ((x,), {"y": z}), ((x, z), {}), ((), {"z": z, "x": x})):
        assert call(args_, named) is None


def changed(**other: Any) -> Any:
    return lambda m: replace(m, **other)


@pytest.mark.parametrize(
    "change",
    [
        changed(plan=Plan(1, (Call("aten.neg.default", (0,), (1,)),), (1,))),
        changed(plan=Plan(1, (*PLAN.steps, Call("aten.neg.default", (1,), (2,))), (2,))),
        changed(plan=Plan(1, (Launch(0, (0,), (1,), (0,)),), (1,))),
        changed(plan=replace(PLAN, updates=(0,))),
        changed(plan=replace(PLAN, outputs=(0,))),
        lambda m: replace(m, results=(replace(m.results[0], memory=0),)),
        lambda m: replace(m, results=(replace(m.results[0], strides=(1, 8)),)),
        lambda m: replace(m, results=(replace(m.results[0], offset=4),)),
        lambda m: replace(m, results=(replace(m.results[0], dtype="i32"),)),
        lambda m: replace(m, results=m.results * 2, plan=replace(PLAN, outputs=(1, 1))),
        lambda m: replace(m, results=(*m.results, Fixed(None))),
        lambda m: replace(m, arguments=(*m.arguments, Fixed(3))),
        lambda m: replace(m, arguments=(Given(replace(m.inputs[0], strides=(1, 8))),)),
        lambda m: replace(m, arguments=m.arguments * 2),
    ],
)
def test_what_is_more_than_a_part_has_no_direct_call(change: Any) -> None:
    whole, part, _ = small()
    other = replace(whole, manifest=change(whole.manifest))
    held = Model(whole, device="cpu")._held
    assert direct_call(whole, {"p": part}, held) is not None
    assert direct_call(other, {"p": part}, held) is None


def sized() -> tuple[SizedModel, list[Driver]]:
    """For sizes from 2 to 13, in classes up to 4 and up to 16."""
    parts = {f"p{n}": sized_artifact(n) for n in (4, 16)}
    m = parts["p16"].manifest
    size = ModelSize(
        "rows", 2, 13, 16, (0,), (0,), (ModelProgram(4, (PartFolder("p4", ""),), PLAN),)
    )
    whole = manifest(m.inputs[0], m.outputs[0], parts=(PartFolder("p16", ""),), size=size)
    artifact = ModelArtifact(whole, parts)
    model = SizedModel(artifact, device="cpu")
    drivers = [Driver(part.manifest) for part in parts.values()]
    code = {
        folder: on_host(Executable(part), driver, 4096)
        for (folder, part), driver in zip(parts.items(), drivers, strict=True)
    }
    model._direct = [direct_call(class_at(artifact, n), code, model.held) for n in range(2)]
    assert None not in model._direct
    return model, drivers


def test_sizes_of_a_model() -> None:
    model, drivers = sized()
    for size in (2, 4, 5, 13, 3, 2):
        x = torch.zeros(2 * size, 4)
        y = model(x)
        assert y.shape == (size, 8)
        driver = drivers[size > 4]
        assert addresses(driver.launches[-1][4])[-1] == size
    assert [len(d.launches) for d in drivers] == [8, 4]
    assert not model._known  # nothing is stated for a size


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((torch.zeros(28, 4),), ArgumentSizeError, "from 2 to 13, .* got 14"),
        ((torch.zeros(2, 4),), ArgumentSizeError, "got 1; export it for more"),
        ((torch.zeros(7, 4),), ArgumentShapeError, r"of shape \(2 \* n, 4\), got \(7, 4\)"),
        ((torch.zeros(6, 5),), ArgumentShapeError, r"expected shape \(6, 4\)"),
        ((3,), ArgumentShapeError, "got int"),
        ((), ArgumentCountError, "expected 1 positional arguments"),
        ((torch.zeros(6, 4), 1), ArgumentCountError, "got 2"),
    ],
)
def test_errors_are_those_of_the_plan(args: Any, error: type[Exception], message: str) -> None:
    model, drivers = sized()
    with pytest.raises(error, match=message):
        model(*args)
    assert not any(d.launches for d in drivers)
