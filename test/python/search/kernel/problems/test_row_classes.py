"""Factors whose rows start at any element, in classes of rows for which boxes are shifted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_programs.search_programs import graph, matmul, tensor
from lowering import check_graph as check_lowering
from lowering import compile_graph
from mirage.cost import A100, H200
from mirage.runtime.serialization.artifact import Artifact
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.loop_nests.problem_axes import Analysis, analyze
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.kernel.problems.turned import turned_copy
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchReport
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import KernelGraph, Launch, launches
from mirage.verify import VerifyOptions, verify
from mirage.verify.verdict import Kind
from mirage.workloads.products import linear_layer


def problem_of(program: KernelGraph) -> KernelProblem:
    plain = decompose(program)
    definitions = {r: op for op in plain.ops for r in op.results}
    return KernelProblem(plain.outputs, plain.inputs, definitions, AxisTable.of(plain))


def ptx_files(artifact: Artifact) -> list[bytes]:
    return [artifact.files[module.ptx] for module in artifact.manifest.modules]


def shifted(program: KernelGraph) -> list[Analysis]:
    return [a for a in analyze(problem_of(program), shifts=True) if a.shifted is not None]


def linear(m: int, n: int, k: int) -> KernelGraph:
    x, w, b = tensor("x", m, k), tensor("w", n, k), Builder()
    return graph("linear", (x, w), b, b.matmul(x, b.transpose(w, (1, 0))))


@pytest.mark.parametrize(
    ("program", "classes"),
    [
        (matmul(64, 67, 72), 8),
        (matmul(64, 66, 72), 4),
        (matmul(66, 68, 72), 2),
        # aligned; rows that are not whole groups; only the other factor's rows
        (matmul(64, 72, 72), 0),
        (matmul(65, 67, 72), 0),
        (matmul(64, 72, 67), 0),
        (linear(72, 64, 67), 8),
    ],
)
def test_rows_are_cut_into_classes(program: KernelGraph, classes: int) -> None:
    found = shifted(program)
    assert len(found) == (classes > 0)
    for analysis in found:
        assert analysis.classes == classes
        number = analysis.shifted
        assert number is not None
        viewed = analysis.problem.leaves[number]
        assert viewed.shape[-2] == classes
        assert viewed.shape[-1] * classes * viewed.dtype.bytes % 16 == 0


def test_the_smaller_of_two_factors_is_turned() -> None:
    assert not [*shifted(linear(24, 64, 67))]  # few rows take less time without warpgroups
    (analysis,) = shifted(linear(56, 64, 67))
    (turned,) = launches(analysis.before)
    assert [v.shape for v in turned.operands] == [(56, 67)]
    assert [v.shape for v in turned.results] == [(67, 64)]
    (analysis,) = shifted(linear(128, 64, 67))
    (turned,) = launches(analysis.before)
    assert [v.shape for v in turned.operands] == [(64, 67)]


def test_a_factor_that_is_not_contracted_along_its_rows_is_copied() -> None:
    (analysis,) = shifted(matmul(64, 67, 69))
    (copied,) = launches(analysis.before)
    assert [v.shape for v in copied.operands] == [(67, 69)]


@pytest.mark.parametrize("shape", [(24, 67), (64, 131), (130, 259), (3, 40, 67)])
def test_turned_copies(shape: tuple[int, ...]) -> None:
    x = tensor("x", *shape)
    launch = turned_copy(x)
    program = KernelGraph("turn", (x,), (launch,), launch.results)
    check_graph(program)
    values: Any = np.random.default_rng(0).standard_normal(shape)
    (found,) = evaluate_floats(program, [values])
    np.testing.assert_array_equal(found[..., : shape[-2]], np.swapaxes(values, -1, -2))
    assert not found[..., shape[-2] :].any()
    check_lowering(program)


@pytest.mark.parametrize(
    "program", [matmul(512, 197, 128), linear(128, 512, 131), linear(56, 512, 70)]
)
def test_kernels_compute_the_program(program: KernelGraph) -> None:
    """The cheapest candidate with shifted boxes: evaluated, verified, and run with all checks."""
    solver = KernelSolver(H200, SearchLimits(), SearchReport())
    pick = next(
        p
        for p in solver.solve(problem_of(program))
        if p.draft is not None and p.draft.analysis.shifted is not None
    )
    solution = solver.write(pick)
    assert solution is not None
    assert solution.cost.time == pytest.approx(pick.time, rel=0.1)
    plain = decompose(program)
    found = KernelGraph("found", plain.inputs, solution.ops, plain.outputs)
    check_graph(found)
    assert verify(program, found, VerifyOptions(draws=1)).kind in (Kind.PROVED, Kind.PROBABLE)
    assert any("wgmma.mma_async" in text.decode() for text in ptx_files(compile_graph(found)))
    check_lowering(found)


def test_a_limit_of_classes_is_reported() -> None:
    program = matmul(1024, 1023, 1024)
    found = superoptimize(program, H200, SearchLimits(candidates=2, row_classes=7))
    assert not any(is_cut(k) for c in found.candidates for k in launches(c.graph.ops))
    assert "row_classes" in found.report.limits
    found = superoptimize(program, H200, SearchLimits(candidates=2, row_classes=8))
    assert "row_classes" not in found.report.limits


def kernels(program: KernelGraph, chip: Any = H200) -> list[Launch]:
    found = superoptimize(program, chip, SearchLimits(candidates=2))
    return list(launches(found.candidates[0].graph.ops))


def is_cut(launch: Launch) -> bool:
    return launch.schedule.warpgroups and any(len(v.shape) == 3 for v in launch.operands)


@pytest.mark.parametrize(
    ("program", "shifts", "before"),
    [
        (matmul(1024, 1023, 1024), True, 0),  # 6.5 us with shifted boxes, 7.9 with a copy before
        (matmul(4096, 4095, 4096), True, 0),  # 225 and 235
        (linear_layer("l", 16, 4096, 4095).graph(), False, 0),  # 17.6, and 15.8 by warps
        (linear_layer("l", 256, 4096, 4095).graph(), True, 1),  # 29.3 and 47.3
        (linear_layer("l", 2048, 4096, 4095).graph(), False, 1),  # 184 and 126
    ],
)  # fmt: skip
def test_the_choice_is_what_was_measured_to_be_faster(
    program: KernelGraph, shifts: bool, before: int
) -> None:
    *earlier, last = kernels(program)
    assert is_cut(last) == shifts
    assert len(earlier) == before


def test_other_chips_have_no_such_boxes() -> None:
    assert not any(is_cut(launch) for launch in kernels(matmul(1024, 1023, 1024), A100))
