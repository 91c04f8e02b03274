"""Every fact in the table of scalar functions: against its float64 meaning, the enums of the
dialects, the facts that C++ uses, the lowering and PyTorch."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import (
    BINARY,
    UNARY,
    Algebra,
    BinaryFn,
    DType,
    RealDomain,
    ReduceFn,
    UnaryFn,
)
from mirage.semantics.ugraph import KernelGraph, TensorType, Value

ROOT = Path(__file__).parents[3]
TBLGEN = Path("/usr/lib/llvm-22/bin/llvm-tblgen")
TRUTHS = np.array([0.0, 1.0])
POINTS = np.array([-7.5, -1.0, -0.3, -1e-3, 0.0, 1e-3, 0.3, 1.0, 7.5])


def declared() -> dict[str, dict[str, dict[str, Any]]]:
    """The enums of ScalarOps.td: by enum and spelling, the record of the case."""
    dump = subprocess.run(
        [
            TBLGEN,
            "--dump-json",
            f"-I{TBLGEN.parents[1]}/include",
            ROOT / "include/mirage/Dialect/Common/ScalarOps.td",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    records = json.loads(dump.stdout)
    enums: dict[str, dict[str, dict[str, Any]]] = {}
    for kind in ("UnaryFn", "BinaryFn", "ReduceFn"):
        cases = [records[c["def"]] for c in records[f"Mirage_{kind}"]["enumerants"]]
        enums[kind] = {case["str"]: case for case in cases}
    return enums


DECLARED = declared()


@pytest.mark.parametrize("kind", [UnaryFn, BinaryFn, ReduceFn])
def test_enums_are_those_of_the_dialects(kind: type[UnaryFn | BinaryFn | ReduceFn]) -> None:
    cases = DECLARED[kind.__name__]
    assert {fn.value for fn in kind} == set(cases)
    assert [cases[fn.value]["value"] for fn in kind] == list(range(len(cases)))  # as in IR


def test_every_function_has_a_row() -> None:
    assert set(UNARY) == set(UnaryFn)
    assert set(BINARY) == set(BinaryFn)


def test_facts_in_cpp_are_those_of_the_rows() -> None:
    for fn, row in UNARY.items():
        case = DECLARED["UnaryFn"][fn.value]
        assert case["zeroAtZero"] == row.zero_at_zero, fn
        # One instruction, a few including one of the special-function unit, or a long polynomial.
        work = 20 if row.flops >= 8 else 1 if row.special == 0 and row.flops <= 1 else 4
        assert sum(bit << i for i, bit in enumerate(case["work"])) == work, fn
    for fn, info in BINARY.items():
        assert DECLARED["BinaryFn"][fn.value]["zeroAtZero"] == info.zero_at_zero, fn
        assert DECLARED["BinaryFn"][fn.value]["isTruth"] == info.truth, fn


def test_every_function_has_a_lowering() -> None:
    text = (ROOT / "lib/Conversion/ThreadToNVVM/ScalarFunctions.cpp").read_text()
    for kind in ("UnaryFn", "BinaryFn"):
        lowered = set(re.findall(rf"case {kind}::(\w+):", text))
        assert {case["symbol"] for case in DECLARED[kind].values()} == lowered


# ---- the facts of a row against its function


def values(fn: UnaryFn, points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return np.asarray(UNARY[fn].evaluate(points))


@pytest.mark.parametrize("fn", list(UnaryFn))
def test_zero_at_zero_and_domain(fn: UnaryFn) -> None:
    row = UNARY[fn]
    assert (values(fn, np.zeros(1))[0] == 0) == row.zero_at_zero
    defined = np.array([row.domain.contains(float(x)) for x in POINTS])
    assert (np.isfinite(values(fn, POINTS)) == defined).all()
    border = -1.0 if row.domain is RealDomain.ABOVE_MINUS_ONE else 0.0
    assert row.closed == bool(np.isfinite(values(fn, np.array([border]))).all())


@pytest.mark.parametrize("fn", list(UnaryFn))
def test_increasing(fn: UnaryFn) -> None:
    """Increasing, wherever it is defined."""
    points = np.array([x for x in np.linspace(-8, 8, 1001) if UNARY[fn].domain.contains(x)])
    grows = bool((np.diff(values(fn, points)) > 0).all())
    assert grows == UNARY[fn].increasing


@pytest.mark.parametrize("fn", list(UnaryFn))
def test_algebra_and_degree(fn: UnaryFn) -> None:
    row = UNARY[fn]
    assert (row.degree is not None) == (row.algebra is Algebra.RING)
    x = np.array([0.25, 0.5, 1.5])
    if row.degree is not None:  # a monomial, like all others so far
        np.testing.assert_allclose(values(fn, 2.0 * x), 2.0**row.degree * values(fn, x))
    if row.algebra is Algebra.FIELD:
        np.testing.assert_allclose(values(fn, x) * x, np.ones(3))
    if row.algebra is Algebra.EXP:
        np.testing.assert_allclose(values(fn, x + 1.0), values(fn, x) * values(fn, np.ones(1)))


@pytest.mark.parametrize("fn", [fn for fn in UnaryFn if UNARY[fn].definition])
def test_definitions(fn: UnaryFn) -> None:
    row = UNARY[fn]
    assert row.definition is not None
    points = np.array([x for x in POINTS if row.domain.contains(float(x))])
    x, b = Value(TensorType(points.shape, DType.F64)), Builder()
    y = row.definition(b, x)
    (result,) = evaluate_floats(KernelGraph("g", (x,), tuple(b.ops), (y,)), [points])
    np.testing.assert_allclose(result, values(fn, points), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("fn", list(BinaryFn))
def test_binary_facts(fn: BinaryFn) -> None:
    row = BINARY[fn]
    a, b = (g.ravel() for g in np.meshgrid(POINTS, POINTS))
    zero = np.zeros_like(POINTS)
    with np.errstate(all="ignore"):
        y = row.evaluate(a, b)
        assert np.array_equal(y, row.evaluate(b, a), equal_nan=True) == row.commutes
        assert bool(np.isfinite(y).all()) == row.total
        assert (row.evaluate(zero, zero) == 0).all() == row.zero_at_zero
        either = (row.evaluate(zero, POINTS) == 0).all() and (row.evaluate(POINTS, zero) == 0).all()
        assert bool(either) == row.zero_at_either


def _call(call: tuple[str, tuple[tuple[str, object], ...]], *tensors: Any) -> Any:
    import torch

    name, overload = call[0].split(".")
    arguments = {
        key: getattr(torch, TORCH_NAMES[what[1]]) if isinstance(what, tuple) else what
        for key, what in call[1]
    }
    return getattr(getattr(torch.ops.aten, name), overload)(*tensors, **arguments)


@pytest.mark.parametrize("fn", list(UnaryFn))
def test_pytorch_computes_the_same(fn: UnaryFn) -> None:
    import torch

    points = TRUTHS if UNARY[fn].logic else POINTS
    result = _call(UNARY[fn].call, torch.from_numpy(points)).double().numpy()
    np.testing.assert_allclose(result, values(fn, points), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("fn", [UnaryFn.SIGMOID, UnaryFn.SILU, UnaryFn.TANH, UnaryFn.EXP])
def test_small_results_have_the_digits_that_pytorch_gives_them(fn: UnaryFn) -> None:
    import torch

    points = np.linspace(-80.0, -4.0, 50, dtype=np.float32)
    result = _call(UNARY[fn].call, torch.from_numpy(points)).numpy()
    np.testing.assert_allclose(UNARY[fn].evaluate(points), result, rtol=1e-6)


@pytest.mark.parametrize("fn", list(BinaryFn))
def test_pytorch_computes_the_same_of_two(fn: BinaryFn) -> None:
    import torch

    a, b = np.abs(POINTS) + 0.5, POINTS[::-1].copy() + 0.25
    if BINARY[fn].logic:
        a, b = (x.ravel() for x in np.meshgrid(TRUTHS, TRUTHS))
    first: Any = torch.from_numpy(a)
    if fn is BinaryFn.KEEP:  # of a truth value and a number
        a = np.resize(TRUTHS, b.shape)
        first = torch.from_numpy(a).bool()
    result = _call(BINARY[fn].call, first, torch.from_numpy(b)).double().numpy()
    np.testing.assert_allclose(result, BINARY[fn].evaluate(a, b), rtol=1e-12)


@pytest.mark.parametrize("fn", [fn for fn in BinaryFn if BINARY[fn].truth])
def test_truth_values_are_zero_and_one(fn: BinaryFn) -> None:
    a, b = (g.ravel() for g in np.meshgrid(POINTS, POINTS))
    assert set(BINARY[fn].evaluate(a, b)) <= {0.0, 1.0}
    x, y, builder = *(Value(TensorType((2,), DType.F32)) for _ in "ab"), Builder()
    assert builder.binary(fn, x, y).dtype is DType.I1
    assert Builder(in_block=True).binary(fn, x, y).dtype is DType.F32


def test_what_a_mask_keeps_may_be_next_to_anything() -> None:
    mask, x = np.array([1.0, 0.0, 0.0, 1.0]), np.array([2.0, np.nan, -np.inf, np.inf])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(BINARY[BinaryFn.KEEP].evaluate(mask, x), [2, 0, 0, np.inf])
        np.testing.assert_array_equal(
            UNARY[UnaryFn.BIAS].evaluate(np.array([1.0, 0.0])), [0, -np.inf]
        )
