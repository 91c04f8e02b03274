"""Kernels with the same running sums, maxima or products are proved; those with others are not."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import graphs
from example_programs.one_liners import function, kernel
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ops.cumulation import Cumulate
from mirage.semantics.scalar import BinaryFn, CumulateFn, DType
from mirage.semantics.ugraph import Axis, KernelGraph
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.normal_form.cumulations import as_choices

QUICK = VerifyOptions(seed=1)
ROWS, COLUMNS = 8, 12


def program(fn: CumulateFn, exclusive: bool = False) -> KernelGraph:
    """The running sum of ``3 x``, plus ``x``."""

    def build(b, x):
        scaled = b.binary(BinaryFn.MUL, x, b.constant(3.0))
        return b.binary(BinaryFn.ADD, b.cumulate(fn, scaled, 1, exclusive=exclusive), x)

    return function(build, graphs.tensor(ROWS, COLUMNS, dtype=DType.F32))


def in_blocks(
    fn: CumulateFn,
    exclusive: bool = False,
    turned: bool = False,
    parts: int = 1,
    *,
    late: bool = True,
    factor: float = 3.0,
) -> KernelGraph:
    """The factor comes after the sum (or before it unless ``late``); each row is cut into
    ``parts``."""

    def body(b, p):
        x = b.load(p, (("i",), ("j",) if parts > 1 else ()), (2, COLUMNS // parts))
        first = x if late else b.binary(BinaryFn.MUL, b.constant(factor), x)
        y = b.cumulate(fn, first, 1, exclusive=exclusive, reversed=turned)
        scaled = b.binary(BinaryFn.MUL, y, b.constant(factor)) if late else y
        return (b.binary(BinaryFn.ADD, scaled, x),)

    grid = (Axis("i", ROWS // 2), *([Axis("j", parts)] if parts > 1 else []))
    x = graphs.tensor(ROWS, COLUMNS, dtype=DType.F32)
    stores = [(("i",), ("j",) if parts > 1 else ())]
    return kernel((x,), grid, body, stores, [(ROWS, COLUMNS)])


@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_so_far_are_proved(exclusive: bool) -> None:
    found = verify(program(CumulateFn.SUM, exclusive), in_blocks(CumulateFn.SUM, exclusive), QUICK)
    assert found.kind is Kind.PROVED, found


@pytest.mark.parametrize(
    "candidate",
    [
        in_blocks(CumulateFn.SUM, exclusive=True),
        in_blocks(CumulateFn.SUM, turned=True),
        in_blocks(CumulateFn.SUM, parts=2),
        in_blocks(CumulateFn.MAX),
    ],
    ids=["before each one", "from the other end", "of half a row", "maxima"],
)
def test_other_sums_are_refuted(candidate: KernelGraph) -> None:
    found = verify(program(CumulateFn.SUM), candidate, QUICK)
    assert found.kind is Kind.REFUTED, found


@pytest.mark.parametrize("exclusive", [False, True])
def test_products_so_far_are_proved(exclusive: bool) -> None:
    candidate = in_blocks(CumulateFn.PROD, exclusive, late=False)
    found = verify(program(CumulateFn.PROD, exclusive), candidate, QUICK)
    assert found.kind is Kind.PROVED, found


@pytest.mark.parametrize(
    "candidate",
    [
        in_blocks(CumulateFn.PROD),  # a factor of each element is not a factor of the product
        in_blocks(CumulateFn.PROD, exclusive=True, late=False),
        in_blocks(CumulateFn.PROD, turned=True, late=False),
        in_blocks(CumulateFn.PROD, parts=2, late=False),
        in_blocks(CumulateFn.PROD, late=False, factor=-3.0),
        in_blocks(CumulateFn.SUM, late=False),
        in_blocks(CumulateFn.MAX, late=False),
    ],
    ids=["factor", "before each one", "other end", "half a row", "sign", "sums", "maxima"],
)
def test_other_products_are_refuted(candidate: KernelGraph) -> None:
    found = verify(program(CumulateFn.PROD), candidate, QUICK)
    assert found.kind is Kind.REFUTED, found


def test_sums_are_those_of_choices_by_position() -> None:
    """A program without the op is found equal as well: the op is read as its meaning."""
    x = graphs.tensor(ROWS, COLUMNS, dtype=DType.F32)

    def differences(b, x):
        y = b.cumulate(CumulateFn.SUM, x, 1)
        later, earlier = (b.slice(y, (0, n), (ROWS, COLUMNS - 1)) for n in (1, 0))
        return b.binary(BinaryFn.SUB, later, earlier)

    parts = function(lambda b, x: b.slice(x, (0, 1), (ROWS, COLUMNS - 1)), x)
    assert verify(parts, function(differences, x), VerifyOptions(seed=1, numerics=False)).equivalent


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(4, 7), (3, 1), (9,)])
def test_products_in_steps(shape: tuple[int, ...], turned: bool, exclusive: bool) -> None:
    graph = function(
        lambda b, x: b.cumulate(
            CumulateFn.PROD, x, len(shape) - 1, exclusive=exclusive, reversed=turned
        ),
        graphs.tensor(*shape, dtype=DType.F32),
    )
    written = as_choices(graph)
    assert not any(isinstance(op, Cumulate) for op in written.ops)
    x = np.random.default_rng(0).normal(size=shape)
    (want,), (got,) = (evaluate_floats(g, [x]) for g in (graph, written))
    np.testing.assert_allclose(got, want, rtol=1e-12)
