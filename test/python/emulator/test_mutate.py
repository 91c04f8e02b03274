"""Mutants of hand-written kernels are noticed: by a check, or by a wrong result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulator_support import ptx_kernels as ptx
from emulator_support.ptx_matmul import matmul
from faults.ptx_mutants import Kind, mutants
from mirage.emulator import Emulator, EmulatorError, TensorMap, Uninitialised
from thorough import some_of


def _matmul(text: str) -> bool:
    m, n, k = 72, 72, 72
    generator = np.random.default_rng(0)
    a = generator.standard_normal((m, k)).astype(np.float16)
    b = generator.standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    Emulator(text).launch(
        "matmul", grid=(2, 2), block=(128,), args=[a, b, Uninitialised(c), m, n, k]
    )
    return bool(np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=0.1))


def _ring(text: str) -> bool:
    x = np.random.default_rng(0).standard_normal((100, 64)).astype(np.float16)
    y = np.zeros(64, np.float32)
    tensor = TensorMap(x, box=(32, 64), swizzle="128B")
    Emulator(text).launch("ring", grid=(1,), block=(96,), args=[tensor, Uninitialised(y), 100])
    return bool(np.allclose(y, x.astype(np.float64).sum(axis=0), atol=1e-3))


def _noticed(run: Callable[[str], bool], text: str) -> bool:
    try:
        return not run(text)
    except EmulatorError:
        return True


@pytest.mark.parametrize(
    ("run", "text", "kind", "least"),
    some_of(
        [
            (_matmul, matmul(), "barrier", 2),
            (_matmul, matmul(), "wait", 1),
            (_matmul, matmul(), "mask", 3),
            (_matmul, matmul(), "swizzle", 3),
            (_ring, ptx.TMA_RING, "barrier", 2),
            (_ring, ptx.TMA_RING, "wait", 3),
            (_ring, ptx.TMA_RING, "fence", 2),
            (_ring, ptx.TMA_RING, "swizzle", 1),
        ],
        every=3,
    ),
)
def test_mutants_are_noticed(run: Callable[[str], bool], text: str, kind: Kind, least: int) -> None:
    assert run(text)
    found = list(mutants(text, kind))
    if kind in ("mask", "swizzle"):
        found = found[:: max(1, len(found) // (2 * least))]  # many are similar: a sample is enough
    noticed = [m for m in found if _noticed(run, m.ptx)]
    assert len(noticed) >= least, [m.original for m in found if m not in noticed]
    if kind in ("barrier", "fence"):
        assert noticed == found


def test_mutants_say_where() -> None:
    text = "a;\nbar.sync 0;\n@%p1 st.global.b32 [%rd1], %r1;\n"
    (barrier,) = mutants(text, "barrier")
    assert (barrier.line, barrier.original, barrier.ptx.count("bar")) == (2, "bar.sync 0;", 0)
    (mask,) = mutants(text, "mask")
    assert mask.ptx.splitlines()[2] == "st.global.b32 [%rd1], %r1;"
