"""Reads the manifest of a whole model, strictly: what is unknown, missing or of another type raises
an error that names its place, and so does the number of something that does not exist.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from mirage.runtime.dispatch.carriers import CARRIERS
from mirage.runtime.dispatch.in_place_stores import is_store
from mirage.runtime.dispatch.plan import (
    Argument,
    Call,
    Device,
    ElementType,
    Launch,
    Plain,
    Plan,
    Rows,
    Step,
    Tensors,
)
from mirage.runtime.errors import UnreadableArtifactError
from mirage.runtime.models.model_manifest import (
    FORMAT,
    VERSION,
    Fixed,
    Given,
    Held,
    ModelManifest,
    PartFolder,
    Result,
)
from mirage.runtime.models.model_sizes import ModelProgram, ModelSize
from mirage.runtime.models.structure import structure_of
from mirage.runtime.serialization.json_reader import Json, Reader, opened
from mirage.runtime.serialization.manifest_reader import check_bounds, read_bound, read_tensor


def model_from_json(data: object, where: str) -> ModelManifest:
    """Return the manifest in ``data``, which comes from the file ``where``. Raises
    :class:`ArtifactVersionError` and :class:`UnreadableArtifactError`.
    """
    if not isinstance(data, dict) or cast(Json, data).get("format") != FORMAT:
        raise UnreadableArtifactError(
            f"{where}: expected a {FORMAT!r} manifest, got something else"
        )
    advice = "export the model again with this version, or load it with the version that wrote it"
    r = opened(data, where, VERSION, "model", advice)
    manifest = ModelManifest(
        name=r.text("name"),
        compiler=r.text("compiler"),
        torch=r.text("torch"),
        chip=r.text("chip"),
        structure=structure_of(r.part("structure")),
        parameters=r.texts("parameters") if "parameters" in r.data else (),
        arguments=tuple(map(_given, r.items("arguments"))),
        state=tuple(map(_held, r.items("state"))),
        parts=tuple(map(_part, r.items("parts"))),
        files=_files(r),
        plan=Plan(
            0,
            tuple(map(_step, r.items("steps"))),
            r.integers("outputs"),
            r.integers("updates"),
        ),
        results=tuple(map(_result, r.items("results"))),
        result_structure=structure_of(r.part("result_structure")),
        notes=r.mapping("notes"),
        bounds=tuple(map(read_bound, r.items("bounds"))) if "bounds" in r.data else (),
        size=_size(r),
    )
    r.finish()
    manifest = replace(manifest, plan=_completed(manifest.plan, manifest))
    _check(manifest, where)
    check_bounds(manifest.bounds, manifest.memories, where)
    if manifest.size is None:
        return manifest
    arguments = [a.spec.shape if isinstance(a, Given) else None for a in manifest.arguments]
    results = [r.shape if isinstance(r, Result) else None for r in manifest.results]
    manifest.size.check(arguments, results, where)
    smaller = tuple(replace(p, plan=_completed(p.plan, manifest)) for p in manifest.size.smaller)
    for program in smaller:
        _check(replace(manifest, plan=program.plan, parts=program.parts), where)
    return replace(manifest, size=replace(manifest.size, smaller=smaller))


def _completed(plan: Plan, m: ModelManifest) -> Plan:
    return Plan(len(m.memories), plan.steps, plan.outputs, m.plan.updates)


def _size(r: Reader) -> ModelSize | None:
    if r.data.get("size") is None:
        r.take("size", "an object or null")
        return None
    inner = r.part("size")
    programs: list[ModelProgram] = []
    for p in inner.items("smaller"):
        steps = tuple(map(_step, p.items("steps")))
        plan = Plan(0, steps, p.integers("outputs"))
        programs.append(
            ModelProgram(p.integer("at_most"), tuple(map(_part, p.items("parts"))), plan)
        )
        p.finish()
    size = ModelSize(
        inner.text("name"), inner.integer("at_least"), inner.integer("at_most"),
        inner.integer("stated"), inner.integers("arguments"), inner.integers("results"),
        tuple(programs),
    )  # fmt: skip
    inner.finish()
    return size


def _given(r: Reader) -> Given | Fixed:
    found = Given(read_tensor(r.part("tensor"))) if "tensor" in r.data else Fixed(_read_fixed(r))
    r.finish()
    return found


def _read_fixed(r: Reader) -> Plain:
    value = _read_plain(r.take("fixed", "a number, a string or null"))
    if isinstance(value, tuple | dict | Rows):
        raise r.error("fixed", "a number, a string or null", value)
    return cast(Plain, value)


def _read_plain(value: object) -> object:
    if isinstance(value, dict) and set(cast(Json, value)) == {"rows"}:
        each = cast(Json, value)["rows"]
        return Rows(each) if type(each) is int and each > 0 else cast(object, value)
    if isinstance(value, dict) and set(cast(Json, value)) == {"float"}:
        text = cast(Json, value)["float"]
        return float(text) if text in ("inf", "-inf", "nan") else cast(object, value)
    return tuple(map(_read_plain, cast(list[object], value))) if isinstance(value, list) else value


def _held(r: Reader) -> Held:
    spec, key = read_tensor(r.part("tensor")), r.text("key")
    file = r.optional_text("file")
    fill = _read_plain(r.take("fill", "a number or null"))
    if fill is not None and (isinstance(fill, bool) or not isinstance(fill, int | float)):
        raise r.error("fill", "a number or null", fill)
    held = Held(spec, key, None if file is None else r.file(file, "file"), fill)
    r.finish()
    return held


def _part(r: Reader) -> PartFolder:
    part = PartFolder(r.file(r.text("folder"), "folder"), r.text("sha256"))
    r.finish()
    return part


def _files(r: Reader) -> dict[str, str]:
    files = r.mapping("files")
    for name, value in files.items():
        r.file(name, "files")
        if not isinstance(value, str):
            raise r.error("files", "a hash for each file", value)
    return files


def _step(r: Reader) -> Step:
    operands, results = r.integers("operands"), r.integers("results")
    if "part" in r.data:
        updates = r.integers("updates")
        if len(updates) > len(results) or any(n >= len(operands) for n in updates):
            raise r.error("updates", "numbers of operands, each with a result", list(updates))
        step: Step = Launch(r.integer("part"), operands, results, updates)
    else:
        op, in_place = r.text("call"), r.truth("in_place")
        if op.count(".") < 1 or not all(word.isidentifier() for word in op.split(".")):
            raise r.error("call", "the name of an op of PyTorch", op)
        if in_place and (not is_store(op) or not operands or len(results) != 1):
            raise r.error("in_place", f"false, as {op} does not store into a tensor", True)
        arguments = r.mapping("arguments")
        found = tuple((name, _argument(r, name, value)) for name, value in arguments.items())
        seen = r.texts("seen_as") if "seen_as" in r.data else ()
        if seen and (len(seen) != len(operands) or not {"", *CARRIERS}.issuperset(seen)):
            expected = f"for each operand a type or nothing: one of {', '.join(CARRIERS)}"
            raise r.error("seen_as", expected, list(seen))
        step = Call(op, operands, results, found, in_place, seen)
    r.finish()
    return step


def _argument(r: Reader, name: str, value: object) -> Argument:
    value = _read_plain(value)
    if isinstance(value, dict):
        data = cast(Json, value)
        there = data.get("tensors")
        if set(data) == {"tensors"} and isinstance(there, list):
            return Tensors(tuple(map(bool, cast(list[object], there))))
        if set(data) == {"dtype"}:
            return ElementType(Reader(data, r.where, f"{r.path}.arguments.{name}").dtype("dtype"))
        if set(data) == {"device"}:
            return Device()
        raise r.error(f"arguments.{name}", "an argument of a call", data)
    return cast(Argument, value)


def _result(r: Reader) -> Result | Fixed:
    if "fixed" in r.data:
        found: Result | Fixed = Fixed(_read_fixed(r))
    else:
        inner = r.part("tensor")
        memory = None if inner.data.get("memory") is None else inner.integer("memory")
        inner.data.pop("memory", None)
        found = Result(
            inner.integers("shape"), inner.integers("strides"), inner.dtype("dtype"),
            inner.integer("offset"), inner.integer("bytes"), memory, inner.integer("group"),
        )  # fmt: skip
        if len(found.shape) != len(found.strides):
            raise inner.error("strides", f"{len(found.shape)} strides", list(found.strides))
        inner.finish()
    r.finish()
    return found


def _check(m: ModelManifest, where: str) -> None:
    """Check that everything that is named by a number exists and is defined before it is used."""

    def need(ok: bool, place: str, text: str) -> None:
        if not ok:
            raise UnreadableArtifactError(f"{where}: {place}: expected {text}")

    need(len(m.arguments) == m.structure.leaves, "arguments", f"{m.structure.leaves} of them")
    leaves = m.result_structure.leaves
    need(len(m.results) == leaves, "results", f"{leaves} of them")
    top = m.structure
    kinds = [child.kind for child in top.children]
    need(top.kind == "tuple" and kinds == ["tuple", "dict"], "structure", "a tuple and a dict")
    names = [name for name in m.parameters if name]
    need(len({*names}) == len(names), "parameters", "names that differ")
    known = set(range(m.plan.inputs))
    for i, step in enumerate(m.plan.steps):
        need(known.issuperset(step.operands), f"steps[{i}].operands", "tensors that are there")
        need(known.isdisjoint(step.results), f"steps[{i}].results", "new tensors")
        if isinstance(step, Launch):
            need(step.part < len(m.parts), f"steps[{i}].part", f"one of {len(m.parts)} parts")
        known.update(step.results)
    need(known.issuperset(m.plan.outputs), "outputs", "tensors that are there")
    computed = [r for r in m.results if isinstance(r, Result) and r.memory is None]
    count = len(m.plan.updates) + len(computed)
    need(len(m.plan.outputs) == count, "outputs", f"{count} of them")
    memories = [r.memory for r in m.results if isinstance(r, Result) and r.memory is not None]
    for place, numbers in (("updates", m.plan.updates), ("results", memories)):
        need(all(n < m.plan.inputs for n in numbers), place, f"one of {m.plan.inputs} tensors")
    for i, held in enumerate(m.state):
        need(held.file is None or held.file in m.files, f"state[{i}].file", "a file of the model")
