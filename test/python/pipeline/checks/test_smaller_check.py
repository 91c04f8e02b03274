"""Kernels that are too large for the emulator are run at smaller sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from example_programs import graphs
from lowering import with_schedule
from mirage.compiler import Compiled, CompileOptions, compile_graph
from mirage.frontend.program import Program
from mirage.mlir_io import graph_from_text
from mirage.pipeline.checks import emulated_check, smaller_check
from mirage.pipeline.checks.check import Checker
from mirage.pipeline.checks.kernel_check import KernelCheck, Outcome
from mirage.pipeline.result import Step
from mirage.runtime.serialization.artifact import Artifact, sha256
from mirage.runtime.serialization.sizes import Size
from mirage.semantics.ugraph import KernelGraph, launches
from thorough import some_of
from written_kernels.product_kernels import product_kernel
from written_kernels.warpgroup_attention import Attention
from written_kernels.warpgroup_graphs import Product

CHIP = "sm_90a"
OPTIONS = CompileOptions(CHIP, cubin=False)


def product(**more: Any) -> KernelGraph:
    """33 x 4 tiles, with a partial last row of tiles, and 64 steps."""
    launch = product_kernel(64 * 32 + 8, 256, 64 * 64, (64, 64, 64), 2, 4, **more)
    return KernelGraph("product", launch.operands, (launch,), launch.results)


GRAPHS: dict[str, Callable[[], KernelGraph]] = {
    "product": product,
    "resident": lambda: product(resident=132, residual=True),
    "cluster": lambda: graph_from_text(Product(1024, 512, 4096, stages=2, cluster=2).text()).graph,
    "attention": lambda: graph_from_text(Attention(1000, 8000, heads=8).text()).graph,
    "norm": lambda: with_schedule(
        graphs.rms_linear(16, 8192, 4096, blocks=64, steps=128).candidates["one_kernel"], 4, 2
    ),
}


@cache
def compiled(name: str) -> tuple[KernelGraph, Artifact]:
    graph = GRAPHS[name]()
    return graph, compile_graph(graph, OPTIONS).artifact


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels need not be huge."""
    monkeypatch.setattr(emulated_check, "WORK", 5000)


def checked(graph: KernelGraph, artifact: Artifact) -> KernelCheck:
    """Check a program as programs are checked before they are returned."""
    step = Step(graph, None, Compiled(artifact))
    (check,) = Checker(Program(graph, {}), CHIP, use_cache=False).of_step(step)
    return check


@pytest.mark.parametrize(
    ("name", "text"),
    some_of(
        [
            (
                "product",
                "3 of 33 parts along m, 3 of 4 parts along n, 5 of 64 parts along k: blocks ",
            ),
            (
                "resident",
                "3 of 33 parts along m, 3 of 4 parts along n, 5 of 64 parts along k: blocks ",
            ),
            (
                "cluster",
                "4 of 16 parts along m, 4 of 8 parts along n, 5 of 64 parts along k: clusters",
            ),
            ("attention", "3 of 8 parts along h, 3 of 16 parts along m, "),
            ("norm", "3 of 64 parts along "),
        ],
        every=2,
    ),
)
def test_what_is_too_large_is_run_at_smaller_sizes(name: str, text: str) -> None:
    check = checked(*compiled(name))
    assert check.outcome is Outcome.PASSED, check
    assert check.how == "in the emulator, at smaller sizes"
    assert check.text.startswith(text), check.text
    assert check.kernel == compiled(name)[1].manifest.kernels[0].entry


def test_blocks_have_several_tiles_at_smaller_sizes_too() -> None:
    assert re.search(r"blocks .*\b4 of 5, ", checked(*compiled("resident")).text)


def test_what_fits_is_run_as_it_is() -> None:
    launch = product_kernel(200, 256, 256, (64, 64, 64), 2, 4)
    graph = KernelGraph("fits", launch.operands, (launch,), launch.results)
    check = checked(graph, compile_graph(graph, OPTIONS).artifact)
    assert (check.outcome, check.how) == (Outcome.PASSED, "in the emulator")


def test_tensors_of_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = product()
    for module in (emulated_check, smaller_check):
        monkeypatch.setattr(module, "BYTES", 1 << 20)
    monkeypatch.setattr(emulated_check, "WORK", 60_000)
    check = checked(graph, compiled("product")[1])
    assert check.outcome is Outcome.PASSED
    assert check.how == "in the emulator, at smaller sizes"


# ---- kernels that are wrong


Damage = Callable[[str], str]


def changed(pattern: str, instead: str) -> Damage:
    return lambda ptx: re.sub(pattern, instead, ptx)


def broken(artifact: Artifact, damage: Damage) -> Artifact:
    (module,) = artifact.manifest.modules
    ptx = damage(artifact.files[module.ptx].decode())
    assert ptx != artifact.files[module.ptx].decode()
    modules = (replace(module, ptx_sha256=sha256(ptx.encode())),)
    files = {**artifact.files, module.ptx: ptx.encode()}
    return Artifact(replace(artifact.manifest, modules=modules), files)


@pytest.mark.parametrize(
    ("name", "damage"),
    some_of(
        [
            ("attention", changed(r"(wgmma\.wait_group\.sync\.aligned) \d", r"\1 7")),
            ("attention", changed(r"\badd(\.rn)?\.f32\b", r"sub\1.f32")),
            ("product", changed(r"(mov\.u32\s+%r\d+), %ctaid\.x;", r"\1, 0;")),
            ("resident", changed(r"(bulk\.wait_group\.read) 0", r"\1 7")),
            ("norm", changed(r"(cp\.async\.wait_group\s+)0", r"\g<1>7")),
        ],
        every=6,
    ),
)
def test_a_mistake_of_the_compiler_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, damage: Damage
) -> None:
    graph, artifact = compiled(name)

    def compile_wrong(small: KernelGraph, options: CompileOptions) -> Compiled:
        right = compile_graph(small, options)
        return replace(right, artifact=broken(right.artifact, damage))

    monkeypatch.setattr(smaller_check, "compile_graph", compile_wrong)
    check = checked(graph, artifact)
    assert check.outcome is Outcome.FAILED, check
    assert check.how == "in the emulator, at smaller sizes"
    assert "parts along" in check.text


# ---- kernels that remain unchecked


def test_a_kernel_of_other_instructions_says_nothing() -> None:
    """Here the returned kernel has a kind of barrier that the small one does not have."""
    graph, artifact = compiled("product")
    other = broken(artifact, lambda ptx: ptx.replace("ret;", "membar.gl; fence.sc.cta; ret;"))
    check = checked(graph, other)
    assert (check.outcome, check.how) == (Outcome.UNCHECKED, "in the emulator")
    assert "more than 5,000 warp-instructions" in check.text


def test_kernels_that_take_a_size_stay_unchecked() -> None:
    graph, artifact = compiled("product")
    (launch,) = launches(graph.ops)
    size = Size(2056, 1, 2056, (0,), (0,))
    sized = replace(artifact, manifest=replace(artifact.manifest, size=size))
    kernel = artifact.manifest.kernels[0]
    assert smaller_check.at_smaller_sizes(launch, kernel, artifact, OPTIONS) is not None
    assert smaller_check.at_smaller_sizes(launch, kernel, sized, OPTIONS) is None
