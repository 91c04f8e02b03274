"""``flex_attention`` is imported as its formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.frontend.errors import UnsupportedOpError
from mirage.semantics.positions import Iota
from thorough import some_of
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch_programs.imported_programs import evaluate, rand

Tensor = torch.Tensor
BATCH, HEADS, GROUPS, ROWS, KEYS, WIDTH = 2, 4, 2, 24, 40, 8
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
TABLE = rand(BATCH, HEADS).float()
DOCUMENTS = torch.arange(BATCH * KEYS).reshape(BATCH, KEYS) // 7
LENGTHS = torch.tensor([40, 13])

SCORES: dict[str, Callable[..., Tensor] | None] = {
    "none": None,
    "alibi": lambda s, b, h, i, j: s + SLOPES[h] * (j - i),
    "capped": lambda s, b, h, i, j: 5 * torch.tanh(s / 5),
    "of a table": lambda s, b, h, i, j: s * 2 + TABLE[b, h],
    "a mask of scores": lambda s, b, h, i, j: torch.where(i >= j + 3, s, -math.inf),
    "chosen by parity": lambda s, b, h, i, j: torch.where((i - j) % 2 == 0, s, s - 1),
}
MASKS: dict[str, Callable[..., Tensor] | None] = {
    "none": None,
    "causal": lambda b, h, i, j: i >= j,
    "window": lambda b, h, i, j: (i >= j) & (i - j < 5),
    "documents": lambda b, h, i, j: DOCUMENTS[b, i] == DOCUMENTS[b, j],
    "lengths": lambda b, h, i, j: j < LENGTHS[b],
    "rows that see nothing": lambda b, h, i, j: j > i + 20,
    "of a head": lambda b, h, i, j: (h == 1) | (i >= j),
}


def inputs(groups: int = HEADS, keys: int = KEYS, batch: int = BATCH) -> tuple[Tensor, ...]:
    return (
        rand(BATCH, HEADS, ROWS, WIDTH).float(), rand(batch, groups, keys, WIDTH).float(),
        rand(batch, groups, keys, WIDTH + 8).float(),
    )  # fmt: skip


def program(
    scores: str = "none", mask: str = "none", batch: int | None = BATCH, **named: Any
) -> Callable[..., Any]:
    function, mod = SCORES[scores], MASKS[mask]
    blocks = mod and create_block_mask(mod, batch, HEADS, ROWS, KEYS, device="cpu")
    return lambda q, k, v: flex_attention(q, k, v, function, blocks, **named)


def compared(function: Callable[..., Any], given: tuple[Tensor, ...]) -> Any:
    imported = mi.from_torch(function, *given)
    with torch.compiler.set_stance("force_eager"):  # its own formula, without a compilation
        want = function(*given)
    want = want if isinstance(want, tuple) else (want,)
    for x, y in zip(evaluate(imported, list(given)), want, strict=True):
        np.testing.assert_allclose(x, y.double(), rtol=2e-5, atol=2e-5)
    return imported


@pytest.mark.parametrize("scores", some_of(SCORES, every=2))
def test_functions_of_scores(scores: str) -> None:
    compared(program(scores), inputs())


@pytest.mark.parametrize("mask", some_of(MASKS, every=4))
def test_masks(mask: str) -> None:
    compared(program("alibi", mask), inputs())


def test_both_with_heads_that_share_keys() -> None:
    compared(program("capped", "window", scale=0.3, enable_gqa=True), inputs(GROUPS))


def test_keys_that_all_sequences_share() -> None:
    compared(program("none", "causal"), inputs(batch=1))


def test_the_other_results() -> None:
    function = program("none", "rows that see nothing", return_lse=True)
    compared(lambda *x: function(*x)[1], inputs())


def test_a_mask_of_positions_is_not_read() -> None:
    """The mask of long sequences is a function of positions, and no tensor of blocks remains."""
    mod = create_block_mask(lambda b, h, i, j: i >= j, None, None, 2048, 2048, device="cpu")
    given = [torch.empty(1, 2, 2048, 8, dtype=torch.float16) for _ in range(3)]
    imported = mi.from_torch(lambda q, k, v: flex_attention(q, k, v, None, mod), *given)
    assert not imported.program.parameters
    assert any(isinstance(op, Iota) for op in imported.graph.ops)
    names = [str(op.function) for op in imported.graph.ops]
    assert sum("KEEP" in name for name in names) == 1  # of scores; each row attends to itself


def test_lists_of_blocks_alone_are_refused() -> None:
    """PyTorch's own kernels read them, and its definition of the op does not."""
    blocks = BlockMask.from_kv_blocks(
        torch.ones(1, 1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, 2, dtype=torch.int32),
        BLOCK_SIZE=32, seq_lengths=(ROWS, KEYS),
    )  # fmt: skip
    with pytest.raises(UnsupportedOpError, match="a mask of blocks without a mask_mod"):
        mi.from_torch(lambda q, k, v: flex_attention(q, k, v, None, blocks), *inputs())
