"""Axes that end at positions that are read when a kernel runs."""

from __future__ import annotations

import pytest
from mirage.cost.target import H200
from mirage.frontend.kernel_graph import new_kernel_graph
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.kernel.problems.read_lengths import read_lengths
from mirage.search.limits import SearchReport
from mirage.search.program.parts import Program
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn, DType


def masked_sums(
    lengths: tuple[int, ...], keys: int = 96, fn: BinaryFn = BinaryFn.LT
) -> KernelProblem:
    """Sums of the first elements of eight rows."""
    graph = new_kernel_graph("sums")
    x = graph.new_input((8, keys), DType.F16, name="x")
    read = graph.new_input(lengths, DType.I64, name="lengths")
    seen = graph.binary(fn, graph.iota(keys), read)
    graph.mark_output(graph.sum(x * graph.cast(seen, x.dtype), 1))
    program = Program(decompose(graph.build()), H200, SearchReport())
    return program.region(program.graph.outputs, ()).problem()


def test_lengths_of_rows() -> None:
    """The longest of eight evenly distributed lengths is expected at 8/9 of the axis."""
    problem = masked_sums((8, 1))
    ((axis, longest),) = read_lengths(problem)
    assert problem.table.sizes[axis] == 96
    assert longest == pytest.approx(16 / 9)


@pytest.mark.parametrize(("lengths", "fn"), [((1, 1), BinaryFn.LT), ((8, 1), BinaryFn.ADD)])
def test_what_is_the_same_for_all_rows_or_no_comparison(
    lengths: tuple[int, ...], fn: BinaryFn
) -> None:
    assert read_lengths(masked_sums(lengths, fn=fn)) == ()
