"""From IR in form binary to an artifact, and its PTX through the emulator."""

from __future__ import annotations

import numpy as np
import pytest
from mirage import ir
from mirage.compiler.collect import Names, collect
from mirage.compiler.errors import CompileError
from mirage.emulator.run_artifact import run_artifact

PTX = r"""
.version 8.0\0A.target sm_80\0A.address_size 64\0A
.visible .entry add_one(.param .u64 .ptr .global .align 16 a, .param .u64 b)\0A
.reqntid 32\0A
{ .reg .u64 %p<4>; .reg .u32 %i<2>; .reg .f32 %f<3>;\0A
  mov.u32 %i1, %tid.x;\0A mul.wide.u32 %p1, %i1, 4;\0A
  ld.param.u64 %p2, [a];\0A ld.param.u64 %p3, [b];\0A
  add.u64 %p2, %p2, %p1;\0A add.u64 %p3, %p3, %p1;\0A
  ld.global.f32 %f1, [%p2];\0A add.f32 %f2, %f1, 0f3F800000;\0A
  st.global.f32 [%p3], %f2;\0A ret;\0A }\0A
""".replace("\n", "")

BINARY = f"""
gpu.binary @kernels [#gpu.object<#nvvm.target<chip = "sm_80">, assembly = "{PTX}">]
"""


def graph(body: str, results: str = "tensor<32xf32>") -> str:
    return BINARY + f"kernel.graph @g(%x: tensor<4x8xf32>) -> {results} {{ {body} }}"


INVOKE = (
    "%{0} = kernel.invoke @kernels::@add_one(%{1}) grid [1, 1, 1] block [32, 1, 1] shared 0 "
    ": (tensor<{2}xf32>) -> tensor<{3}xf32>\n"
)


def chain(steps: int) -> str:
    body = INVOKE.format("t0", "x", "4x8", "32")
    for i in range(1, steps):
        body += INVOKE.format(f"t{i}", f"t{i - 1}", "32", "32")
    return body + f"kernel.return %t{steps - 1} : tensor<32xf32>"


def build(text: str, names: Names | None = None):
    with ir.Context():
        return collect(ir.Module.parse(text), "mirage test", "sm_80", names)


def test_chain_reuses_memory_and_runs() -> None:
    artifact = build(graph(chain(5)), Names(("tokens",), ("result",), {0: "layer.weight"}))
    manifest = artifact.manifest
    assert manifest.name == "g"
    assert manifest.ptx_version == "8.0"
    assert (manifest.inputs[0].name, manifest.inputs[0].parameter) == ("tokens", "layer.weight")
    assert manifest.inputs[0].strides == (8, 1)
    assert manifest.outputs[0].name == "result"
    assert [b.offset for b in manifest.workspace] == [0, 256, 0, 256]
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    result = run_artifact(artifact, [x])
    np.testing.assert_array_equal(result.outputs[0], np.arange(32) + 5)
    assert len(result.counters) == 5


def test_slices_are_addresses() -> None:
    """Rows 2 and 3 of a result are 16 elements in, the second of them 8 more."""
    body = (
        INVOKE.format("a", "x", "4x8", "4x8")
        + "%b = kernel.slice %a [2, 0] : (tensor<4x8xf32>) -> tensor<2x8xf32>\n"
        + "%c = kernel.slice %b [1, 0] : (tensor<2x8xf32>) -> tensor<1x8xf32>\n"
        + INVOKE.format("d", "c", "1x8", "32")
        + INVOKE.format("e", "a", "4x8", "32")
        + "kernel.return %d, %e : tensor<32xf32>, tensor<32xf32>"
    )
    manifest = build(graph(body, "(tensor<32xf32>, tensor<32xf32>)")).manifest
    places = [k.arguments[0] for k in manifest.kernels]
    assert [(p.kind, p.index, p.offset) for p in places] == [
        ("input", 0, 0),
        ("workspace", 0, 96),
        ("workspace", 0, 0),
    ]


def test_reshapes_share_memory() -> None:
    body = (
        INVOKE.format("a", "x", "4x8", "32")
        + "%b = kernel.reshape %a : (tensor<32xf32>) -> tensor<2x16xf32>\n"
        + INVOKE.format("c", "b", "2x16", "32")
        + "%d = kernel.reshape %c : (tensor<32xf32>) -> tensor<8x4xf32>\n"
        + "kernel.return %d : tensor<8x4xf32>"
    )
    artifact = build(graph(body, "tensor<8x4xf32>"))
    assert len(artifact.manifest.workspace) == 1
    assert artifact.manifest.outputs[0].shape == (8, 4)


def test_dimensions_of_one_element_have_steps_that_tensor_maps_take() -> None:
    """No access steps along them, but the driver requires multiples of 16 bytes."""
    ptx = BINARY.replace(".param .u64 b)", ".param .u64 b, .param .align 64 .b8 c[128])")
    part = "tensor<1x4x1x8xf32, #kernel.strides<[1, 24, 8, 1], align = 16>>"
    text = (
        ptx + "kernel.graph @g(%x: tensor<1x12x1x8xf32>) -> tensor<32xf32> {"
        f"%p = kernel.slice %x [0, 2, 0, 0] : (tensor<1x12x1x8xf32>) -> {part}"
        "%0 = kernel.invoke @kernels::@add_one(%p) grid [1, 1, 1] block [32, 1, 1] shared 0 "
        "{tensor_maps = [#kernel.tensor_map<parameter = 0, box = [1, 4, 1, 8], swizzle = 0>]} "
        f": ({part}) -> tensor<32xf32> kernel.return %0 : tensor<32xf32> }}"
    )
    given = build(text).manifest.kernels[0].arguments
    assert given[0].strides == (1, 24, 8, 1)
    assert given[2].map is not None
    assert given[2].map.strides == (4, 24, 4, 1)


@pytest.mark.parametrize(
    ("body", "results", "message"),
    [
        (
            INVOKE.format("a", "x", "4x8", "4x8")
            + "%b = kernel.slice %a [0, 4] : (tensor<4x8xf32>) -> tensor<4x4xf32>\n"
            + INVOKE.format("c", "b", "4x4", "32")
            + "kernel.return %c : tensor<32xf32>",
            "tensor<32xf32>",
            "expected a block in one piece",
        ),
        ("kernel.return %x : tensor<4x8xf32>", "tensor<4x8xf32>", "got an input"),
        (
            INVOKE.format("a", "x", "4x8", "32")
            + "kernel.return %a, %a : tensor<32xf32>, tensor<32xf32>",
            "(tensor<32xf32>, tensor<32xf32>)",
            "got output 0 again",
        ),
        (
            "%a = kernel.unary neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
            "kernel.return %a : tensor<4x8xf32>",
            "tensor<4x8xf32>",
            "got kernel.unary",
        ),
        (
            "%a = kernel.invoke @kernels::@other(%x) grid [1, 1, 1] block [32, 1, 1] shared 0 "
            ": (tensor<4x8xf32>) -> tensor<32xf32>\nkernel.return %a : tensor<32xf32>",
            "tensor<32xf32>",
            "PTX that defines kernel 'other'",
        ),
        (
            "%a = kernel.invoke @kernels::@add_one(%x, %x) grid [1, 1, 1] block [32, 1, 1] "
            "shared 0 "
            ": (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<32xf32>\nkernel.return %a : "
            "tensor<32xf32>",
            "tensor<32xf32>",
            "expected 3 parameters, its PTX has 2",
        ),
    ],
)  # fmt: skip
def test_what_is_not_compiled_is_named(body: str, results: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        build(graph(body, results))
