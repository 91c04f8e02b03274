"""Rows that the blocks of a cluster share, executed with all checks."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from faults.noticed import Original
from lowering import check_mlir, compile_mlir
from mirage.compiler.compile import CompileError
from mirage.mlir_io import graph_from_text
from mirage.pipeline.checks.emulated_check import emulated
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.semantics.ugraph import launches
from thorough import some_of
from written_kernels.shared_rows import SharedRows

SMALL = SharedRows()


def check(text: str, cluster: int = 4) -> None:
    """Compare with the µGraph's meaning in float64; the kernel must use clusters."""
    (kernel,) = compile_mlir(text).manifest.kernels
    assert kernel.cluster == (cluster, 1, 1)
    check_mlir(text)


def exchanges(text: str) -> int:
    """Return how often blocks wait for each other after they have started."""
    return len(re.findall(r"barrier\.cluster\.wait", compile_mlir(text).ptx())) - 1


@pytest.mark.parametrize("cluster", some_of([4, 2, 8, 16], every=2))
def test_totals_that_need_each_other(cluster: int) -> None:
    rows = replace(SMALL, cluster=cluster)
    for text in (rows.softmax(), rows.layer_norm()):
        check(text, cluster)
        assert exchanges(text) == 2


def test_totals_that_do_not_are_exchanged_at_once() -> None:
    check(SMALL.moments())
    assert exchanges(SMALL.moments()) == 1


@pytest.mark.parametrize("steps", some_of([4, 8, 12], every=2))
def test_steps_are_shared(steps: int) -> None:
    """The maxima of blocks and the sums that belong to them are exchanged at once."""
    text = replace(SMALL, steps=steps, n=steps * 64).softmax()
    check(text)
    assert exchanges(text) == 1


def test_one_step_reads_once() -> None:
    """Where one step is left, the tile that was read again is that step's."""
    (text,) = (replace(SMALL, steps=4).softmax(),)
    whole = SMALL.softmax()
    loads = [len(re.findall(r"ld\.global", compile_mlir(t).ptx())) for t in (text, whole)]
    assert loads[0] == loads[1]


@pytest.mark.parametrize("dtype", some_of(["bf16", "f32"], every=2))
def test_rows_that_do_not_divide(dtype: str) -> None:
    """Tails are masked, and several rows are shared at a time."""
    check(replace(SMALL, dtype=dtype, steps=8, n=500).softmax())
    check(replace(SMALL, dtype=dtype, rows=7, height=4).layer_norm())


def test_rows_that_start_at_odd_elements() -> None:
    """Parts of 255 elements, whose order in registers does not matter."""
    check(replace(SMALL, n=1020, rows=3).layer_norm())


def test_others_work_while_blocks_wait() -> None:
    """Elements stay as pairs, and room for 32 warps is requested; not if all elements of a thread
    fit as they are, nor if there are few blocks."""
    wide = SharedRows(n=2 * 8 * 32 * 64, rows=150, cluster=2, warps=8)
    artifact = compile_mlir(wide.layer_norm())
    assert ".minnctapersm 4" in artifact.ptx()
    (launch,) = launches(graph_from_text(wide.layer_norm()).graph.ops)
    found = emulated(launch, artifact.manifest.kernels[0], artifact)
    assert found.outcome is Outcome.PASSED, found.text
    for other in (replace(wide, n=8192), replace(wide, rows=4)):
        assert ".minnctapersm 4" not in compile_mlir(other.layer_norm()).ptx()


def test_rows_without_clusters_are_the_same_launch() -> None:
    for text in (SMALL.softmax(), replace(SMALL, steps=8).softmax()):
        alone = text.replace(", cluster = 4", "")
        (kernel,) = compile_mlir(alone).manifest.kernels
        assert kernel.cluster is None
        check_mlir(alone)


def test_other_chips_have_none() -> None:
    with pytest.raises(CompileError, match="clusters of blocks"):
        compile_mlir(SMALL.softmax(), chip="sm_80")


# ---- the effects of mistakes


@cache
def _original() -> Original:
    return Original(compile_mlir(replace(SMALL, rows=3, cluster=2).softmax()))


def test_missing_synchronisation_is_noticed() -> None:
    """Either half of each wait between blocks, and what warps of a block exchange."""
    original = _original()
    for pattern in (r"barrier\.cluster\.arrive[.\w]*;", r"barrier\.cluster\.wait[.\w]*;"):
        for found in re.finditer(pattern, original.ptx):
            assert original.notices(original.ptx[: found.start()] + original.ptx[found.end() :])
    pair = r"barrier\.cluster\.arrive[.\w]*;\s*barrier\.cluster\.wait[.\w]*;"
    exchanged = list(re.finditer(pair, original.ptx))
    assert len(exchanged) == 2
    for found in exchanged:
        assert original.notices(original.ptx[: found.start()] + original.ptx[found.end() :])
    start = original.ptx
    for half in ("arrive", "wait"):
        start = re.sub(rf"barrier\.cluster\.{half}[.\w]*;", "", start, count=1)
    assert original.notices(start)
    relaxed = original.ptx.replace(
        "barrier.cluster.arrive.aligned", "barrier.cluster.arrive.relaxed.aligned"
    )
    assert relaxed != original.ptx
    assert original.notices(relaxed)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        # Each block writes to the memory of one block alone.
        (r"(mapa\.shared::cluster\.u64\s+%rd\d+, %rd\d+), 1;", r"\1, 0;"),
        # All write to the same place.
        (r"mov\.u32\s+(%r\d+), %cluster_ctarank;", r"mov.u32 \1, 0;"),
    ],
)
def test_wrong_places_are_noticed(pattern: str, replacement: str) -> None:
    original = _original()
    broken, count = re.subn(pattern, replacement, original.ptx)
    assert count
    assert original.notices(broken)
