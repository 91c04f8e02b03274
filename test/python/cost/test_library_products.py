"""Products of a library, measured together with ours."""

from __future__ import annotations

import json
import re
from math import log
from pathlib import Path

import pytest
from mirage.cost import H200
from mirage.cost.library_products import library_product
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Op, TensorType, Value

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results" / "h200_products.json"


def product(rows: int, inner: int, columns: int, dtype: DType, tf32: bool = False) -> Op:
    build = Builder()
    x, w = (Value(TensorType(s, dtype)) for s in ((rows, inner), (inner, columns)))
    build.matmul(x, w, tf32=tf32)
    return build.ops[-1]


def measured() -> dict[str, tuple[Op, float]]:
    """Yield the products of the table, with the µs of PyTorch."""
    found: dict[str, tuple[Op, float]] = {}
    for row in json.loads(RESULTS.read_text())["results"]:
        name, time = str(row["name"]), row["cold"].get("eager")
        square = re.fullmatch(r"(?:linear_(f32|tf32)|(?:scaled_)?mm)_(\d+)(?:_bf16)?", name)
        layer = re.fullmatch(r"linear_m(\d+)_(\d+)x(\d+)", name)
        if time is None or (square is None and layer is None):
            continue
        dtype = DType.F8E4M3 if "scaled" in name else DType.F32 if "f32" in name else DType.F16
        if square is not None:
            n = int(square[2])
            sizes = n, n, n
        else:
            assert layer is not None
            sizes = int(layer[1]), int(layer[3]), int(layer[2])
        found[name] = product(*sizes, dtype, tf32="tf32" in name), float(time["median"])
    return found


def test_products_take_about_the_time_that_was_measured() -> None:
    errors = {
        name: log(time / library_product(op, H200).time) for name, (op, time) in measured().items()
    }
    assert len(errors) > 35
    assert sum(map(abs, errors.values())) / len(errors) < 0.1, errors
    assert max(map(abs, errors.values())) < 0.55, errors  # 1024^3 of TF32 fills half of the SMs


def test_a_product_of_more_rows_takes_no_less() -> None:
    times = [library_product(product(n, 4096, 4096, DType.F16), H200).time for n in (1, 64, 4096)]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(210.0, rel=0.05)
