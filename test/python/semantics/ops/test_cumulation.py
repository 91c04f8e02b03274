"""Running sums, maxima and products: their meaning in each arithmetic, and in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from example_programs import graphs
from example_programs.one_liners import function
from mirage.semantics.domain import Float64, TypedFloat
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import CumulateFn, DType
from mirage.semantics.ugraph import External
from mirage.transforms.partition.calls import as_calls

REDUCE = {
    CumulateFn.SUM: (np.add.reduce, 0.0),
    CumulateFn.MAX: (np.maximum.reduce, -np.inf),
    CumulateFn.PROD: (np.multiply.reduce, 1.0),
}
"""The number of reduced elements, and the result of none."""
WAYS = [(e, r) for e in (False, True) for r in (False, True)]


def expected(fn: CumulateFn, x: np.ndarray, dim: int, exclusive: bool, turned: bool) -> np.ndarray:
    """Element by element."""
    rows = np.moveaxis(x, dim, -1)
    found = np.empty_like(rows)
    for i in range(rows.shape[-1]):
        part = rows[..., i + exclusive :] if turned else rows[..., : i + 1 - exclusive]
        reduce, nothing = REDUCE[fn]
        found[..., i] = reduce(part, axis=-1, initial=nothing)
    return np.moveaxis(found, -1, dim)


@pytest.mark.parametrize(("exclusive", "turned"), WAYS)
@pytest.mark.parametrize("fn", CumulateFn)
def test_meaning_and_calls(fn: CumulateFn, exclusive: bool, turned: bool) -> None:
    for shape, dim in (((3, 7, 2), 1), ((5,), 0), ((2, 9), -1), ((4, 1), 1)):
        graph = function(
            lambda b, x, dim=dim: b.cumulate(fn, x, dim, exclusive=exclusive, reversed=turned),
            graphs.tensor(*shape, dtype=DType.F32),
        )
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        want = expected(fn, x.astype(np.float64), dim, exclusive, turned)
        for domain in (Float64(), TypedFloat()):
            (got,) = evaluate_floats(graph, [x], domain)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
        value: object = torch.from_numpy(x)
        for call in as_calls(graph).ops:
            assert isinstance(call, External)
            name, overload = call.target.removeprefix("aten.").split(".")
            found = getattr(getattr(torch.ops.aten, name), overload)(
                value, **{k: torch.float32 if k == "dtype" and v else v for k, v in call.arguments}
            )
            value = found[0] if isinstance(found, tuple) else found
        torch.testing.assert_close(value, torch.from_numpy(want).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("exclusive", "turned"), WAYS)
@pytest.mark.parametrize("count", [8, 15, 16, 64, 600, 1025])
def test_groups_of_neighbours(count: int, exclusive: bool, turned: bool) -> None:
    """Every number of whole groups, and of the remaining elements."""
    x = np.random.default_rng(0).integers(-9, 9, (2, count, 3)).astype(np.float64)
    graph = function(
        lambda b, x: b.cumulate(CumulateFn.SUM, x, 1, exclusive=exclusive, reversed=turned),
        graphs.tensor(2, count, 3, dtype=DType.F32),
    )
    for domain in (Float64(), TypedFloat()):
        (got,) = evaluate_floats(graph, [x], domain)
        np.testing.assert_array_equal(got, expected(CumulateFn.SUM, x, 1, exclusive, turned))
