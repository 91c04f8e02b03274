"""Whole hand-written kernels, correct and broken in one place at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator_support import ptx_kernels as ptx
from emulator_support.harness import emulator, stated
from emulator_support.ptx_matmul import Broken, matmul
from emulator_support.tolerance import accumulation, rounding
from mirage.emulator import Counters, EmulatorError, TensorMap, Uninitialised

Array = np.ndarray[Any, Any]


def normal(*shape: int, dtype: Any = np.float16, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.5).astype(dtype)


def run_matmul(text: str, m: int, n: int, k: int) -> tuple[float, Counters]:
    a, b, c = normal(m, k), normal(k, n, seed=1), np.zeros((m, n), np.float16)
    grid = (-(-n // 64), -(-m // 64))
    with stated(accumulation(a, b, 0, element="f16", result="f16", depth=16)):
        result = emulator(text).launch(
            "matmul", grid=grid, block=(128,), args=[a, b, Uninitialised(c), m, n, k]
        )
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.abs(c - expected).max()), result.stats


def run_softmax(text: str) -> float:
    """Fewer columns than threads, and more."""
    worst = 0.0
    for n in (100, 300):
        x, y = normal(3, n) * np.float16(4), np.zeros((3, n), np.float16)
        # float32 within 2^-18 before it is rounded to f16: ex2.approx and rcp.approx.
        with stated(rounding("f16", "exponentials and a reciprocal of 2^-22, rounded to f16")):
            emulator(text).launch("softmax", grid=(3,), block=(128,), args=[x, Uninitialised(y), n])
        e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True))
        worst = max(worst, float(np.abs(y - e / e.sum(axis=1, keepdims=True)).max()))
    return worst


def run_ring(text: str, k: int = 200) -> float:
    x, y = normal(k, 64), np.zeros(64, np.float32)
    tensor = TensorMap(x, box=(32, 64), swizzle="128B")
    emulator(text).launch("ring", grid=(1,), block=(96,), args=[tensor, Uninitialised(y), k])
    return float(np.abs(y - x.astype(np.float64).sum(axis=0)).max())


def run_tile(text: str, dtype: Any = np.float16, k: int = 128) -> float:
    a, b, d = (
        normal(64, k, dtype=dtype),
        normal(k, 64, dtype=dtype, seed=1),
        np.zeros((64, 64), np.float32),
    )
    maps = [TensorMap(v, box=(64, 64), swizzle="128B") for v in (a, b)]
    with stated(accumulation(a, b, 0, element="f16", result="f32", depth=16)):
        emulator(text).launch("tile", grid=(1,), block=(128,), args=[*maps, Uninitialised(d), k])
    return float(np.abs(d - a.astype(np.float64) @ b.astype(np.float64)).max())


def run_split(text: str) -> float:
    k, n = 72, 64
    x, w, y = (
        normal(k, dtype=np.float32),
        normal(k, n, dtype=np.float32, seed=1),
        np.zeros(n, np.float32),
    )
    emulator(text).launch(
        "splitk", grid=(8,), block=(64,), cluster=(4,), args=[x, w, Uninitialised(y), k, n]
    )
    return float(np.abs(y - x.astype(np.float64) @ w.astype(np.float64)).max())


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 256), (100, 72, 40), (1, 8, 8), (130, 64, 96)])
def test_matmul(m: int, n: int, k: int) -> None:
    error, stats = run_matmul(matmul(), m, n, k)
    assert error < 5e-3
    assert stats.bank_conflicts == 0
    blocks = -(-m // 64) * -(-n // 64)
    assert stats.tensor_core_ops == blocks * 64 * 64 * -(-k // 32) * 32


def test_softmax() -> None:
    assert run_softmax(ptx.SOFTMAX) < 1e-3


@pytest.mark.parametrize("k", [32, 200, 256])
def test_tma_ring(k: int) -> None:
    assert run_ring(ptx.TMA_RING, k) < 1e-4


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("from_registers", [False, True])
def test_wgmma_tile(kind: str, from_registers: bool) -> None:
    dtype = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    assert run_tile(ptx.wgmma_tile(kind=kind, from_registers=from_registers), dtype) < 1e-5


def test_split_k_through_distributed_shared_memory() -> None:
    assert run_split(ptx.SPLIT_K) < 1e-5


MUTANTS: list[tuple[str, str, Callable[[str], float]]] = [
    *(("softmax", m, run_softmax) for m in ptx.marks(ptx.SOFTMAX)),
    *(("ring", m, run_ring) for m in ptx.marks(ptx.TMA_RING)),
    *(("tile", m, run_tile) for m in ptx.marks(ptx.wgmma_tile(from_registers=True))),
    *(("split", m, run_split) for m in ptx.marks(ptx.SPLIT_K)),
]
_TEXT = {
    "softmax": ptx.SOFTMAX,
    "ring": ptx.TMA_RING,
    "tile": ptx.wgmma_tile(from_registers=True),
    "split": ptx.SPLIT_K,
}


@pytest.mark.parametrize(("name", "mark", "run"), MUTANTS, ids=[f"{n}-{m}" for n, m, _ in MUTANTS])
def test_one_missing_line_is_caught(name: str, mark: str, run: Callable[[str], float]) -> None:
    """Either a check names it or the result is wrong; a swizzle only shows in the result."""
    try:
        error = run(ptx.broken(_TEXT[name], mark))
    except EmulatorError:
        return
    assert mark == "swizzle"
    assert error > 1e-2


@pytest.mark.parametrize("field", list(Broken.__dataclass_fields__))
def test_broken_matmul_is_caught(field: str) -> None:
    try:
        error, _ = run_matmul(matmul(Broken(**{field: True})), 100, 72, 72)
    except EmulatorError:
        assert not field.startswith("swizzle")
        return
    assert field.startswith("swizzle")
    assert error > 1
