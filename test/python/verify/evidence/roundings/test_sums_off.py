"""Forms that give numbers only if sums happen to be rounded well: a variance in one pass of a
constant row may be below zero. None is accepted, for any seed, any number of rows and any order of
sums; forms that cannot be negative are."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from faults.program_mutants import mutants
from faults.roundings import rounding_faults
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.evidence.roundings.sums_off import OFF, WAYS, SumsOff, Way
from mirage.verify.pair.verification import Verification
from thorough import some_of

SIZES = [
    *((3, 5, DType.F16), (1, 64, DType.F16), (2, 1000, DType.F16), (3, 17, DType.F16)),
    *((3, 5, DType.BF16), (1, 64, DType.BF16), (2, 1000, DType.BF16)),
]
SEEDS = range(12)


class Norm:
    """A norm of rows, of a product or of an input, with given forms of variance and mean."""

    def __init__(self, size: tuple[int, int, DType], product: bool = True) -> None:
        self.rows, self.width, self.dtype = size
        given = TensorType((self.rows, 8 if product else self.width), self.dtype)
        x = Value(given, "x")
        w = Value(TensorType((8, self.width), self.dtype), "w")
        self.inputs: tuple[Value, ...] = (x, w) if product else (x,)
        self.b = Builder()
        self.y = self.b.matmul(x, w) if product else x

    def mean(self, x: Value, how: str) -> Value:
        b = self.b
        if how == "by a matmul":
            ones = b.broadcast(b.constant(1.0), (self.width, 1))
            return b.binary(BinaryFn.MUL, b.matmul(x, ones), b.constant(Fraction(1, self.width)))
        total = b.reduce(ReduceFn.SUM, x, (1,))
        if how == "by a quotient":
            return b.binary(BinaryFn.DIV, total, b.constant(self.width))
        return b.binary(BinaryFn.MUL, total, b.constant(Fraction(1, self.width)))

    def whole(self) -> KernelGraph:
        return self.graph(self.b.layer_norm(self.y))

    def graph(self, out: Value) -> KernelGraph:
        return KernelGraph("norm", self.inputs, tuple(self.b.ops), (out,))

    def written(self, variance: str, how: str = "by a factor") -> KernelGraph:
        b = self.b
        y = b.cast(self.y, DType.F32)
        if variance == "shifted":  # by the first of the row: zeros in constant rows
            y = b.binary(BinaryFn.SUB, y, b.slice(y, (0, 0), (self.rows, 1)))
        mean = self.mean(y, how)
        centred = b.binary(BinaryFn.SUB, y, mean)
        if variance == "two passes":
            square = self.mean(b.unary(UnaryFn.SQUARE, centred), how)
        else:
            square = self.mean(b.binary(BinaryFn.MUL, y, y), how)
            square = b.binary(BinaryFn.SUB, square, b.binary(BinaryFn.MUL, mean, mean))
        if variance == "clamped":
            square = b.binary(BinaryFn.MAX, square, b.constant(0.0))
        root = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, square, b.constant(1e-5)))
        return self.graph(b.cast(b.binary(BinaryFn.MUL, centred, root), self.dtype))


def options(seed: int) -> VerifyOptions:
    return VerifyOptions(seed=seed, work=5e5)


def accepted(reference: KernelGraph, candidate: KernelGraph, seeds: range) -> int:
    """The number of seeds."""
    found = [verify(reference, candidate, options(n)) for n in seeds]
    assert all(verdict.equivalent for verdict in found), found
    return sum(verdict.accepted for verdict in found)


def refused(reference: KernelGraph, candidate: KernelGraph, seeds: range = SEEDS) -> bool:
    """With every seed, for its rounding errors. Only these depend on the seed: the proof is done
    only with the first two seeds."""
    assert accepted(reference, candidate, seeds[:2]) == 0
    tests = (Verification(reference, candidate, 0, options(n), n, None, {}) for n in seeds)
    return all(test.tests(rounding=True) == (True, False) for test in tests)


@pytest.mark.parametrize("size", some_of(SIZES, every=4, one_value=True), ids=str)
@pytest.mark.parametrize(
    "how", some_of(["by a factor", "by a quotient", "by a matmul"], one_value=True)
)
def test_a_variance_in_one_pass_is_never_accepted(size: tuple[int, int, DType], how: str) -> None:
    seeds = SEEDS if how == "by a factor" else SEEDS[::4]
    reference = Norm(size).whole()
    assert refused(reference, Norm(size).written("one pass", how), seeds)


@pytest.mark.parametrize("width", [5, 17, 64])
def test_nor_is_that_of_a_fault(width: int) -> None:
    reference = Norm((3, width, DType.F16)).whole()
    made = mutants(reference, random.Random(0), 200, rounding_faults)
    fault = next(m.graph for m in made if m.kind == "variance in one pass")
    assert refused(reference, fault)


def test_nor_is_one_of_a_row_and_another() -> None:
    """Sums of values that are not constant, without products."""

    def added(one_pass: bool) -> KernelGraph:
        norm = Norm((4, 64, DType.F16), product=False)
        other = Value(norm.inputs[0].type, "r")
        norm.inputs = (*norm.inputs, other)
        norm.y = norm.b.binary(BinaryFn.ADD, norm.y, other)
        return norm.written("one pass") if one_pass else norm.whole()

    assert refused(added(False), added(True))


@pytest.mark.parametrize("size", some_of(SIZES, every=2, one_value=True), ids=str)
@pytest.mark.parametrize("variance", some_of(["two passes", "shifted"], 2, one_value=True))
def test_what_is_not_negative_is_accepted(size: tuple[int, int, DType], variance: str) -> None:
    """Each with one way to add, so that sizes and forms have both."""
    seeds = range(2)
    other = (SIZES.index(size) + (variance == "shifted")) % 2
    candidate = Norm(size).written(variance, ("by a factor", "by a matmul")[other])
    assert accepted(Norm(size).whole(), candidate, seeds) == len(seeds)


@pytest.mark.parametrize("variance", some_of(["one pass", "clamped"], every=2))
def test_a_reference_that_is_no_better_asks_for_no_more(variance: str) -> None:
    seeds = range(2)
    for size in SIZES[:3]:
        reference = Norm(size).written(variance)
        candidate = Norm(size).written(variance, "by a quotient")
        assert accepted(reference, candidate, seeds) == len(seeds)
    assert accepted(Norm(SIZES[0]).written("one pass"), Norm(SIZES[0]).whole(), seeds) == len(seeds)


def test_sums_are_off_but_for_those_of_whole_numbers() -> None:
    x = (np.array([[0.5, 1.25, 3.0]], dtype=np.float32),)
    counted = (np.array([[1.0, 0.0, 7.0]], dtype=np.float32),)
    for way in WAYS:
        (total,) = SumsOff(way).reduce(ReduceFn.SUM, x, (1,), DType.F32)
        assert abs(float(total[0, 0]) - 4.75) == pytest.approx(4.75 * OFF, rel=0.1)
        (total,) = SumsOff(way).reduce(ReduceFn.SUM, counted, (1,), DType.F32)
        assert float(total[0, 0]) == 8.0
        (largest,) = SumsOff(way).reduce(ReduceFn.MAX, x, (1,), DType.F32)
        assert float(largest[0, 0]) == 3.0


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_sets_of_inputs_are_off_as_each_is_alone(way: Way) -> None:
    """Also if the numbers of some of them are whole, so that their sums are exact."""
    rng = np.random.default_rng(3)
    sets = rng.standard_normal((4, 3, 5)).astype(np.float32)
    sets[1] = np.rint(8 * sets[1])
    weights = rng.standard_normal((5, 6)).astype(np.float32)

    def computed(domain: SumsOff, x: Array, w: Array) -> Array:
        (scaled,) = domain.reduce(ReduceFn.SUM, (x,), (x.ndim - 1,), DType.F32)
        (product,) = domain.matmul((x,), (w,), DType.F32)
        (total,) = domain.reduce(ReduceFn.SUM, (product,), (x.ndim - 1,), DType.F32)
        (shared,) = domain.reduce(ReduceFn.SUM, (w,), (w.ndim - 1,), DType.F32)
        return np.asarray(scaled * total + shared.sum(-2, keepdims=True))

    together = computed(SumsOff(way, len(sets)), sets, weights[None])
    for x, found in zip(sets, together, strict=True):
        np.testing.assert_array_equal(computed(SumsOff(way), x, weights), found)
