"""Kernels that run in parallel with earlier ones: where this is allowed, and detection of wrong
plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mirage.compiler import CompileOptions, compile_graph
from mirage.emulator.run_artifact import run_artifact
from mirage.pipeline.checks.emulated_check import emulated, kernel_ops
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.runtime.errors import UnreadableArtifactError
from mirage.runtime.serialization.artifact import Artifact, sha256
from mirage.runtime.serialization.kernels_beside import conflicts, written_meanwhile
from mirage.runtime.serialization.manifest import KernelLaunch, Manifest, WorkspaceBuffer
from mirage.runtime.serialization.manifest_reader import from_json
from mirage.search.kernel.problems.aligned import aligned_copies, aligned_type
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value


def copies() -> KernelGraph:
    """x is copied three times and y twice, in turns: the kernels that copy y are independent of
    those before them."""
    x, y = Value(TensorType((33, 67), DType.F16), "x"), Value(TensorType((16, 40), DType.F16), "y")
    a, b, d = (Value(aligned_type(x.type), name) for name in "abd")
    c, e = (Value(aligned_type(y.type), name) for name in "ce")
    pairs = [(x, a), (a, b), (y, c), (b, d), (c, e)]
    ops = tuple(op for pair in pairs for op in aligned_copies([pair]))
    return KernelGraph("copies", (x, y), ops, (d, e))


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    options = CompileOptions("sm_90a", cubin=False, use_cache=False, follows=True)
    return compile_graph(copies(), options).artifact


def read(manifest: Manifest) -> Manifest:
    return from_json(json.loads(json.dumps(manifest.to_json())), "here")


def with_kernel(manifest: Manifest, number: int, **changed: Any) -> Manifest:
    kernels = list(manifest.kernels)
    kernels[number] = replace(kernels[number], **changed)
    return replace(manifest, kernels=tuple(kernels))


def with_buffer(manifest: Manifest, number: int, offset: int) -> Manifest:
    buffers = list(manifest.workspace)
    buffers[number] = replace(buffers[number], offset=offset)
    return replace(manifest, workspace=tuple(buffers))


def test_what_others_may_write_when_a_kernel_starts(artifact: Artifact) -> None:
    """The first kernel follows unknown ones. Results of kernels that ended before the previous one
    are available."""
    manifest = artifact.manifest
    found = [written_meanwhile(manifest, kernel.entry) for kernel in manifest.kernels]
    assert [k.beside for k in manifest.kernels] == [0, 0, 1, 0, 1]
    assert found == [{0, 1}, {0}, set(), {0}, set()]


def test_what_others_may_write_behind_a_kernel_that_lets_the_next_one_start_first(
    artifact: Artifact,
) -> None:
    """The last kernel reads the result of the third one, which has not ended while the fourth one
    still waits for it."""
    manifest = with_kernel(with_kernel(artifact.manifest, 2, beside=0), 4, beside=0)
    last, before = (manifest.kernels[number].entry for number in (4, 3))
    assert written_meanwhile(manifest, last) == set()
    assert written_meanwhile(manifest, last, {before}) == {0}


def results(artifact: Artifact, manifest: Manifest, *, early: bool) -> tuple[bool, ...]:
    """Return which results are correct, with the planned workspace. With ``early``, kernels that
    may run in parallel with others run before them."""

    def placed(kernel: KernelLaunch) -> KernelLaunch:
        arguments = tuple(
            replace(a, index=0, offset=a.offset + manifest.workspace[a.index].offset)
            if a.kind == "workspace" else a
            for a in kernel.arguments
        )  # fmt: skip
        return replace(kernel, arguments=arguments)

    order: list[KernelLaunch] = []
    for number, kernel in enumerate(map(placed, manifest.kernels)):
        order.insert(number - kernel.beside if early else number, kernel)
    whole = WorkspaceBuffer("all", (manifest.workspace_bytes,), "i8", 0)
    changed = replace(manifest, kernels=tuple(order), workspace=(whole,))
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(spec.shape).astype(np.float16) for spec in manifest.inputs]
    ran = run_artifact(Artifact(changed, artifact.files), inputs).outputs
    cut = [y[tuple(map(slice, x.shape))] for y, x in zip(ran, inputs, strict=True)]
    return tuple(np.array_equal(y, x) for y, x in zip(cut, inputs, strict=True))


def test_kernels_that_are_apart_run_in_any_order(artifact: Artifact) -> None:
    m = artifact.manifest
    assert [k.beside for k in m.kernels] == [0, 0, 1, 0, 1]
    assert [k.dependent for k in m.kernels] == [True] * 5
    assert list(conflicts(m)) == []
    assert read(m) == m
    for early in (False, True):
        assert results(artifact, m, early=early) == (True, True)


def test_the_workspace_keeps_apart_what_kernels_touch_at_once(artifact: Artifact) -> None:
    """The first copy of x is no longer needed when y is first copied: a plan for kernels that run
    one after the other puts both in one place."""
    m = artifact.manifest
    again = with_buffer(m, 2, m.workspace[0].offset)
    assert results(artifact, again, early=False) == (True, True)
    assert results(artifact, again, early=True) == (False, True)
    assert list(conflicts(again)) == [
        "kernels 1 and 2 may run at once: expected no memory in common that one of them writes, "
        f"got workspace from byte {m.workspace[0].offset}"
    ]
    with pytest.raises(UnreadableArtifactError, match="kernels 1 and 2 may run at once"):
        read(again)


@pytest.mark.parametrize(
    ("number", "changed", "message"),
    [
        (1, {"beside": 1}, "kernels 0 and 1 may run at once"),  # it reads what the first writes
        (3, {"beside": 2}, "kernels 1 and 3 may run at once"),  # and this one, of the second
        (2, {"beside": 2}, "kernel 2: expected beside 0, or 1 of a dependent kernel, got 2"),
        (2, {"dependent": False}, "kernel 2: expected beside 0, or 1 of a dependent kernel, got 1"),
        (0, {"beside": 1}, "kernel 0: expected beside 0, or 0 of a dependent kernel, got 1"),
        (3, {"beside": 1}, "kernel 3: expected beside 0, or 2 of a dependent kernel, got 1"),
        (4, {"writes": (7,)}, "expected some of 2 arguments"),
    ],
)  # fmt: skip
def test_wrong_dependences_are_noticed(
    artifact: Artifact, number: int, changed: dict[str, Any], message: str
) -> None:
    wrong = with_kernel(artifact.manifest, number, **changed)
    with pytest.raises(UnreadableArtifactError, match=message):
        read(wrong)


def never(ptx: str) -> str:
    return ptx.replace("griddepcontrol.wait;", "")


def too_early(ptx: str) -> str:
    """Let the next kernel start before this one waits."""
    start, wait = "griddepcontrol.launch_dependents;", "griddepcontrol.wait;"
    swapped = ptx.replace(start, "<start>").replace(wait, start)
    return swapped.replace("<start>", wait)


@pytest.mark.parametrize(
    ("damage", "fails"),
    [(str, ()), (never, (0, 1, 2, 3, 4)), (too_early, (0, 1, 3))],
)  # fmt: skip
def test_later_kernels_rely_on_all_before_each(
    artifact: Artifact, damage: Callable[[str], str], fails: tuple[int, ...]
) -> None:
    """Each kernel waits before it ends, and, unless it runs in parallel with others, before it lets
    the next one start."""
    files = dict(artifact.files)
    (module,) = artifact.manifest.modules
    files[module.ptx] = damage(files[module.ptx].decode()).encode()
    modules = (replace(module, ptx_sha256=sha256(files[module.ptx])),)
    run = Artifact(replace(artifact.manifest, modules=modules), files)
    ran = [
        emulated(op, kernel, run)
        for op, kernel in zip(kernel_ops(copies()), run.manifest.kernels, strict=True)
    ]
    failed = tuple(i for i, check in enumerate(ran) if check.outcome is Outcome.FAILED)
    assert failed == fails, ran
