"""The oracle's functions in NumPy have the same meaning as PyTorch's, and it runs without
PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[4] / "benchmarks"))

import attack
from oracle import scalar
from oracle import torch_in_numpy as ours

NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.3,
    -2.5,
    7.0,
    -7.0,
    88.0,
    -88.0,
    1e4,
    -1e4,
    np.inf,
    -np.inf,
    np.nan,
]

WRONG = ("different", "undefined")  # the error of a mutant depends on single roundings


def same(x: Any, y: Any, error: float, beside: float = 0.0) -> None:
    """Relative errors are measured ``beside`` a number of this size."""
    np.testing.assert_allclose(np.asarray(x), y.numpy(), rtol=error, atol=error * max(beside, 1e-3))


@pytest.fixture
def in_numpy(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The oracle's tables of functions, made with ours."""
    source = Path(scalar.__file__).read_text().replace("from oracle.pytorch import torch", "")
    names: dict[str, Any] = {"torch": ours, "__name__": "oracle_scalar_in_numpy"}
    exec(compile(source, "scalar", "exec"), names)
    return names


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_scalars(in_numpy: dict[str, Any], dtype: str) -> None:
    error = 1e-6 if dtype == "float32" else 1e-14
    x = np.array(NUMBERS, dtype)
    a, b = np.broadcast_arrays(x[:, None], x)
    a, b = a.copy(), b.copy()
    for name, function in in_numpy["UNARY"].items():
        given = np.abs(x) if name in ("sqrt", "rsqrt", "log") else x
        if name == "gelu":  # for infinity PyTorch gives NaN or infinity, depending on the processor
            given = x[np.isfinite(x)]
        beside = 10.0 if "gelu" in name else 0.0  # digits of 1 + erf(x) cancel
        same(
            function(ours.from_numpy(given)),
            scalar.UNARY[name](torch.from_numpy(given)),
            error,
            beside,
        )
    for name, function in in_numpy["BINARY"].items():
        if name == "floor_div":  # for infinity the results differ, but it is not used
            a, b = (
                np.where(np.isinf(a), 3.0, a).astype(dtype),
                np.where(np.isinf(b), 2.0, b).astype(dtype),
            )
        expected = scalar.BINARY[name](torch.from_numpy(a), torch.from_numpy(b))
        same(function(ours.from_numpy(a), ours.from_numpy(b)), expected, error)


def test_roundings(in_numpy: dict[str, Any]) -> None:
    x = np.concatenate(
        [np.random.default_rng(0).normal(size=1000) * 2.0**k for k in range(-30, 20)]
    )
    from mirage.semantics.scalar import DType

    for dtype in (DType.F16, DType.BF16, DType.F32, DType.F64):
        found = in_numpy["rounded"](ours.from_numpy(x), dtype)
        expected = scalar.rounded(torch.from_numpy(x), dtype)
        assert np.array_equal(found.numpy(), expected.numpy())
        assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")


def test_tensors() -> None:
    x = np.random.default_rng(1).normal(size=(3, 4, 5))
    x[1, 2, 3] = np.nan

    def results(lib: Any) -> list[Any]:
        t = lib.from_numpy(x)
        whole = lib.from_numpy(np.where(np.isnan(x), 0.0, x))
        return [
            t.isfinite(),
            t.isnan().any(1),
            t.isnan().any(),
            t.abs() < 0.5,
            ~t.isfinite() & (t > 0),
            whole.sum((0, 2), keepdim=True),
            whole.sum(1),
            whole.mean((-1,), keepdim=True),
            whole.amax((1,), keepdim=True),
            whole.amax(1, keepdim=True).clamp(min=0.5),
            whole.mean().sqrt(),
            t.permute((2, 0, 1)),
            t.reshape(-1)[4:9],
            t[1:2, :, 0:1].expand((3, 4, 2)),
            t.isnan().nonzero(),
            lib.softmax(whole, 1),
            lib.matmul(whole, whole.permute((0, 2, 1))),
            lib.cat([t, t], 1),
            lib.arange(2, 7),
            lib.arange(4, dtype=lib.float64).reshape((-1, 1)),
            lib.zeros((), dtype=lib.int64),
            lib.full((2,), lib.nan, dtype=lib.float32),
            lib.zeros((2,), dtype=lib.bool),
            lib.tensor(2.5, dtype=lib.float64),
            whole.to(lib.float32).to(lib.bfloat16).to(lib.float32),
            lib.full_like(t, 3.0)[t.isnan()],
        ]

    for found, expected in zip(results(ours), results(torch), strict=True):
        assert isinstance(found, ours.Tensor)
        assert found.shape == tuple(expected.shape)
        assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")
        same(found.astype(np.float64), expected.to(torch.float64), 1e-12)


@pytest.mark.thorough
def test_an_attack_needs_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in an interpreter without PyTorch; its verdicts are those of this one, which has it."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('torch is not here')\n")
    arguments = ["--count", "4", "--variants", "1", "--processes", "1", "--seed", "5"]

    def command(name: str) -> list[str]:
        return [attack.__file__, "run", "--out", str(tmp_path / name), *arguments]

    def counts(name: str) -> list[Any]:
        outcomes = json.loads((tmp_path / name).read_text())["outcomes"]
        return sorted(
            (o["key"], o["finding"] in WRONG, o["verdict"], o["accepted"]) for o in outcomes
        )

    path = os.pathsep.join(filter(None, (str(tmp_path), *sys.path)))
    done = subprocess.run(
        [sys.executable, *command("without.json")],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert (tmp_path / "without.json").exists(), done.stderr
    monkeypatch.setattr(sys, "argv", command("with.json"))
    attack.main()
    assert counts("without.json") == counts("with.json")
    assert len(counts("with.json")) >= 4
