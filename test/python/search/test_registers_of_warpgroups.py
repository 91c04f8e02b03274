"""The search refuses the same kernels for lack of registers as the assembler."""

from __future__ import annotations

import pytest
from mirage.compiler.compile import CompileOptions, compile_text
from mirage.compiler.errors import PtxasError
from mirage.compiler.ptxas import find_ptxas
from mirage.cost.compilable import CheckError
from mirage.cost.registers import check_registers
from mirage.mlir_io import graph_from_text
from mirage.semantics.ugraph import launches
from written_kernels.warpgroup_attention import Attention
from written_kernels.warpgroup_graphs import Product

FIT = [((256, 144, 64), 8), ((256, 208, 32), 8), ((256, 128, 64), 16)]
TOO_MANY, SPILLED = ((256, 240, 32), 8), ((512, 96, 32), 16)
ONE_INSTRUCTION = [((256, 144, 64), 16), ((256, 160, 64), 16)]


def text_of(tile: tuple[int, int, int], warps: int) -> str:
    return Product(1024, 1024, 1024, tile, warps, 2).text()


def check(text: str) -> None:
    (launch,) = launches(graph_from_text(text).graph.ops)
    check_registers(launch)


@pytest.mark.parametrize(("tile", "warps"), FIT)
def test_what_fits(tile: tuple[int, int, int], warps: int) -> None:
    check(text_of(tile, warps))


@pytest.mark.parametrize(
    ("tile", "warps", "where"),
    [(*case, "while products run") for case in (TOO_MANY, SPILLED)]
    + [(*case, "for one instruction") for case in ONE_INSTRUCTION],
)
def test_what_does_not(tile: tuple[int, int, int], warps: int, where: str) -> None:
    with pytest.raises(CheckError, match=where):
        check(text_of(tile, warps))


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize(("tile", "warps"), [TOO_MANY, *ONE_INSTRUCTION])
def test_the_assembler_refuses_the_same(tile: tuple[int, int, int], warps: int) -> None:
    """What fits is compiled in ``test/python/block/test_rings.py``."""
    with pytest.raises(PtxasError, match=r"wait for each other|Insufficient registers") as raised:
        compile_text(text_of(tile, warps), CompileOptions("sm_90a", use_cache=False))
    assert raised.value.kernels == (0,)


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
def test_the_assembler_spills_what_is_refused() -> None:
    compiled = compile_text(text_of(*SPILLED), CompileOptions("sm_90a", use_cache=False))
    assert compiled.spilled_bytes


def attention(keys: int, stages: int) -> str:
    """Attention with values of 256 columns."""
    shape = (2688, 2688) if keys == 112 else (1024, 1024)
    return Attention(*shape, columns=256, tile=(128, keys), warps=8, stages=stages).text()


def with_two_scores() -> str:
    """Attention whose scores are the sum of two products."""
    tile = "!block.tile<1x128x128xf32>"
    text = Attention(1024, 1024, dim=128, columns=128, tile=(128, 128), warps=8).text()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("%s0 ="):
            second = line.replace("%s0 =", "%second =").replace("%x,", "%x2,")
            added = f"%s0 = block.binary add %first, %second : ({tile}, {tile}) -> {tile}"
            lines += [line.replace("%s0 =", "%first ="), second, added]
            continue
        lines.append(line)
        if line.startswith("%x ="):
            lines.append(line.replace("%x =", "%x2 =").replace("%gq", "%gv"))
    return "\n".join(lines)


CHAINED = {"256 columns": attention(128, 2), "two products": with_two_scores()}


@pytest.mark.parametrize("text", CHAINED.values(), ids=list(CHAINED))
def test_a_factor_is_held_while_the_next_products_run(text: str) -> None:
    """With 224 registers for a step's scores, their exponentials and the sums, too few are left."""
    with pytest.raises(CheckError, match="between products"):
        check(text)


@pytest.mark.parametrize(("keys", "stages"), [(112, 2), (128, 1)])
def test_fewer_keys_or_one_stage_fit(keys: int, stages: int) -> None:
    check(attention(keys, stages))


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("text", CHAINED.values(), ids=list(CHAINED))
def test_the_assembler_refuses_these_loops(text: str) -> None:
    with pytest.raises(PtxasError, match="wait for each other"):
        compile_text(text, CompileOptions("sm_90a", use_cache=False))
