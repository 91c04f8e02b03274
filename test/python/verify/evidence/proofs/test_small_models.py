"""Small models: exactness of the compression, completeness of its cells, and the underlying
arithmetics.
"""

from __future__ import annotations

import random
from math import inf

import pytest
from example_programs import graphs
from example_programs.small_programs import assert_exact
from faults.program_mutants import mutants
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Output,
    TensorType,
)
from mirage.verify.arithmetic.formal import FormalExp
from mirage.verify.arithmetic.interned_sums import NoProof
from mirage.verify.arithmetic.primes import draw
from mirage.verify.arithmetic.symbolic import Symbolic
from mirage.verify.compression.digits import Digit, Structure
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.small_program import cells_of
from mirage.verify.evidence.proofs.proof import prove
from mirage.verify.evidence.proofs.small_model import run_small_model, small_pair
from mirage.verify.normal_form.normalize import normalize
from thorough import some_of

F32 = DType.F32
LARGER = {
    "rms_linear": graphs.rms_linear(5, 36, 30, blocks=5, steps=4),
    "attention": graphs.attention(2, 6, 37, 4, splits=3, steps=3, row_blocks=2),
    "lora": graphs.lora(5, 24, 21, 6, blocks=3, steps=4),
    "swiglu": graphs.swiglu(5, 25, 24, blocks=4, steps=4),
    "softmax": graphs.softmax(7, 40, row_blocks=3, steps=6),
    "layer_norm": graphs.layer_norm(6, 24, row_blocks=2, steps=4),
}
CASES = [(p, c) for p, pair in LARGER.items() for c in pair.candidates]


def plain(graph):
    return normalize(decompose(graph))


def test_cells():
    assert cells_of(Digit(10, frozenset(), False, False), 2) == (1, 1, 8)
    assert cells_of(Digit(3, frozenset(), False, False), 2) == (1, 1, 1)
    assert cells_of(Digit(10, frozenset(), False, True), 1) == (1, 8, 1)
    assert cells_of(Digit(10, frozenset({4}), False, False), 1) == (1, 3, 1, 5)
    assert cells_of(Digit(4, frozenset(), True, False), 1) == (1, 1, 1, 1)


@pytest.mark.parametrize(("pair", "candidate"), CASES)
@pytest.mark.parametrize("singles", [1, 2])
def test_the_small_program_is_the_real_one_on_repeated_inputs(pair, candidate, singles):
    """Exactness by brute force."""
    case = [plain(LARGER[pair].reference), plain(LARGER[pair].candidates[candidate])]
    assert_exact(case, singles)


@pytest.mark.parametrize(("pair", "candidate"), CASES)
def test_small_models_prove_and_bound(pair, candidate):
    small = small_pair(plain(LARGER[pair].reference), plain(LARGER[pair].candidates[candidate]))
    evidence, bound = run_small_model(small, random.Random(5), -60.0)
    assert evidence.holds is True
    assert bound is not None
    assert bound <= -60.0
    assert prove(small).holds is True


def equal_at_full_size(first, second):
    """Ground truth: both real programs in the formal domain, no cells."""
    for seed in range(2):
        domain = FormalExp(draw(random.Random(seed), 61, None), random.Random(seed))
        inputs = [domain.random(v.shape) for v in first.inputs]
        for x, y in zip(
            evaluate(first, domain, inputs), evaluate(second, domain, inputs), strict=True
        ):
            if not domain.equal_outputs(x, y):
                return False
    return True


TINY = {
    "rms_linear": graphs.rms_linear(3, 12, 6, blocks=2, steps=3),
    "attention": graphs.attention(1, 2, 12, 2, splits=2, steps=3),
    "lora": graphs.lora(3, 8, 6, 3, blocks=2, steps=2),
    "softmax": graphs.softmax(3, 11, row_blocks=2, steps=4),
    "layer_norm": graphs.layer_norm(3, 9, row_blocks=2, steps=3),
}


@pytest.mark.parametrize("pair", some_of(TINY, every=2))
def test_small_models_decide_as_the_full_size_does(pair):
    """Completeness by brute force: with the cells that the argument requires, mutants are judged as
    at full size.
    """
    compared = 0
    first = plain(TINY[pair].reference)
    for name, candidate in TINY[pair].candidates.items():
        rng = random.Random(f"{pair} {name}")
        for mutant in mutants(candidate, rng, 12):
            second = plain(mutant.graph)
            try:
                small = small_pair(first, second)
            except Irregular:
                continue
            evidence, _ = run_small_model(small, rng, -60.0)
            if evidence.holds is None:
                continue
            compared += 1
            assert evidence.holds == equal_at_full_size(first, second), mutant
            if prove(small).holds:
                assert evidence.holds
    assert compared >= 8


def sums(n, steps, function):
    """A kernel that sums a function of tiles in a loop."""
    x = graphs.tensor(n, dtype=F32)
    (p,) = params = graphs.params_of((x,))
    inner = Builder(in_block=True)
    tile = function(inner, inner.load(p, (("k",),), (-(-n // steps),)))
    outer = Builder(in_block=True)
    (total,) = outer.loop(Axis("k", steps), *_summed(inner, tile))
    body = BlockGraph(params, tuple(outer.ops), (Output(total, ((),)),))
    op = graphs.launch((x,), (Axis("b", 1),), body, (TensorType((1,), F32),))
    return KernelGraph("sums", (x,), (op,), op.results)


def _summed(inner, tile):
    total = inner.reduce(ReduceFn.SUM, tile, (0,))
    return tuple(inner.ops), (Accumulator(AccumulateFn.SUM, total),)


def reference_sums(n, function):
    x = graphs.tensor(n, dtype=F32)
    b = Builder()
    y = b.reduce(ReduceFn.SUM, function(b, x), (0,))
    return KernelGraph("reference", (x,), tuple(b.ops), (y,))


def test_sizes_as_factors_are_exact():
    """A sum of a constant over an axis gives the real size, not the number of cells."""

    def plus_one(b, x):
        return b.binary(BinaryFn.ADD, x, b.constant(1.0))

    for n, steps in ((4096, 8), (100, 7)):
        b = Builder()
        x = graphs.tensor(n, dtype=F32)
        total = b.binary(BinaryFn.ADD, b.reduce(ReduceFn.SUM, x, (0,)), b.constant(float(n)))
        reference = KernelGraph("sum_plus_n", (x,), tuple(b.ops), (total,))
        wrong = reference_sums(n, plus_one)
        small = small_pair(reference, wrong)
        assert prove(small).holds is True
        candidate = sums(n, steps, plus_one)
        padded = -(-n // steps) * steps != n  # the ones outside the tensor are counted as well
        small = small_pair(reference, candidate)
        assert run_small_model(small, random.Random(1), -60.0)[0].holds is not padded


def test_interactions_ask_for_as_many_cells_as_needed():
    """(sum x)^2 (sum x) against sum x^2 ... : three indices interact, and with fewer cells the
    difference would vanish.
    """
    n = 64

    def cube(b, x):
        s = b.reduce(ReduceFn.SUM, x, (0,))
        return b.binary(BinaryFn.MUL, b.binary(BinaryFn.MUL, s, s), s)

    x = graphs.tensor(n, dtype=F32)
    b = Builder()
    y = cube(b, x)
    reference = KernelGraph("cube", (x,), tuple(b.ops), (y,))
    small = small_pair(reference, reference)
    assert max(small.needs.singles.values()) >= 3
    assert small.reference.graph.inputs[0].shape[0] >= 4


def test_tilings_without_common_digits_are_irregular():
    def copy(size, tile):
        x = graphs.tensor(size, dtype=F32)
        (p,) = params = graphs.params_of((x,))
        b = Builder(in_block=True)
        y = b.unary(UnaryFn.NEG, b.load(p, (("i",),), (tile,)))
        body = BlockGraph(params, tuple(b.ops), (Output(y, (("i",),)),))
        op = graphs.launch((x,), (Axis("i", -(-size // tile)),), body, (x.type,))
        return KernelGraph("copy", (x,), (op,), op.results)

    check_graph(copy(192, 96))
    with pytest.raises(Irregular, match="multiples of 64 and of 96"):
        Structure((copy(192, 96), copy(192, 64)))
    assert prove(small_pair(copy(192, 96), copy(192, 48))).holds
    # Two parts of 96 and three of 64 are six of 32, each of them by itself.
    pair = small_pair(copy(192, 96), copy(192, 64))
    assert pair.read is not None
    assert pair.read.at_hand
    assert prove(pair).holds
    with pytest.raises(Irregular, match="multiples of 96 and of 97"):
        small_pair(copy(97 * 96, 96), copy(97 * 96, 97))


def test_dimensions_of_size_one_do_not_end_those_after_them():
    """Tiles of 128 extend past the end of 300 rows, whose leading dimension of 1 is dropped."""
    x = graphs.tensor(1, 300, 8, dtype=F32)
    b = Builder()
    y = b.unary(UnaryFn.NEG, x)
    reference = KernelGraph("negated", (x,), tuple(b.ops), (y,))
    whole = Builder()
    rows = whole.reshape(x, (300, 8))
    (p,) = params = graphs.params_of((rows,))
    b = Builder(in_block=True)
    tile = b.unary(UnaryFn.NEG, b.load(p, (("i",), ()), (128, 8)))
    body = BlockGraph(params, tuple(b.ops), (Output(tile, (("i",), ())),))
    op = graphs.launch((rows,), (Axis("i", 3),), body, (rows.type,))
    after = Builder()
    z = after.reshape(op.results[0], x.shape)
    candidate = KernelGraph("tiles", (x,), (*whole.ops, op, *after.ops), (z,))
    check_graph(candidate)
    assert not Structure((reference, candidate)).severed
    assert_exact((reference, candidate), 2)
    pair = small_pair(reference, candidate)
    assert pair.read is not None
    assert not pair.read.at_hand
    assert pair.work < 100
    assert prove(pair).holds


def test_slices_and_concat():
    """Rotary embedding style: halves exchanged."""

    def rotate(size):
        x, w = graphs.tensor(3, size, dtype=F32), graphs.tensor(3, size, dtype=F32)
        b = Builder()
        half = size // 2
        lower = b.slice(x, (0, 0), (3, half))
        upper = b.slice(x, (0, half), (3, half))
        turned = b.concat((b.unary(UnaryFn.NEG, upper), lower), 1)
        y = b.binary(BinaryFn.MUL, turned, w)
        one = KernelGraph("rotate", (x, w), tuple(b.ops), (y,))
        b = Builder()
        minus = b.constant(-1.0)
        w_low, w_high = b.slice(w, (0, 0), (3, half)), b.slice(w, (0, half), (3, half))
        lower, upper = b.slice(x, (0, 0), (3, half)), b.slice(x, (0, half), (3, half))
        first = b.binary(BinaryFn.MUL, b.binary(BinaryFn.MUL, upper, minus), w_low)
        z = b.concat((first, b.binary(BinaryFn.MUL, lower, w_high)), 1)
        two = KernelGraph("rotate2", (x, w), tuple(b.ops), (z,))
        wrong = b.concat(
            (b.binary(BinaryFn.MUL, upper, w_low), b.binary(BinaryFn.MUL, lower, w_high)), 1
        )
        return one, two, KernelGraph("wrong", (x, w), tuple(b.ops), (wrong,))

    one, two, wrong = rotate(128)
    small = small_pair(one, two)
    assert prove(small).holds
    assert small.reference.graph.inputs[0].shape[1] < 20
    assert run_small_model(small_pair(one, wrong), random.Random(0), -60.0)[0].holds is False


def parts(first: int, second: int, *, late: bool, summed: int = 1) -> KernelGraph:
    """Rows in two parts, each multiplied alone, or sliced afterwards; joined, and one summed."""
    x, w = graphs.tensor(first + second, 4, dtype=F32), graphs.tensor(4, 3, dtype=F32)
    b = Builder()
    places, sizes = (0, first), (first, second)
    if late:
        whole = b.unary(UnaryFn.EXP, b.matmul(x, w))
        own = [b.slice(whole, (p, 0), (n, 3)) for p, n in zip(places, sizes)]
    else:
        rows = (b.slice(x, (p, 0), (n, 4)) for p, n in zip(places, sizes))
        own = [b.unary(UnaryFn.EXP, b.matmul(r, w)) for r in rows]
    outputs = (b.concat(tuple(own), 0), b.reduce(ReduceFn.SUM, own[summed], (0,)))
    return KernelGraph("parts", (x, w), tuple(b.ops), outputs)


@pytest.mark.parametrize(
    "sizes", [(1024, 154), (154, 1024), (1024, 1030), (999, 3), (7, 1000), (600, 1)]
)
def test_a_part_may_end_inside_of_a_block(sizes):
    """Joint attention: 1024 tokens of an image and 154 of a text."""
    late, early = parts(*sizes, late=True), parts(*sizes, late=False)
    pair = small_pair(late, early)
    assert pair.read is not None
    assert_exact(pair.read.graphs, 2, pair.read.structure)
    assert prove(pair).holds
    wrong = small_pair(late, parts(*sizes, late=False, summed=0))
    assert run_small_model(wrong, random.Random(0), -60.0)[0].holds is False


def test_a_last_step_is_not_any_step():
    """'The last tile' and 'the last tile but one' differ, although all tiles are otherwise treated
    in the same way.
    """

    def last(n, steps, shift):
        x = graphs.tensor(n, dtype=F32)
        b = Builder()
        tile = n // steps
        y = b.slice(x, (n - tile * (1 + shift),), (tile,))
        return KernelGraph("slice", (x,), tuple(b.ops), (y,))

    def loop(n, steps):
        x = graphs.tensor(n, dtype=F32)
        (p,) = params = graphs.params_of((x,))
        inner = Builder(in_block=True)
        tile = inner.load(p, (("k",),), (n // steps,))
        outer = Builder(in_block=True)
        (y,) = outer.loop(
            Axis("k", steps), tuple(inner.ops), (Accumulator(AccumulateFn.LAST, tile),)
        )
        body = BlockGraph(params, tuple(outer.ops), (Output(y, ((),)),))
        op = graphs.launch((x,), (Axis("b", 1),), body, (TensorType((n // steps,), F32),))
        return KernelGraph("last", (x,), (op,), op.results)

    assert prove(small_pair(last(64, 8, 0), loop(64, 8))).holds
    assert (
        run_small_model(small_pair(last(64, 8, 1), loop(64, 8)), random.Random(0), -60.0)[0].holds
        is False
    )


@pytest.mark.parametrize(
    "make", [Symbolic, lambda: FormalExp(draw(random.Random(0), 61, None), random.Random(0))]
)
class TestExactDomains:
    """Common properties of the symbolic and the formal domain."""

    def values(self, domain, shape, name=0):
        return domain.inputs(name, shape) if isinstance(domain, Symbolic) else domain.random(shape)

    def op(self, domain, fn, *xs):
        return (domain.binary if isinstance(fn, BinaryFn) else domain.unary)(fn, *xs, F32)

    def test_exponentials(self, make):
        d = make()
        a, b = self.values(d, (3,)), self.values(d, (3,), 1)
        left = self.op(d, UnaryFn.EXP, self.op(d, BinaryFn.ADD, a, b))
        right = self.op(d, BinaryFn.MUL, self.op(d, UnaryFn.EXP, a), self.op(d, UnaryFn.EXP, b))
        assert d.equal(left, right).all()
        assert not d.equal(left, self.op(d, UnaryFn.EXP, a)).any()

    def test_quotients(self, make):
        d = make()
        a, b = self.values(d, (4,)), self.values(d, (4,), 1)
        e = self.op(d, UnaryFn.EXP, a)
        total = d.reduce(ReduceFn.SUM, e, (0,), F32)
        share = self.op(d, BinaryFn.DIV, e, total)
        one = d.reduce(ReduceFn.SUM, share, (0,), F32)
        assert d.equal(one, d.constant(1.0, F32)).all()
        shift = self.op(d, UnaryFn.EXP, self.op(d, BinaryFn.SUB, a, tuple(p[:1] for p in b)))
        shifted = self.op(d, BinaryFn.DIV, shift, d.reduce(ReduceFn.SUM, shift, (0,), F32))
        assert d.equal(share, shifted).all()
        assert not d.equal(share, e).any()

    def test_maximum_of_sets(self, make):
        d = make()
        a, b, c = (self.values(d, (2,), i) for i in range(3))

        def join(x, y):
            return self.op(d, BinaryFn.MAX, x, y)

        assert d.equal(join(a, join(b, c)), join(join(c, a), b)).all()
        assert d.equal(join(a, a), a).all()
        assert d.equal(join(join(a, b), b), join(b, a)).all()
        assert not d.equal(join(a, b), join(a, c)).any()
        assert d.equal(join(a, d.constant(-inf, F32)), a).all()

    def test_reciprocals_and_undefined(self, make):
        d = make()
        third = d.constant(1.0 / 3.0, F32)
        back = self.op(d, BinaryFn.MUL, self.op(d, UnaryFn.RECIPROCAL, third), third)
        assert d.equal(back, d.constant(1.0, F32)).all()
        a = self.values(d, (2,))
        zero = self.op(d, BinaryFn.SUB, a, a)
        undefined = self.op(d, BinaryFn.DIV, a, zero)
        assert not d.equal(undefined, undefined).any()

    def test_functions_of_equal_arguments(self, make):
        d = make()
        a, b = self.values(d, (2,)), self.values(d, (2,), 1)
        left = self.op(d, UnaryFn.SQRT, self.op(d, UnaryFn.SQUARE, self.op(d, BinaryFn.ADD, a, b)))
        terms = [self.op(d, BinaryFn.MUL, x, y) for x, y in ((a, a), (a, b), (b, a), (b, b))]
        total = terms[0]
        for t in terms[1:]:
            total = self.op(d, BinaryFn.ADD, total, t)
        assert d.equal(left, self.op(d, UnaryFn.SQRT, total)).all()
        assert not d.equal(left, self.op(d, UnaryFn.TANH, total)).any()


def test_symbolic_arithmetic_gives_up_on_large_sums():
    d = Symbolic()
    a, b = d.inputs(0, (300,)), d.inputs(1, (300,))
    first, second = (d.reduce(ReduceFn.SUM, x, (0,), F32) for x in (a, b))
    with pytest.raises(NoProof):
        d.binary(BinaryFn.MUL, first, second, F32)
