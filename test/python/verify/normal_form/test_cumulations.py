"""Kernels that take sums so far are proved; those that take others are not."""

from __future__ import annotations

import pytest
from example_programs import graphs
from example_programs.one_liners import function, kernel
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import Axis, KernelGraph
from mirage.verify import Kind, VerifyOptions, verify

QUICK = VerifyOptions(seed=1)
ROWS, COLUMNS = 8, 12


def program(fn: ReduceFn, exclusive: bool = False) -> KernelGraph:
    """``3 x`` so far, plus ``x``."""

    def build(b, x):
        scaled = b.binary(BinaryFn.MUL, x, b.constant(3.0))
        return b.binary(BinaryFn.ADD, b.cumulate(fn, scaled, 1, exclusive=exclusive), x)

    return function(build, graphs.tensor(ROWS, COLUMNS, dtype=DType.F32))


def in_blocks(
    fn: ReduceFn, exclusive: bool = False, turned: bool = False, parts: int = 1
) -> KernelGraph:
    """The factor comes after the sum; each row is cut into ``parts``."""

    def body(b, p):
        x = b.load(p, (("i",), ("j",) if parts > 1 else ()), (2, COLUMNS // parts))
        so_far = b.cumulate(fn, x, 1, exclusive=exclusive, reversed=turned)
        scaled = b.binary(BinaryFn.MUL, so_far, b.constant(3.0))
        return (b.binary(BinaryFn.ADD, scaled, x),)

    grid = (Axis("i", ROWS // 2), *([Axis("j", parts)] if parts > 1 else []))
    x = graphs.tensor(ROWS, COLUMNS, dtype=DType.F32)
    stores = [(("i",), ("j",) if parts > 1 else ())]
    return kernel((x,), grid, body, stores, [(ROWS, COLUMNS)])


@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_so_far_are_proved(exclusive: bool) -> None:
    found = verify(program(ReduceFn.SUM, exclusive), in_blocks(ReduceFn.SUM, exclusive), QUICK)
    assert found.kind is Kind.PROVED, found


@pytest.mark.parametrize(
    "candidate",
    [
        in_blocks(ReduceFn.SUM, exclusive=True),
        in_blocks(ReduceFn.SUM, turned=True),
        in_blocks(ReduceFn.SUM, parts=2),
        in_blocks(ReduceFn.MAX),
    ],
    ids=["before each one", "from the other end", "of half a row", "maxima"],
)
def test_other_sums_are_refuted(candidate: KernelGraph) -> None:
    found = verify(program(ReduceFn.SUM), candidate, QUICK)
    assert found.kind is Kind.REFUTED, found


def test_sums_are_those_of_choices_by_position() -> None:
    """A program without the op is equal as well: the op is read as what it means."""
    x = graphs.tensor(ROWS, COLUMNS, dtype=DType.F32)

    def differences(b, x):
        y = b.cumulate(ReduceFn.SUM, x, 1)
        later, earlier = (b.slice(y, (0, n), (ROWS, COLUMNS - 1)) for n in (1, 0))
        return b.binary(BinaryFn.SUB, later, earlier)

    parts = function(lambda b, x: b.slice(x, (0, 1), (ROWS, COLUMNS - 1)), x)
    assert verify(parts, function(differences, x), VerifyOptions(seed=1, numerics=False)).equivalent
