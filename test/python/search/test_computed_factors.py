"""The search's prediction of the factors of products that warpgroups can read."""

from __future__ import annotations

import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200
from mirage.cost.target import Target
from mirage.search import SearchLimits, SearchReport
from mirage.search.kernel.emission import launches as launches_module
from mirage.search.kernel.solver import KernelSolver
from mirage.search.program.parts import Program
from mirage.search.program.storable import Storable
from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.element_types import DType
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch

LIMITS = SearchLimits(columns=1500, samples=1)


def attention(changed: str) -> KernelGraph:
    """Attention whose queries or keys are first transformed element by element."""
    q, k, v = tensor("q", 32, 1024, 64), tensor("k", 32, 64, 2048), tensor("v", 32, 2048, 64)
    b = Builder()
    q_in, k_in = (b.unary(UnaryFn.SILU, x) if x.name == changed else x for x in (q, k))
    scores = b.binary(BinaryFn.MUL, b.matmul(q_in, k_in), b.constant(0.125))
    return graph("attention", (q, k, v), b, b.matmul(b.softmax(scores, -1), v))


@pytest.mark.parametrize(("changed", "can"), [("q", True), ("k", False)])
def test_what_is_computed_is_a_left_factor_of_warpgroups(
    changed: str, can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys are the right factor of the scores, since scores are the left one of the weighted sum:
    launches for warpgroups with keys that the kernel computes are refused, at all sizes."""
    tried: list[bool] = []
    check = launches_module.check_launch

    def checked(launch: Launch, target: Target) -> None:
        tried.append(launch.schedule.warpgroups)
        check(launch, target)

    monkeypatch.setattr(launches_module, "check_launch", checked)
    program = Program(decompose(attention(changed)), H200, SearchReport())
    solver = KernelSolver(H200, LIMITS, SearchReport())
    assert solver.solve(program.region(program.graph.outputs, ()).problem(), 8)
    assert any(tried) == can


@pytest.mark.parametrize(("rows", "stored"), [(2048, True), (16, False)])
def test_a_factor_computed_from_inputs_may_be_stored_before_long_products(
    rows: int, stored: bool
) -> None:
    """Products of many rows take longer than reading their factors; those of few rows transform
    theirs while loading. Mere views of inputs are never stored."""
    x, gain, w = tensor("x", rows, 4096), tensor("gain", 4096), tensor("w", 8192, 4096)
    b = Builder()
    scaled = b.binary(BinaryFn.MUL, x, b.binary(BinaryFn.ADD, gain, b.constant(1.0)))
    turned = b.transpose(w, (1, 0))
    product = b.matmul(scaled, turned)
    found = Storable(graph("scaled", (x, gain, w), b, product), H200, SearchReport())
    assert (scaled in found.wanted) == stored
    assert turned not in found.wanted
    assert product in found.wanted


@pytest.mark.parametrize(("dtype", "layouts"), [(DType.F16, 1), (DType.F32, 2)])
def test_a_computed_factor_of_halves_is_stored_in_one_layout(dtype: DType, layouts: int) -> None:
    """Products read 16-bit factors across their rows as well as along them, but not wider ones."""
    q, k = tensor("q", 32, 1024, 64, dtype=dtype), tensor("k", 32, 2048, 64, dtype=dtype)
    b = Builder()
    changed = b.unary(UnaryFn.SILU, k)
    turned = b.transpose(changed, (0, 2, 1))
    scores = graph("scores", (q, k), b, b.matmul(q, turned))
    found = Storable(scores, H200, SearchReport())
    assert changed in found.wanted
    assert len(found.wanted & {changed, turned}) == layouts


@pytest.mark.parametrize("rows", [2048, 16])
def test_a_factor_is_never_stored_in_a_wider_type(rows: int) -> None:
    """A converted tensor takes less memory; if it is computed, it may be stored itself."""
    x, gain, w = tensor("x", rows, 4096), tensor("gain", 4096), tensor("w", 4096, 8192)
    b = Builder()
    scaled = b.binary(BinaryFn.MUL, x, b.binary(BinaryFn.ADD, gain, b.constant(1.0)))
    wide = b.cast(scaled, DType.F32), b.cast(w, DType.F32)
    product = b.matmul(*wide)
    found = Storable(graph("widened", (x, gain, w), b, product), H200, SearchReport())
    assert found.wanted.isdisjoint(wide)
    assert (scaled in found.wanted) == (rows == 2048)


@pytest.mark.parametrize("turned", [True, False])
def test_another_form_of_halves_is_not_stored_in_a_wider_type(turned: bool) -> None:
    """Scores in f32 of 16-bit queries and keys are products of these: keys are read as they are."""
    q = tensor("q", 32, 1024, 64, dtype=DType.BF16)
    k = tensor("k", 4, 8, 2048, 64, dtype=DType.BF16)
    b = Builder()
    changed = b.unary(UnaryFn.SILU, k)
    keys = b.reshape(b.cast(changed, DType.F32), (32, 2048, 64))
    other = b.transpose(keys, (0, 2, 1))
    left, right = (b.cast(q, DType.F32), other) if turned else (keys, b.cast(q, DType.F32))
    right = right if turned else b.transpose(right, (0, 2, 1))
    found = Storable(graph("scores", (q, k), b, b.matmul(left, right)), H200, SearchReport())
    assert changed in found.wanted
    assert found.wanted.isdisjoint((keys, other))
