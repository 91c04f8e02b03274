"""Inputs that are read in several roles: positions as those of queries and of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Output,
    Value,
)
from mirage.verify.evidence.proofs.exact import show
from mirage.verify.evidence.proofs.free_roles import Roles, with_free_roles
from mirage.verify.evidence.proofs.small_model import small_pair
from mirage.verify.normal_form.normalize import normalize
from mirage.verify.pieces.kernel_by_kernel import Piece, Shown
from mirage.verify.verifier import verify
from mirage.verify.verify_options import VerifyOptions
from thorough import some_of

F32, D = DType.F32, 8
MOST = 4000
"""The number of elements of small programs of attention with an input for each role."""
Inputs = tuple[Value, Value, Value, Value]
Mask = Callable[[Builder, Value, Value], Value]
"""A function that makes a mask from the positions of queries (a column) and of keys (a row)."""


def causal(b: Builder, i: Value, j: Value) -> Value:
    return b.binary(BinaryFn.LE, j, i)


def strict(b: Builder, i: Value, j: Value) -> Value:
    return b.binary(BinaryFn.LT, j, i)


def swapped(b: Builder, i: Value, j: Value) -> Value:
    return b.binary(BinaryFn.LE, i, j)


def near(size: int, both: bool = False) -> Mask:
    def mask(b: Builder, i: Value, j: Value) -> Value:
        length = b.constant(float(size))
        before = b.binary(BinaryFn.LT, b.binary(BinaryFn.SUB, i, j), length)
        after = causal(b, i, j)
        if both:
            after = b.binary(BinaryFn.LT, b.binary(BinaryFn.SUB, j, i), length)
        return b.binary(BinaryFn.AND, after, before)

    return mask


def prefix(b: Builder, i: Value, j: Value) -> Value:
    return b.binary(BinaryFn.OR, causal(b, i, j), b.binary(BinaryFn.LT, j, b.constant(7.0)))


def inputs(n: int) -> Inputs:
    q, k, v = (graphs.tensor(2, n, D, dtype=F32) for _ in range(3))
    return q, k, v, graphs.tensor(n, dtype=F32, name="positions")


def reference(n: int, mask: Mask) -> KernelGraph:
    """Attention of ``n`` tokens in two heads; the last input has their positions."""
    q, k, v, at = inputs(n)
    b = Builder()
    scores = b.matmul(q, b.transpose(k, (0, 2, 1)))
    seen = mask(b, b.reshape(at, (n, 1)), b.reshape(at, (1, n)))
    scores = b.binary(BinaryFn.ADD, scores, b.unary(UnaryFn.BIAS, seen))
    y = b.matmul(b.softmax(scores, 2), v)
    return KernelGraph("attention", (q, k, v, at), tuple(b.ops), (y,))


@dataclass(frozen=True)
class Kernel:
    """The computation of attention: tiles of queries and keys; ``keys_by`` cuts the positions of
    keys, and without ``ends`` keys beyond the last are counted."""

    rows: int
    keys: int
    keys_by: str = "k"
    ends: bool = True

    def of(self, n: int, mask: Mask) -> KernelGraph:
        whole = inputs(n)
        q, k, v, at = params = graphs.params_of(whole)
        b, step = Builder(in_block=True), Builder(in_block=True)
        queries = b.load(q, (("h",), ("m",), ()), (1, self.rows, D))
        i = b.reshape(b.load(at, (("m",),), (self.rows,)), (self.rows, 1))
        some = step.load(k, (("h",), ("k",), ()), (1, self.keys, D))
        j = step.load(at, ((self.keys_by,),), (self.keys,))
        bias = step.unary(UnaryFn.BIAS, mask(step, i, step.reshape(j, (1, self.keys))))
        scores = step.matmul(queries, step.transpose(some, (0, 2, 1)))
        e = step.unary(UnaryFn.EXP, step.binary(BinaryFn.ADD, scores, bias))
        if self.ends and n % self.keys:
            e = step.mask(e, 2, ("k",), n, 0.0)
        values = step.load(v, (("h",), ("k",), ()), (1, self.keys, D))
        sums = (step.matmul(e, values), step.reduce(ReduceFn.SUM, e, (2,)))
        each = tuple(Accumulator(AccumulateFn.SUM, x) for x in sums)
        top, bottom = b.loop(Axis("k", -(-n // self.keys)), tuple(step.ops), each)
        y = b.binary(BinaryFn.DIV, top, bottom)
        body = BlockGraph(params, tuple(b.ops), (Output(y, (("h",), ("m",), ())),))
        grid = (Axis("h", 2), Axis("m", -(-n // self.rows)))
        launch = graphs.launch(whole, grid, body, (whole[0].type,))
        g = KernelGraph("tiled", whole, (launch,), launch.results)
        check_graph(g)
        return g


def roles(first: KernelGraph, second: KernelGraph) -> Roles | None:
    return with_free_roles(*(normalize(decompose(g)) for g in (first, second)))


def shown(first: KernelGraph, second: KernelGraph) -> Shown:
    return show(Piece(first, second, second.outputs, second.ops), 3)


MASKS = {
    "causal": causal, "window": near(256), "two sides": near(100, both=True), "prefix": prefix,
}  # fmt: skip


@pytest.mark.parametrize("n", [333, 997, 1000, 4099])
@pytest.mark.parametrize("name", some_of(list(MASKS), every=3))
def test_odd_sizes_take_little_work(name: str, n: int) -> None:
    """About equally many elements at any size: the number of cells depends only on the cuts."""
    mask = MASKS[name]
    first, second = reference(n, mask), Kernel(128, 64).of(n, mask)
    apart = roles(first, second)
    assert apart is not None
    assert apart.counts == (1, 1, 1, 2)
    assert small_pair(apart.first, apart.second).work <= MOST
    found = shown(first, second)
    assert found.bound_log2 == float("-inf")
    assert found.evidence[-1].text == "for separate inputs in each role: input 3 as 2"


def test_sizes_that_a_proof_holds_for_are_those_of_one_input() -> None:
    found = shown(reference(1000, causal), Kernel(128, 64).of(1000, causal))
    assert found.holds_for is not None
    *_, (at,) = shapes = found.holds_for.inputs
    assert len(shapes) == 4
    assert set(at.split(" = ")) == {shapes[0][1], shapes[1][1]}


def test_with_the_same_in_all_roles_programs_are_those_given() -> None:
    n, source = 37, np.random.default_rng(4)
    pair = reference(n, near(5)), Kernel(16, 8).of(n, near(5))
    apart = roles(*pair)
    assert apart is not None
    q, k, v = (source.standard_normal((2, n, D)) for _ in range(3))
    at = np.arange(n, dtype=np.float64)
    for given, new in zip(pair, (apart.first, apart.second), strict=True):
        check_graph(new)
        (expected,) = evaluate_floats(decompose(given), [q, k, v, at])
        (actual,) = evaluate_floats(new, [q, k, v, at, at])
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


WRONG: dict[str, tuple[Kernel, Mask]] = {
    "< for <=": (Kernel(64, 32), strict),
    "queries for keys": (Kernel(64, 32), swapped),
    "positions of another axis": (Kernel(64, 64, keys_by="m"), causal),
    "keys beyond the last": (Kernel(64, 32, ends=False), causal),
    "a window": (Kernel(64, 32), near(256)),
}


@pytest.mark.parametrize("fault", some_of(list(WRONG), every=2))
def test_faults_are_not_shown(fault: str) -> None:
    kernel, mask = WRONG[fault]
    assert not shown(reference(333, causal), kernel.of(333, mask)).holds
    assert not verify(
        reference(77, causal), kernel.of(77, mask), VerifyOptions(seed=2, numerics=False)
    ).equivalent


def crossed(summed: int) -> KernelGraph:
    """``x_i x_j``, and the sum of all ``y_ij + x_i`` or of all ``y_ij + x_j``: the same number."""
    n, b = 6, Builder()
    x, y = graphs.tensor(n, dtype=F32), graphs.tensor(n, n, dtype=F32)
    both = [b.reshape(x, shape) for shape in ((n, 1), (1, n))]
    product = b.binary(BinaryFn.MUL, *both)
    total = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.ADD, y, both[summed]), (0, 1))
    return KernelGraph("crossed", (x, y), tuple(b.ops), (product, total))


def test_what_holds_for_one_tensor_only_is_still_shown() -> None:
    assert roles(crossed(0), crossed(1)) is not None
    found = shown(crossed(0), crossed(1))
    assert found.holds
    assert all(e.name != "inputs in several roles" for e in found.evidence)
    assert verify(crossed(0), crossed(1), VerifyOptions(seed=2, numerics=False)).equivalent


def test_one_role_is_one_input() -> None:
    """Read twice along the same dimension, or by one of the programs in a separate role."""
    n, b = 6, Builder()
    x = graphs.tensor(n, dtype=F32)
    twice = b.binary(BinaryFn.MUL, b.reshape(x, (1, n)), b.unary(UnaryFn.EXP, x))
    same = KernelGraph("twice", (x,), tuple(b.ops), (twice,))
    assert roles(same, same) is None
    b = Builder()
    total = b.reduce(ReduceFn.SUM, x, (0,))
    part = b.binary(BinaryFn.MUL, b.reshape(x, (1, n)), total)
    assert roles(same, KernelGraph("sum", (x,), tuple(b.ops), (part,))) is None
    returned = KernelGraph("both", crossed(0).inputs, crossed(0).ops, crossed(0).inputs[:1])
    assert roles(returned, returned) is None
