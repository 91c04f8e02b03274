"""Last tiles that begin earlier instead of overhanging the end of their tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lowering import check_mlir
from mirage import ir
from mirage.passmanager import PassManager
from thorough import some_of
from written_kernels.warpgroup_attention import Attention
from written_kernels.warpgroup_graphs import Product

SMALL = Product(65, 128, 192)


def check(text: str, overlaps: bool) -> None:
    """Compare with the µGraph's meaning in float64."""
    with ir.Context():
        module = ir.Module.parse(text)
        pipeline = "builtin.module(mirage-lower-block{chip=sm_90a})"
        PassManager.parse(pipeline).run(module.operation)
        assert ("arith.minui" in str(module)) == overlaps
    check_mlir(text)


@pytest.mark.parametrize("m", some_of([65, 100, 127, 129], every=3))
@pytest.mark.parametrize("swapped_b", [False, True])
def test_rows(m: int, swapped_b: bool) -> None:
    check(replace(SMALL, m=m, swapped_b=swapped_b).text(), overlaps=True)


@pytest.mark.parametrize("m", [64, 128, 192])
def test_tiles_that_divide_stay(m: int) -> None:
    check(replace(SMALL, m=m).text(), overlaps=False)


@pytest.mark.parametrize(
    ("n", "overlaps"), [(72, True), (136, True), (200, True), (132, False), (65, False)]
)
def test_columns_begin_at_multiples_of_sixteen_bytes(n: int, overlaps: bool) -> None:
    check(replace(SMALL, m=64, n=n, swapped_b=True).text(), overlaps)


@pytest.mark.parametrize("swapped_a", [False, True])
def test_both_at_once_and_what_is_added(swapped_a: bool) -> None:
    """Biases and residuals begin where the tile does."""
    odd = replace(SMALL, m=72, n=136, swapped_a=swapped_a, epilogue=True, residual=True)
    check(odd.text(), overlaps=True)
    check(replace(odd, out="f32", batch=2).text(), overlaps=True)


@pytest.mark.parametrize(
    "other",
    some_of(
        [
            {"tile": (128, 64, 64), "warps": 8, "m": 129},
            {"tile": (256, 64, 64), "warps": 8, "m": 257},
            {"resident": 2, "n": 200},
            {"cluster": 2, "m": 129, "n": 256},
            {"cluster": 2, "m": 65, "n": 200},
            {"dtype": "bf16", "out": "bf16"},
            {"k": 200},
        ],
        every=2,
    ),
)
def test_tiles_roles_and_types(other: dict[str, object]) -> None:
    check(replace(SMALL, **other).text(), overlaps=True)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("rows", [65, 130])
def test_rows_of_attention(rows: int) -> None:
    """Keys overhang their end as before: a key that is read twice would count twice."""
    check(Attention(rows, 100, heads=2).text(), overlaps=True)


def test_rows_that_see_keys_by_position_stay() -> None:
    check(Attention(100, 100, heads=2, seen=100).text(), overlaps=False)


def test_additive_tensors_begin_where_the_rows_do() -> None:
    check(Attention(72, 72, heads=2, bias=True).text(), overlaps=True)
