"""Values that cancel over the real numbers but may be NaN, and elements that are divided."""

from __future__ import annotations

import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200
from mirage.search import SearchLimits, SearchReport, superoptimize
from mirage.search.kernel.solver import KernelSolver
from mirage.search.program.parts import Program
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Binary, KernelGraph, TensorType, Unary, Value, all_ops
from mirage.verify import VerifyOptions, verify

LIMITS = SearchLimits(columns=200, plans=20)


def centred(*, per_row: bool) -> KernelGraph:
    """The sum of two tensors minus the mean of its rows, or minus a different number for each
    row."""
    b, x, y = Builder(), tensor("x", 32, 64), tensor("y", *((32, 1) if per_row else (32, 64)))
    both = b.binary(BinaryFn.ADD, x, y)
    mean = b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, both, (1,)), b.constant(1 / 64))
    return graph("centred", (x, y), b, b.binary(BinaryFn.SUB, both, mean))


def solved(program: KernelGraph) -> tuple[int, list[str]]:
    """Return the number of ways to compute it in one kernel, and the search's remarks."""
    report = SearchReport()
    region = Program(program, H200, SearchReport()).region(program.outputs, ())
    return len(KernelSolver(H200, LIMITS, report).solve(region.problem())), report.notes


def test_no_kernel_is_built_that_loses_an_input() -> None:
    assert solved(centred(per_row=False))[0]
    ways, notes = solved(centred(per_row=True))
    assert not ways
    assert any("y cancels" in note for note in notes)


@pytest.mark.parametrize("per_row", [False, True])
def test_candidates_keep_what_is_no_number(per_row: bool) -> None:
    """The sum is stored, and the stored values are used. (Digits that the rounding of the sum loses
    may matter if the mean cancels the rest, which is a different question.)"""
    program = centred(per_row=per_row)
    found = superoptimize(program, H200, LIMITS).candidates
    assert found
    for candidate in found[:2]:
        verdict = verify(program, candidate.graph, VerifyOptions(seed=3))
        assert verdict.equivalent
        (roundings,) = (e for e in verdict.evidence if e.name == "rounding errors")
        held = {name: holds for name, *_, holds in roundings.figures["situations"]}
        assert all(held[f"a NaN in input {i}"] for i in (0, 1))


def differences() -> KernelGraph:
    """``x * (y + z) - x * z``: the terms cancel only if it is multiplied out."""
    b, x, y, z = Builder(), *(tensor(n, 32, 64) for n in "xyz")
    first = b.binary(BinaryFn.MUL, x, b.binary(BinaryFn.ADD, y, z))
    return graph("apart", (x, y, z), b, b.binary(BinaryFn.SUB, first, b.binary(BinaryFn.MUL, x, z)))


def test_what_cancels_where_it_is_multiplied_out_is_not_multiplied_out() -> None:
    program = differences()
    found = superoptimize(program, H200, LIMITS).candidates
    assert found
    for candidate in found[:2]:
        assert verify(program, candidate.graph, VerifyOptions(seed=3)).accepted


def quotient(fn: BinaryFn, terms: int, dtype: DType) -> KernelGraph:
    """Sums of elements over (or times) one plus other elements."""
    b, xs = Builder(), [tensor(f"x{i}", 32, 64) for i in range(terms)]
    n = Value(TensorType((64,), dtype), "n")
    total = xs[0]
    for x in xs[1:]:
        total = b.binary(BinaryFn.ADD, total, x)
    below = b.binary(BinaryFn.MAX, b.cast(n, DType.F32), b.constant(1.0))
    return graph("quotient", (*xs, n), b, b.binary(fn, b.cast(total, DType.F32), below))


@pytest.mark.parametrize("terms", [1, 3])
def test_elements_are_divided_by_counts(terms: int) -> None:
    """They are not multiplied by a rounded reciprocal; elements may be multiplied by those of other
    numbers."""

    def functions(program: KernelGraph) -> set[object]:
        found = superoptimize(program, H200, LIMITS).candidates[0].graph
        ops = all_ops(found.ops)
        return {op.fn for op in ops if isinstance(op, Unary | Binary)}

    used = functions(quotient(BinaryFn.DIV, terms, DType.I64))
    assert BinaryFn.DIV in used
    assert UnaryFn.RECIPROCAL not in used
    assert BinaryFn.DIV not in functions(quotient(BinaryFn.MUL, terms, DType.I64))
    assert UnaryFn.RECIPROCAL in functions(quotient(BinaryFn.DIV, terms, DType.F32))


def test_a_row_is_divided_by_its_sum_once() -> None:
    """The inverse of a sum is computed once for all elements of the row."""
    b, x = Builder(), tensor("x", 32, 64)
    e = b.unary(UnaryFn.EXP, x)
    program = graph("rows", (x,), b, b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,))))
    found = superoptimize(program, H200, LIMITS).candidates[0].graph
    assert any(getattr(op, "fn", None) is UnaryFn.RECIPROCAL for op in all_ops(found.ops))
