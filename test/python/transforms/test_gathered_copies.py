"""Rows that are looked up and read by many products are copied first."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.cost.target import target_for
from mirage.mlir_io.text import graph_to_text
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import TileGather, gather
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    Schedule,
    TensorType,
    Value,
    all_ops,
    launches,
)
from mirage.transforms import gathered_copies
from mirage.transforms.gathered_copies import with_copied_rows
from mirage.transforms.lookups import fused

TARGET = target_for("h200")


def value(*shape: int, dtype: DType = DType.F16) -> Value:
    return Value(TensorType(shape, dtype))


def product(
    count: int, width: int, columns: int, *, warpgroups: bool = True, reshaped: bool = False
) -> KernelGraph:
    """``table[ids] @ w`` in tiles of 64 rows and columns, with 64 columns of the table per step."""
    table, w, ids = value(64, width), value(width, columns), value(count, dtype=DType.I64)
    b, block, inner = Builder(), Builder(in_block=True), Builder(in_block=True)
    rows = gather(b, table, ids)
    if reshaped:
        rows = b.reshape(rows, (count // 64, 64, width))
    px, pw = Value(rows.type), Value(w.type)
    if reshaped:
        x = inner.load(px, (("m",), (), ("k",)), (1, 64, 64))
        x = inner.reshape(x, (64, 64))
    else:
        x = inner.load(px, (("m",), ("k",)), (64, 64))
    step = inner.matmul(x, inner.load(pw, (("k",), ("n",)), (64, 64)))
    sums = (Accumulator(AccumulateFn.SUM, step),)
    (total,) = block.loop(Axis("k", width // 64), tuple(inner.ops), sums)
    result = value(count, columns)
    grid = (Axis("m", count // 64), Axis("n", columns // 64))
    body = BlockGraph((px, pw), tuple(block.ops), (Output(total, (("m",), ("n",))),))
    schedule = Schedule(warps=4, stages=2, warpgroups=warpgroups)
    launch = Launch((rows, w), (result,), grid, body, schedule)
    g = KernelGraph("g", (table, w, ids), (*b.ops, launch), (result,))
    check_graph(g)
    return g


@pytest.mark.parametrize("reshaped", [False, True])
def test_rows_of_many_products_are_copied(reshaped: bool) -> None:
    g = product(128, 4096, 65536, reshaped=reshaped)
    copied = fused(with_copied_rows(g, TARGET))
    check_graph(copied)
    copy, multiply = launches(copied.ops)
    assert any(isinstance(op, TileGather) for op in all_ops(copy.inside))
    assert not any(isinstance(op, TileGather) for op in all_ops(multiply.inside))


def test_copies_are_the_rows() -> None:
    g = product(128, 128, 128)
    slow = with_copied_rows(g, TARGET)
    assert slow is g
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((64, 128)), rng.standard_normal((128, 128))]
    ids = rng.integers(0, 64, 128)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathered_copies, "PIECE_TIME", 1e6)
        copied = fused(with_copied_rows(g, TARGET))
    assert len(list(launches(copied.ops))) == 2
    (found,) = evaluate_floats(copied, [*inputs, ids])
    np.testing.assert_allclose(found, inputs[0][ids] @ inputs[1], rtol=1e-9)


def test_rows_that_are_no_power_of_two_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered_copies, "PIECE_TIME", 1e6)
    copied = fused(with_copied_rows(product(64, 192, 128), TARGET))
    copy, _ = launches(copied.ops)
    assert copy.results[0].shape == (64, 192)
    graph_to_text(copied, form="selected")  # which verifies the tiles


def test_others_look_their_rows_up() -> None:
    """Few products, and warps that multiply fragments in their registers."""
    for g in (product(128, 4096, 128), product(128, 4096, 65536, warpgroups=False)):
        assert with_copied_rows(g, TARGET) is g
