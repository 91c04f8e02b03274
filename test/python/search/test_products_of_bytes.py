"""Products of 8-bit floats as a choice of the search."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.cost.features import features_of
from mirage.cost.target import A100, H200
from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder, new_kernel_graph
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.problems.narrowing import multiplied_only
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.limits import SearchLimits
from mirage.search.superoptimize import superoptimize
from mirage.semantics.check import check_graph
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, launches
from thorough import some_of

FAST = SearchLimits(candidates=3, columns=1500)
Program = Callable[[GraphBuilder, Tensor, Tensor], Tensor]


def program(
    build: Program, n: int = 1024, types: tuple[DType, DType] = (DType.F8E4M3, DType.F8E4M3)
) -> KernelGraph:
    g = new_kernel_graph("g")
    a, b = (g.new_input((n, n), t, name=name) for name, t in zip("ab", types, strict=True))
    g.mark_output(build(g, a, b))
    return g.build()


def by_rows(g: GraphBuilder, a: Tensor, b: Tensor) -> Tensor:
    return a @ g.transpose(b)


def cast_before(g: GraphBuilder, a: Tensor, b: Tensor) -> Tensor:
    return g.cast(a, DType.F32) @ g.transpose(g.cast(b, DType.F32))


def half_cast(g: GraphBuilder, a: Tensor, b: Tensor) -> Tensor:
    return g.cast(a, DType.F16) @ g.transpose(b)


def also_summed(g: GraphBuilder, a: Tensor, b: Tensor) -> Tensor:
    return by_rows(g, a, b) + g.sum(g.cast(a, DType.F32), 1)


PROGRAMS: dict[str, tuple[Program, frozenset[int]]] = {
    "rows": (by_rows, frozenset({0, 1})),
    "a view": (lambda g, a, b: g.transpose(a) @ b, frozenset({0, 1})),
    "casts": (cast_before, frozenset()),
    "a sum beside it": (also_summed, frozenset({1})),
    "not multiplied": (lambda g, a, b: g.cast(a, DType.F32) + g.cast(b, DType.F32), frozenset()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_multiplied_only(name: str) -> None:
    build, expected = PROGRAMS[name]
    graph = program(build, 64)
    definitions = {r: op for op in graph.ops for r in op.results}
    problem = KernelProblem(graph.outputs, graph.inputs, definitions, AxisTable.of(graph))
    assert multiplied_only(problem) == expected


def test_sixteen_bits_are_none_of_them() -> None:
    graph = program(by_rows, 64, (DType.F16, DType.F16))
    definitions = {r: op for op in graph.ops for r in op.results}
    problem = KernelProblem(graph.outputs, graph.inputs, definitions, AxisTable.of(graph))
    assert multiplied_only(problem) == frozenset()


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=2))
def test_every_program_has_kernels(name: str) -> None:
    for candidate in superoptimize(program(PROGRAMS[name][0], 256), H200, FAST).candidates:
        check_graph(candidate.graph)


@pytest.mark.parametrize(
    ("build", "types", "expected"),
    [
        (by_rows, (DType.F8E4M3, DType.F8E4M3), True),
        (by_rows, (DType.F8E4M3, DType.F8E5M2), True),
        (half_cast, (DType.F8E4M3, DType.F16), False),
        (lambda g, a, b: a @ b, (DType.F8E4M3, DType.F8E4M3), False),
        (cast_before, (DType.F8E4M3, DType.F8E4M3), False),
    ],
)
def test_warpgroups_multiply_where_the_program_lets_them(
    build: Program, types: tuple[DType, DType], expected: bool
) -> None:
    """Not if the program requires sums in f32, or if rows of a factor do not run along K."""
    graph = superoptimize(program(build, 1024, types), H200, FAST).candidates[0].graph
    assert any(launch.schedule.warpgroups for launch in launches(graph.ops)) == expected


def test_chips_without_them_convert() -> None:
    graph = superoptimize(program(by_rows), A100, FAST).candidates[0].graph
    (launch,) = launches(graph.ops)
    assert not launch.schedule.warpgroups
    assert features_of(launch).mma_step > 0  # as f16, not as f32


def test_bytes_are_multiplied_in_half_the_time() -> None:
    def time(dtype: DType) -> float:
        found = superoptimize(program(by_rows, 4096, (dtype, dtype)), H200, FAST)
        return found.candidates[0].cost.time

    assert 1.5 < time(DType.F16) / time(DType.F8E4M3) < 2.2


def test_tiles_of_256_columns_are_chosen_at_both_sizes() -> None:
    """At 8192, tiles of 128 x 192 take 965 µs on an H200, and these take 898 in blocks that
    continue with another tile."""

    def columns(n: int) -> int:
        graph = program(lambda g, a, b: g.cast(by_rows(g, a, b), DType.BF16), n)
        found = superoptimize(graph, H200, SearchLimits(candidates=3))
        (launch,) = launches(found.candidates[0].graph.ops)
        assert launch.schedule.resident == H200.sms
        return max(output.value.shape[-1] for output in launch.body.outputs)

    assert columns(8192) == 256
    assert columns(4096) == 256
