"""Logarithms of exponentials: ``log(e^c a) = c + log(a)``, and no similar formula that is wrong."""

from __future__ import annotations

import random

import numpy as np
import pytest
from example_programs import graphs
from example_programs.one_liners import function, kernel
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import AccumulateFn, Accumulator, Axis, KernelGraph
from mirage.verify import Kind, Verdict, VerifyOptions, verify
from mirage.verify.arithmetic.field import FieldPair
from mirage.verify.arithmetic.logarithms import common_part
from mirage.verify.arithmetic.primes import draw
from mirage.verify.evidence.proofs.proof import prove
from mirage.verify.evidence.proofs.small_model import small_pair

F32 = DType.F32
QUICK = VerifyOptions(seed=1, numerics=False)
ADD, SUB, MUL, DIV = BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.DIV
EXP, LOG = UnaryFn.EXP, UnaryFn.LOG
ROWS, WORDS, STEPS = 6, 60, 5


def log_sum_exp(b, x, *, shift=None, sign=1, total=ReduceFn.SUM):
    """``log sum e^(x - shift) + sign shift`` over the last dimension."""
    y = x if shift is None else b.binary(SUB, x, shift)
    result = b.unary(LOG, b.reduce(total, b.unary(EXP, y), (1,)))
    if shift is None or sign == 0:
        return result
    return b.binary(ADD if sign > 0 else SUB, result, shift)


def cross_entropy(build) -> KernelGraph:
    """``-sum p (x - build(x))``."""

    def program(b, x, p):
        logs = b.binary(SUB, x, build(b, x))
        return b.unary(UnaryFn.NEG, b.reduce(ReduceFn.SUM, b.binary(MUL, p, logs), (1,)))

    return function(program, graphs.tensor(ROWS, WORDS, dtype=F32), graphs.tensor(ROWS, WORDS))


def online(*, keep_last=True, rescaled=True, other_sum=False, shift="largest") -> KernelGraph:
    """The same program in one kernel, with the vocabulary in steps and a running maximum."""
    x = graphs.tensor(ROWS, WORDS, dtype=F32)
    p = graphs.tensor(ROWS, WORDS)

    def body(b, px, pp):
        i = Builder(in_block=True)
        tile = (ROWS // 2, WORDS // STEPS)
        tx, tp = (i.load(v, (("r",), ("k",)), tile) for v in (px, pp))
        m = i.running_max(i.reduce(ReduceFn.MAX, tx, (1,)))
        e = i.unary(EXP, i.binary(SUB, tx, m))
        e = i.binary(MUL, e, e) if other_sum else e
        accumulators = (
            Accumulator(AccumulateFn.SUM, i.reduce(ReduceFn.SUM, e, (1,)), m if rescaled else None),
            Accumulator(AccumulateFn.SUM, i.reduce(ReduceFn.SUM, i.binary(MUL, tp, tx), (1,))),
            Accumulator(AccumulateFn.SUM, i.reduce(ReduceFn.SUM, tp, (1,))),
            Accumulator(AccumulateFn.LAST if keep_last else AccumulateFn.SUM, m),
        )
        total, products, weights, last = b.loop(Axis("k", STEPS), tuple(i.ops), accumulators)
        logs = b.unary(LOG, total)
        if shift != "dropped":
            logs = b.binary(SUB if shift == "negative" else ADD, logs, last)
        if shift == "twice":
            logs = b.binary(ADD, logs, last)
        return (b.binary(SUB, b.binary(MUL, weights, logs), products),)

    grid = (Axis("r", 2),)
    return kernel((x, p), grid, body, [(("r",), ())], [(ROWS, 1)])


PLAIN = cross_entropy(log_sum_exp)


def verdict_of(candidate: KernelGraph) -> Verdict:
    return verify(PLAIN, candidate, QUICK)


def row_maximum(b, x):
    return b.reduce(ReduceFn.MAX, x, (1,))


def test_the_maximum_comes_out_of_the_logarithm():
    stable = cross_entropy(lambda b, x: log_sum_exp(b, x, shift=row_maximum(b, x)))
    verdict = verdict_of(stable)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.holds_for is not None


def test_the_maximum_goes_through_exponential_and_logarithm():
    def there_and_back(b, x):
        shift = row_maximum(b, x)
        exponential = b.unary(EXP, b.binary(SUB, log_sum_exp(b, x), shift))
        return b.binary(ADD, b.unary(LOG, exponential), shift)

    verdict = verdict_of(cross_entropy(there_and_back))
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.holds_for is not None
    assert "discrete logarithms" in str(verdict)


def test_online_maximum():
    verdict = verify(PLAIN, online(), VerifyOptions(seed=1))
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.accepted


@pytest.mark.parametrize(
    "fault",
    [
        {"shift": "dropped"},
        {"shift": "negative"},
        {"shift": "twice"},
        {"keep_last": False},
        {"rescaled": False},
        {"other_sum": True},
    ],
)
def test_faults_in_a_kernel_are_refuted(fault):
    assert verdict_of(online(**fault)).kind is Kind.REFUTED


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: log_sum_exp(b, x, shift=row_maximum(b, x), sign=-1),
        lambda b, x: log_sum_exp(b, x, shift=row_maximum(b, x), sign=0),
        lambda b, x: log_sum_exp(b, x, total=ReduceFn.MAX),
        lambda b, x: log_sum_exp(b, b.binary(MUL, x, b.constant(2.0))),
        lambda b, x: b.reduce(ReduceFn.SUM, b.unary(LOG, b.unary(EXP, x)), (1,)),
        lambda b, x: b.unary(LOG, b.reduce(ReduceFn.SUM, x, (1,))),
        # the maximum of half of the row, and of another row
        lambda b, x: b.binary(
            ADD,
            log_sum_exp(b, x, shift=row_maximum(b, x), sign=0),
            row_maximum(b, b.slice(x, (0, 0), (ROWS, WORDS // 2))),
        ),
        lambda b, x: b.binary(
            ADD,
            log_sum_exp(b, x, shift=row_maximum(b, x), sign=0),
            b.concat(
                tuple(b.slice(row_maximum(b, x), (i, 0), (ROWS // 2, 1)) for i in (ROWS // 2, 0)),
                0,
            ),
        ),
    ],
)
def test_wrong_logarithms_are_refuted(build):
    assert verdict_of(cross_entropy(build)).kind is Kind.REFUTED


def test_the_logarithm_of_one_exponential_is_its_exponent():
    x, y = graphs.tensor(8, 16, dtype=F32), graphs.tensor(16, 4, dtype=F32)
    back = function(lambda b, x, y: b.unary(LOG, b.unary(EXP, b.matmul(x, y))), x, y)
    same = function(lambda b, x, y: b.matmul(x, y), x, y)
    assert verify(back, same, QUICK).kind is Kind.PROVED
    twice = function(lambda b, x, y: b.matmul(b.binary(ADD, x, x), y), x, y)
    assert verify(back, twice, QUICK).kind is Kind.REFUTED


def test_summed_logarithms_count_the_indices_of_exponents():
    """The exponent that comes out is a sum over an index: products of two logarithms relate two."""

    def build(b, x, y, of_logs):
        e = b.matmul(x, y)
        if of_logs:
            e = b.unary(LOG, b.unary(EXP, e))
        return b.binary(MUL, e, e)

    x, y = graphs.tensor(8, 64, dtype=F32), graphs.tensor(64, 4, dtype=F32)
    logs, plain = (function(lambda b, x, y, o=o: build(b, x, y, o), x, y) for o in (True, False))
    assert (
        small_pair(logs, logs).needs.singles.most_common(1)[0][1]
        >= (small_pair(plain, plain).needs.singles.most_common(1)[0][1])
    )


def test_logarithms_of_products_are_not_split_where_that_is_undefined():
    """``log(x y)`` is defined for two negative numbers, the sum of logarithms is not."""
    x, y = graphs.tensor(32, dtype=F32), graphs.tensor(32, dtype=F32)
    product = function(lambda b, x, y: b.unary(LOG, b.binary(MUL, x, y)), x, y)
    apart = function(lambda b, x, y: b.binary(ADD, b.unary(LOG, x), b.unary(LOG, y)), x, y)
    verdict = verify(product, apart, QUICK)
    assert verdict.kind is Kind.REFUTED  # by numbers for which the candidate gives NaN
    assert not verdict.accepted


def test_different_maxima_do_not_come_out():
    """``log(sum e^(x - max x) + sum e^(y - max y))`` has no maximum in common."""

    def build(taken):
        def program(b, x, y):
            tops = [row_maximum(b, v) for v in (x, y)]
            sums = [
                b.reduce(ReduceFn.SUM, b.unary(EXP, b.binary(SUB, v, m)), (1,))
                for v, m in zip((x, y), tops)
            ]
            both = b.unary(LOG, b.binary(ADD, *sums))
            return b.binary(ADD, both, b.binary(SUB, tops[taken], tops[0]))

        inputs = (graphs.tensor(ROWS, WORDS, dtype=F32), graphs.tensor(ROWS, WORDS, dtype=F32))
        return function(program, *inputs)

    assert verify(build(0), build(1), QUICK).kind is Kind.REFUTED
    assert verify(build(0), build(0), QUICK).kind is Kind.PROVED


def log_softmax(b, x):
    return b.binary(SUB, x, log_sum_exp(b, x))


@pytest.mark.parametrize("stable", [False, True])
def test_the_logarithm_of_a_softmax(stable):
    """The denominator is a sum of exponentials, and positive."""

    def build(b, x):
        y = b.binary(SUB, x, row_maximum(b, x)) if stable else x
        e = b.unary(EXP, y)
        return b.unary(LOG, b.binary(DIV, e, b.reduce(ReduceFn.SUM, e, (1,))))

    x = graphs.tensor(ROWS, WORDS, dtype=F32)
    verdict = verify(function(build, x), function(log_softmax, x), QUICK)
    assert verdict.kind is Kind.PROVED, verdict
    wrong = function(lambda b, x: b.unary(UnaryFn.NEG, log_softmax(b, x)), x)
    assert verify(function(build, x), wrong, QUICK).kind is Kind.REFUTED


@pytest.mark.parametrize("sign", [1, -1])
def test_quotients_are_split_only_if_one_side_is_positive(sign):
    """If both may be negative, ``log(n / m)`` is defined and ``log(n) - log(m)`` is not."""
    x, y = graphs.tensor(ROWS, WORDS, dtype=F32), graphs.tensor(ROWS, WORDS, dtype=F32)

    def build(split):
        def program(b, x, y):
            e = b.unary(EXP, x)
            top = b.reduce(ReduceFn.SUM, b.binary(MUL, e, y), (1,))
            bottom = b.reduce(ReduceFn.SUM, e if sign > 0 else b.binary(SUB, e, y), (1,))
            if split:
                return b.binary(SUB, b.unary(LOG, top), b.unary(LOG, bottom))
            return b.unary(LOG, b.binary(DIV, top, bottom))

        return function(program, x, y)

    pair = small_pair(build(False), build(True))
    assert prove(pair).holds is (True if sign > 0 else None)


def test_exponentials_times_logarithms_have_no_residue():
    """Entropy: the logarithm has no first residue and the exponential no second one, so that only
    the attempt without a field shows it."""

    def log_of_square(b, x):
        total = b.reduce(ReduceFn.SUM, b.unary(EXP, x), (1,))
        return b.binary(MUL, b.unary(LOG, b.binary(MUL, total, total)), b.constant(0.5))

    def build(squared):
        def entropy(b, x):
            logs = log_of_square(b, x) if squared else log_sum_exp(b, x)
            return b.binary(MUL, b.unary(EXP, x), logs)

        return function(entropy, graphs.tensor(ROWS, WORDS, dtype=F32))

    verdict = verify(build(False), build(True), QUICK)
    assert verdict.kind is Kind.PROVED
    assert verdict.evidence[0].name == "functions"
    assert verify(build(False), build(False), QUICK).kind is Kind.PROVED


# ---- the discrete logarithm ----------------------------------------------------------------------


@pytest.fixture
def domain() -> FieldPair:
    return FieldPair(draw(random.Random(3), 22, 1 << 25), 7, logarithms=True)


def test_discrete_logarithms_undo_exponentials_and_turn_products_into_sums(domain):
    a, b = (domain.random(np.random.default_rng(i), (400,)) for i in range(2))
    e = domain.unary(EXP, a, F32)
    logs = domain.unary(LOG, e, F32)
    assert np.isnan(logs[0]).all()
    np.testing.assert_array_equal(logs[1], a[1])
    product = domain.unary(LOG, domain.binary(MUL, e, b, F32), F32)
    sums = domain.binary(ADD, a, domain.unary(LOG, b, F32), F32)
    np.testing.assert_array_equal(product[1], sums[1])
    same, defined = domain.agreement(product, sums)
    assert same.all()
    assert defined.all()
    same, _ = domain.agreement(product, a)
    assert same.mean() < 0.01


def test_discrete_logarithms_of_nothing_are_undefined(domain):
    logs = domain.unary(LOG, (np.array([0.0, np.nan, -np.inf]),), F32)
    assert np.isnan(logs[1]).all()
    assert not domain.agreement(logs, logs)[1].any()


# ---- the moved part ------------------------------------------------------------------------------

MONOMIALS = {0: (), 1: ((7, 1),), 2: ((8, 1),), 3: ((5, 1), (7, 1)), 4: ((5, -1), (7, 1))}


def common(*exponents):
    return common_part(exponents, MONOMIALS.__getitem__, {7})


def test_only_what_all_exponents_share_comes_out():
    assert common({(0, 1): -1, (0, 2): 1}, {(0, 1): -1}) == {(0, 1): -1}
    assert common({(0, 1): -1}, {(0, 1): 1}) == {}  # different multiples
    assert common({(0, 1): -1}, {}) == {}
    assert common({(0, 2): 1}, {(0, 2): 1, (0, 1): 3}) == {}  # not a value of a function


def test_coefficients_of_functions_are_taken_whole():
    assert common({(0, 1): -1, (0, 3): 2}, {(0, 1): -1}) == {}
    assert common({(0, 1): -1, (0, 3): 2}, {(0, 1): -1, (0, 3): 2, (0, 2): 1}) == {
        (0, 1): -1,
        (0, 3): 2,
    }


def test_fractions_stay():
    assert common({(0, 4): 1}, {(0, 4): 1, (0, 2): 1}) == {}
    assert common({(0, 4): 1}) == {}
    assert common({(0, 2): 1, (0, 3): 2}) == {(0, 2): 1, (0, 3): 2}
