"""The compiler's PTX, broken in one place: a check names it, the result is wrong, or nothing
changes at all."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from example_programs import graphs
from faults.ptx_mutants import Kind, Mutant, mutants
from lowering import compile_graph, with_schedule
from mirage.emulator import Emulator, EmulatorError, Limits, Uninitialised
from mirage.emulator.run_artifact import check_artifact, random_inputs
from mirage.mlir_io import graph_from_text
from mirage.runtime.serialization.artifact import Artifact
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import KernelGraph
from thorough import some_of, thorough
from written_kernels.odd_products import linear
from written_kernels.thread_kernels import compile_ptx
from written_kernels.warpgroup_attention import Attention
from written_kernels.warpgroup_graphs import Product
from written_kernels.warpgroup_loops import HiddenLoop

TESTS = Path(__file__).parents[1]
# A mutant that loops for ever is stopped early.
LIMITS = Limits(max_instructions=200_000)

KERNELS = (
    "norm",
    "norm tails",
    "gated",
    "gated tails",
    "split attention",
    "split attention tails",
    "flash attention",
    "softmax tails",
    "odd depth",
)

WARPGROUPS = (
    "ring",
    "ring tails",
    "resident tiles",
    "resident groups",
    "cluster",
    "resident clusters",
    "warpgroup attention",
    "hidden loop",
)
"""Kernels of warpgroups: the mutants break the waits of copies, products and blocks."""


@cache
def program(name: str) -> KernelGraph:
    """Small kernels whose tiles are all full (barriers and swizzles), or all partial (masks)."""
    match name:
        case "norm":
            pair = graphs.rms_linear(32, 128, 64, blocks=2, steps=4)
            return with_schedule(pair.candidates["one_kernel"], 4, 2)
        case "norm tails":
            pair = graphs.rms_linear(9, 41, 21, blocks=2, steps=3)
            return with_schedule(pair.candidates["one_kernel"], 4, 3)
        case "gated":
            pair = graphs.swiglu(32, 96, 64, blocks=2, steps=3)
            return with_schedule(pair.candidates["one_kernel"], 4, 3)
        case "gated tails":
            pair = graphs.swiglu(9, 44, 28, blocks=2, steps=3)
            return with_schedule(pair.candidates["one_kernel"], 4, 2)
        case "split attention":
            pair = graphs.attention(2, 16, 64, 32, splits=2, steps=2)
            return with_schedule(pair.candidates["split_online"], 4, 2)
        case "split attention tails":
            pair = graphs.attention(2, 5, 21, 8, splits=2, steps=2, row_blocks=2)
            return pair.candidates["split_online"]
        case "flash attention":
            return graphs.attention(2, 16, 64, 32, steps=2).candidates["flash"]
        case "softmax tails":
            return graphs.softmax(3, 17, row_blocks=2, steps=3).candidates["online"]
        case "odd depth":
            return graph_from_text(linear(9, 20, 81, (16, 16, 32), "f16")).graph
        case _:
            return graph_from_text(warpgroups(name)).graph


def warpgroups(name: str) -> str:
    """A small kernel of warpgroups; its ring goes round more than once."""
    match name:
        case "ring":
            return Product(128, 64, 640, (128, 64, 64), warps=8, stages=2).text()
        case "ring tails":
            return Product(65, 72, 504, stages=2, epilogue=True).text()
        case "resident tiles":
            return Product(192, 128, 192, stages=2, resident=2).text()
        case "resident groups":
            return Product(384, 128, 320, (128, 128, 64), warps=8, stages=2, resident=1).text()
        case "cluster":
            return Product(128, 64, 640, stages=2, cluster=2).text()
        case "resident clusters":
            return Product(512, 64, 192, stages=2, cluster=2, resident=2).text()
        case "warpgroup attention":
            return Attention(64, 640, stages=2).text()
        case "hidden loop":
            return HiddenLoop(hidden=512, gate=True, stages=2).text()
        case _:
            raise KeyError(name)


@cache
def compiled(name: str) -> Artifact:
    return compile_graph(program(name))


class Meaning:
    """Return the results of a program in float64; mutants get the same inputs, so they are computed
    once."""

    def __init__(self, name: str) -> None:
        self.graph = program(name)
        self.known: dict[bytes, tuple[np.ndarray, ...]] = {}

    def __call__(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        key = b"".join(x.tobytes() for x in inputs)
        if key not in self.known:
            found = evaluate_floats(self.graph, list(inputs))
            self.known[key] = tuple(np.asarray(x) for x in found)
        return self.known[key]


meaning = cache(Meaning)


def run(name: str, artifact: Artifact) -> bytes:
    """Return the results of the kernels, after all checks and the comparison with float64. The last
    element of each input is large: reads that stop before a tensor's end miss it."""
    inputs = random_inputs(artifact.manifest.inputs, 0)
    for x in inputs:
        x.reshape(-1)[-1] = 8.0
    found = check_artifact(artifact, meaning(name), inputs=inputs, limits=LIMITS)
    return b"".join(o.tobytes() for o in found.outputs)


@cache
def outputs(name: str) -> bytes:
    """Return the results of the unchanged kernels."""
    return run(name, compiled(name))


def fate(name: str, mutant: Mutant, right: bytes) -> str:
    """Return the outcome of a mutant: the error that it raises, "harmless" or "escapes"."""
    artifact = compiled(name)
    files = {**artifact.files, "kernels.ptx": mutant.ptx.encode()}
    try:
        found = run(name, dataclasses.replace(artifact, files=files))
        return "harmless" if found == right else "escapes"
    except EmulatorError as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("name", "kind", "caught", "harmless"),
    some_of(
        [
            # The sum over warps starts with a barrier that protects its scratch memory from the
            # loop's last readers; here the loop's own barrier already does.
            ("norm", "barrier", 2, 1),
            ("norm", "wait", 1, 0),
            ("norm", "swizzle", 2, 0),
            ("gated", "barrier", 1, 0),
            ("gated", "wait", 1, 0),
            ("gated", "swizzle", 3, 0),
            ("flash attention", "barrier", 1, 0),
            ("flash attention", "wait", 1, 0),
            ("flash attention", "swizzle", 5, 0),
            # The second kernel's warps read their own copies: its barriers change nothing.
            ("split attention", "barrier", 1, 2),
            ("split attention", "wait", 3, 0),
            # Addresses that warps without a copy compute and never use.
            ("split attention", "swizzle", 5, 2),
            thorough("norm tails", "bound", 10, None),
            ("norm tails", "mask", 3, None),
            thorough("split attention tails", "bound", 10, None),
            ("split attention tails", "mask", 2, None),
            ("softmax tails", "bound", 8, None),
            ("odd depth", "barrier", 1, 0),
            ("odd depth", "wait", 1, 0),
            ("odd depth", "mask", 1, None),
            ("softmax tails", "mask", 3, None),
        ],
        every=6,
    ),
)
def test_breaking_the_compilers_kernels(
    name: str, kind: Kind, caught: int, harmless: int | None
) -> None:
    """At least `caught` mutants of each kind are noticed, at most `harmless` change nothing (None:
    any number; a mask whose lanes another one stops), and none escapes."""
    right = outputs(name)
    found = list(mutants(compiled(name).ptx(), kind))
    fates = [fate(name, m, right) for m in found]
    count = Counter(fates)
    lines = [f"{f}: {m.line} {m.original}" for f, m in zip(fates, found, strict=True)]
    assert not count["escapes"], lines
    assert len(found) - count["harmless"] >= caught, lines
    assert harmless is None or count["harmless"] <= harmless, lines


@cache
def asynchronous() -> Any:
    """The tests of lowering features of sm_90; they run kernels and check the results."""
    spec = importlib.util.spec_from_file_location("sm90", TESTS / "thread" / "test_async.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sm90"] = module
    spec.loader.exec_module(module)
    return module


def _run_with(ptx: str | None, test: str, arguments: tuple[Any, ...]) -> str:
    """Run a test, with other PTX if given; return the compiler's PTX."""
    module = asynchronous()
    seen: list[str] = []

    class Broken(Emulator):
        def __init__(self, text: str) -> None:
            seen.append(text)
            super().__init__(ptx or text)

        def launch(self, name: str, **options: Any) -> Any:
            return super().launch(name, limits=LIMITS, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Emulator", Broken)
        getattr(module, test)(*arguments)
    return seen[0]


@pytest.mark.parametrize(
    ("test", "arguments", "kind", "least"),
    some_of(
        [
            ("test_wgmma_operands", (128, False, False), "barrier", 1),
            ("test_wgmma_operands", (128, False, False), "wait", 2),
            ("test_wgmma_operands", (128, False, False), "fence", 2),
            ("test_wgmma_operands", (128, False, False), "swizzle", 1),
            ("test_producer_and_consumers", (), "barrier", 1),
            ("test_producer_and_consumers", (), "wait", 3),
        ],
        every=2,
    ),
)
def test_breaking_asynchronous_kernels(
    test: str, arguments: tuple[Any, ...], kind: Kind, least: int
) -> None:
    """Waits for mbarriers, copies and wgmma, and the fences between the proxies."""
    text = _run_with(None, test, arguments)
    found = list(mutants(text, kind))
    passed: list[str] = []
    for mutant in found:
        try:
            _run_with(mutant.ptx, test, arguments)
        except (EmulatorError, AssertionError):
            continue
        passed.append(f"{mutant.line} {mutant.original}")
    assert not passed
    assert len(found) >= least


def test_mbarriers_without_the_fence_after_their_initialisation() -> None:
    """One of the two fences suffices, and the second ring of mbarriers is not used by copies."""
    test = "test_producer_and_consumers"
    text = _run_with(None, test, ())
    fence = "fence.mbarrier_init.release.cluster;"
    assert text.count(fence) == 2
    with pytest.raises(EmulatorError, match="mbarrier_init"):
        _run_with(text.replace(fence, ""), test, ())


def test_errors_name_the_op_that_was_lowered() -> None:
    """The whole compiler keeps line information."""
    text = (TESTS.parent / "Conversion" / "ThreadToNVVM" / "products.mlir").read_text()
    ptx = compile_ptx(text, "sm_90a", "line-info")
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((16, 256), (256, 16)))

    def launch(text: str) -> None:
        out = Uninitialised(np.zeros((16, 16), ml_dtypes.bfloat16))
        Emulator(text).launch(
            "product", grid=(1,), block=(64,), shared_bytes=4096, args=[a, b, out]
        )

    launch(ptx)
    named: list[str] = []
    for mutant in [*mutants(ptx, "barrier"), *mutants(ptx, "wait")]:
        with pytest.raises(EmulatorError) as caught:
            launch(mutant.ptx)
        assert caught.value.site is not None
        assert caught.value.site.location is not None
        line = int(caught.value.site.location.split(":")[-2])
        named.append(text.splitlines()[line - 1])
    assert len(named) >= 3
    assert all("thread.load_shared" in n or "thread.copy_async" in n for n in named), named


def test_fates_are_told_apart() -> None:
    """A mutant that changes nothing, one that is caught, and one that the tolerance hides."""
    name = "gated"
    right = outputs(name)
    text = compiled(name).ptx()
    assert fate(name, Mutant(text + "\n// nothing\n", 1, ""), right) == "harmless"
    assert fate(name, Mutant(text.replace("bar.sync", "// bar.sync"), 1, ""), right) != "harmless"
    assert fate(name, Mutant(text, 1, ""), b"other") == "escapes"
