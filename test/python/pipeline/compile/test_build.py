"""Compilation of parts: the code of a part contains no names, so equal parts share it."""

from __future__ import annotations

from dataclasses import replace

from mirage.frontend.program import Parameter, Program
from mirage.pipeline.compile.build import Builder, _named
from mirage.semantics.builder import Builder as Ops
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from small_artifacts.small_artifact import small_artifact

F32 = TensorType((4, 8), DType.F32)


def layer(number: int) -> tuple[Builder, KernelGraph]:
    x, w = Value(F32, f"x{number}"), Value(F32, f"layer_{number}_weight")
    b = Ops()
    y = b.binary(BinaryFn.MUL, x, w)
    graph = KernelGraph(f"net_{number}", (x, w), tuple(b.ops), (y,))
    program = Program(graph, parameters=(Parameter(1, f"layers.{number}.weight", None),))
    return Builder(program, "sm_90a"), graph


def test_equal_parts_are_written_alike() -> None:
    texts = [builder._written(part, False) for builder, part in map(layer, (1, 2))]
    assert texts[0] == texts[1]
    text, names = texts[0]
    assert "layer_1" not in text
    assert "net" not in text
    assert names.inputs == ("x0", "x1")
    assert not names.parameters


def test_a_program_that_is_one_part_keeps_its_names() -> None:
    builder, part = layer(1)
    text, names = builder._written(part, True)
    assert "@net_1" in text
    assert names.inputs == ("x1", "layer_1_weight")
    assert names.parameters == {1: "layers.1.weight"}


def test_manifests_have_the_programs_names() -> None:
    builder, part = layer(3)
    manifest = small_artifact().manifest
    (x,) = manifest.inputs
    given = replace(manifest, inputs=(x, x))
    found = _named(given, builder._names(part))
    assert [(s.name, s.parameter) for s in found.inputs] == [
        ("x3", None), ("layer_3_weight", "layers.3.weight"),
    ]  # fmt: skip
    assert found.outputs[0].name == "y0"
    assert found.kernels == manifest.kernels
