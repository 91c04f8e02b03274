"""Steps that take their exponentials before the maximum is known, executed with all checks."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from faults.noticed import Original
from faults.ptx_mutants import Kind, wrong_parities
from lowering import check_mlir, compile_mlir
from mirage.emulator.run_artifact import random_inputs, run_artifact
from mirage.runtime.serialization.artifact import Artifact
from thorough import some_of
from written_kernels.warpgroup_attention import Attention

SMALL = Attention(64, 320)
LIMIT = "0f46000000"  # 8192 in PTX


def speculates(attention: Attention) -> bool:
    """Return whether steps test their sums."""
    return LIMIT in compile_mlir(attention.text()).ptx()


@pytest.mark.parametrize(
    ("scale", "tile", "stages"),
    some_of(
        [
            (0.125, (64, 64), 3),
            (1.0, (128, 64), 2),
            (6.0, (128, 128), 2),
            (6.0, (64, 64), 3),
        ],
        every=2,
    ),
)
def test_maxima_that_move(scale: float, tile: tuple[int, int], stages: int) -> None:
    """With large scores, sums exceed the limit at some steps."""
    rows, keys = tile
    attention = replace(SMALL, rows=rows, keys=4 * keys, tile=tile, warps=rows // 16, stages=stages)
    attention = replace(attention, scale=scale)
    assert speculates(attention)
    check_mlir(attention.text())


@pytest.mark.parametrize(
    "attention",
    some_of(
        [
            replace(SMALL, bias=True, scale=3.0),
            replace(SMALL, keys=200, scale=3.0),
            replace(SMALL, dtype="bf16", out="f32", scale=3.0),
            replace(SMALL, rows=192, keys=192, seen=192, scale=3.0),
            replace(SMALL, held=True),
            replace(SMALL, turned=True, heads=2),
        ],
        every=2,
    ),
)
def test_other_attention(attention: Attention) -> None:
    """A bias, sizes that do not divide, other types, a causal mask, other orders."""
    assert speculates(attention)
    check_mlir(attention.text())


def test_where_registers_are_few() -> None:
    """Scores are kept in addition to their exponentials until the sums are known."""
    assert not speculates(Attention(128, 256, 128, (128, 128), warps=8))


def test_where_rows_are_computed_twice() -> None:
    """The last tile begins earlier, and both blocks store the same numbers."""
    attention = replace(SMALL, rows=70, keys=200, scale=3.0)
    assert not speculates(attention)
    check_mlir(attention.text())


def right(attention: Attention, limit: str) -> bool:
    """Return whether results are correct with another limit of the sums."""
    artifact = compile_mlir(attention.text())
    manifest, ptx = artifact.manifest, artifact.ptx()
    files = {**artifact.files, manifest.modules[0].ptx: ptx.replace(LIMIT, limit).encode()}
    inputs = random_inputs(manifest.inputs)
    (found,) = run_artifact(Artifact(manifest, files), inputs, stats=False).outputs
    q, k, v = (x[0].astype(np.float64) for x in inputs)
    scores = attention.scale * q @ k.T
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return bool(np.allclose(found[0], e @ v / e.sum(-1, keepdims=True), atol=2e-2))


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_steps_that_are_done_again() -> None:
    """Results are right if all steps are done again, and wrong if none is."""
    attention = replace(SMALL, scale=6.0)
    assert speculates(attention)
    assert right(attention, LIMIT)
    assert right(attention, "0f00000000")
    assert not right(attention, "0f7F800000")


IN_TURN = Attention(128, 96, tile=(128, 32), warps=8)
TURNS = 3  # places where a group waits for its turn: the first step, the loop, after it


@cache
def _in_turn() -> Original:
    assert speculates(IN_TURN)
    return Original(compile_mlir(IN_TURN.text()))


@pytest.mark.parametrize("kind", ["wait", "fence"])
def test_missing_synchronisation_of_groups_in_turn_is_noticed(kind: Kind) -> None:
    """A turn only determines the order: apart from these waits, only barriers may be left out that
    loops without turns do not need, either (test_warpgroup_loops.py explains them)."""
    missed = _in_turn().unnoticed(kind)
    missed = [m for m in missed if not m.startswith("fence.mbarrier_init")]
    assert len(missed) <= (2 if kind == "fence" else 2 + TURNS)


def test_turns_that_are_not_passed_on_are_noticed() -> None:
    original = _in_turn()
    arrivals = list(
        re.finditer(r"@taken mbarrier\.arrive\.shared::cta\.b64 _, \[(%r\d+)\];", original.ptx)
    )
    passes = [at for at in arrivals if sum(at[1] == other[1] for other in arrivals) == TURNS]
    assert len(passes) == TURNS
    for at in passes:
        assert original.notices(original.ptx[: at.start()] + original.ptx[at.end() :])


def test_wrong_parities_of_groups_in_turn_are_noticed() -> None:
    """With a wrong parity of a turn, groups do not wait for each other, and compute the same."""
    missed = [broken for broken in wrong_parities(_in_turn().ptx) if not _in_turn().notices(broken)]
    assert len(missed) <= TURNS
