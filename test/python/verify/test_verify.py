"""Verdicts: acceptance, refutation, and the floating-point gate."""

from __future__ import annotations

import json

import numpy as np
import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Axis, BlockGraph, External, KernelGraph, Output, Value
from mirage.verify import BadOptions, Kind, SignatureMismatch, VerifyOptions, verify
from mirage.verify.evidence.samples.floats import Yardstick
from mirage.verify.pair.output_order import match_outputs
from thorough import some_of

F32 = DType.F32
PAIRS = graphs.small_pairs()
CASES = [(p, c) for p, pair in PAIRS.items() for c in pair.candidates]
INACCURATE = {
    # Without a running maximum large scores overflow.
    ("attention", "split"),
    ("attention_scaled", "split"),
    # x times its gain exceeds f16, but its norm does not.
    ("rms_linear", "one_kernel"),
    # E[x^2] - E[x]^2 has no digits left if the mean is large.
    ("layer_norm", "moments"),
}
"""Equal as functions, not acceptable in floating point."""
REAL = {
    "rms_linear": graphs.rms_linear(16, 4096, 6144, blocks=96, steps=64),
    "attention": graphs.attention(4, 256, 4096, 64, splits=8, steps=4, row_blocks=2),
    "attention_odd": graphs.attention(
        3, 250, 1001, 64, splits=3, steps=5, row_blocks=3, scale=96**-0.5
    ),
    "swiglu": graphs.swiglu(8, 4096, 4096, blocks=64, steps=64),
    "softmax": graphs.softmax(4096, 32768, row_blocks=4096, steps=16),
}


@pytest.mark.parametrize(("pair", "candidate"), some_of(CASES, every=3))
def test_correct_candidates_are_proved(pair, candidate):
    verdict = verify(PAIRS[pair].reference, PAIRS[pair].candidates[candidate])
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.numerics_hold is ((pair, candidate) not in INACCURATE), verdict
    assert verdict.accepted is verdict.numerics_hold
    json.dumps(verdict.to_json())


@pytest.mark.parametrize("pair", some_of(REAL, every=2))
def test_real_sizes(pair):
    for name, candidate in REAL[pair].candidates.items():
        verdict = verify(REAL[pair].reference, candidate, VerifyOptions(seed=4, work=5e5))
        assert verdict.equivalent, verdict
        assert verdict.numerics_hold is ((pair.removesuffix("_odd"), name) not in INACCURATE), (
            verdict
        )


@pytest.mark.parametrize(("pair", "candidate"), CASES)
def test_without_the_prover_there_is_a_bound(pair, candidate):
    options = VerifyOptions(prove=False, numerics=False)
    verdict = verify(PAIRS[pair].reference, PAIRS[pair].candidates[candidate], options)
    assert verdict.kind is Kind.PROBABLE
    assert verdict.bound_log2 is not None
    assert verdict.bound_log2 <= -60.0
    assert "error at most 2^-" in str(verdict)
    figures = next(e.figures for e in verdict.evidence if e.name.startswith("small model"))
    assert {"degree", "terms", "prime_bits", "extents", "draws"} <= set(figures)


def test_seeds_make_runs_repeatable():
    pair = PAIRS["attention"]
    runs = [
        verify(pair.reference, pair.candidates["flash"], VerifyOptions(seed=s)).to_json()
        for s in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]
    assert (
        verify(pair.reference, pair.candidates["flash"]).seed
        != verify(pair.reference, pair.candidates["flash"]).seed
    )


def qk_norm(h: int, s: int, t: int, d: int) -> tuple[KernelGraph, KernelGraph]:
    """QKNorm attention, and the original search's "optimisation" of it, which it accepted 190
    times.

    Instead of the contraction over ``d`` the scores are the sum of a row of the normalised Q times
    the first row of K.
    """
    q, k, v = graphs.tensor(h, s, d), graphs.tensor(h, d, t), graphs.tensor(h, t, d)
    results = []
    for faulty in (False, True):
        b = Builder()
        nq = b.rms_norm(q)
        nk = b.transpose(b.rms_norm(b.transpose(k, (0, 2, 1))), (0, 2, 1))
        if faulty:
            row = b.reduce(ReduceFn.SUM, nq, (2,))
            scores = b.binary(BinaryFn.MUL, row, b.slice(nk, (0, 0, 0), (h, 1, t)))
        else:
            scores = b.matmul(nq, nk)
        y = b.matmul(b.softmax(scores, 2), v)
        results.append(KernelGraph("qk_norm", (q, k, v), tuple(b.ops), (y,)))
    return results[0], results[1]


@pytest.mark.parametrize("sizes", [(2, 3, 5, 4), (2, 256, 4096, 64)])
def test_the_fault_that_the_original_accepted(sizes):
    reference, faulty = qk_norm(*sizes)
    verdict = verify(reference, faulty, VerifyOptions(seed=0, work=1e6))
    assert verdict.kind is Kind.REFUTED
    assert verdict.witness is not None
    evidence = {e.name: e.holds for e in verdict.evidence}
    # by its own tests, without floating point
    assert evidence["finite field at the real sizes"] is False
    assert "seed 0" in str(verdict)
    assert verify(reference, reference, VerifyOptions(work=1e6)).kind is Kind.PROVED


def outputs(*names: str) -> KernelGraph:
    """Several outputs of one input, in the given order."""
    x = graphs.tensor(4, 6, dtype=F32)
    b = Builder()
    values = {
        "exp": b.unary(UnaryFn.EXP, x),
        "neg": b.unary(UnaryFn.NEG, x),
        "double": b.binary(BinaryFn.ADD, x, x),
        "twice": b.binary(BinaryFn.MUL, x, b.constant(2.0)),
    }
    return KernelGraph("outputs", (x,), tuple(b.ops), tuple(values[n] for n in names))


def test_permuted_outputs():
    reference = outputs("exp", "neg", "double")
    candidate = outputs("neg", "twice", "exp")
    assert verify(reference, candidate).kind is Kind.REFUTED
    verdict = verify(reference, candidate, VerifyOptions(permute=True))
    assert verdict.kind is Kind.PROVED
    assert verdict.permutation == (2, 0, 1)
    assert verify(reference, outputs("exp", "neg", "double")).permutation == (0, 1, 2)
    wrong = verify(reference, outputs("neg", "exp", "exp"), VerifyOptions(permute=True))
    assert wrong.kind is Kind.REFUTED


def test_matching_of_outputs():
    assert match_outputs([[True, True], [True, False]]) == (1, 0)
    assert match_outputs([[True, False], [True, False]]) is None


def test_signatures_must_agree():
    with pytest.raises(
        SignatureMismatch, match=r"inputs: expected types \['5x10xf16'\], got \['4x6xf32'\]"
    ):
        verify(PAIRS["softmax"].reference, outputs("exp"))
    with pytest.raises(SignatureMismatch, match="outputs"):
        verify(outputs("exp"), outputs("exp", "exp"))


def test_invalid_graphs_are_errors():
    graph = PAIRS["lora"].reference
    broken = KernelGraph("broken", graph.inputs, graph.ops[::-1], graph.outputs)
    with pytest.raises(InvalidGraph):
        verify(graph, broken)


def pointwise(build) -> KernelGraph:
    x = graphs.tensor(6, 5, dtype=F32)
    b = Builder()
    y = build(b, x)
    return KernelGraph("pointwise", (x,), tuple(b.ops), (y,))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            lambda b, x: b.unary(UnaryFn.SILU, x),
            lambda b, x: b.binary(BinaryFn.MUL, b.unary(UnaryFn.SIGMOID, x), x),
        ),
        (
            lambda b, x: b.unary(UnaryFn.RSQRT, b.unary(UnaryFn.SQUARE, x)),
            lambda b, x: b.unary(
                UnaryFn.RECIPROCAL, b.unary(UnaryFn.SQRT, b.binary(BinaryFn.MUL, x, x))
            ),
        ),
        (
            lambda b, x: b.unary(UnaryFn.RELU, x),
            lambda b, x: b.binary(BinaryFn.MAX, b.constant(0.0), x),
        ),
        (
            lambda b, x: b.binary(BinaryFn.POW, x, b.constant(3.0)),
            lambda b, x: b.binary(BinaryFn.MUL, x, b.unary(UnaryFn.SQUARE, x)),
        ),
        (
            lambda b, x: b.binary(
                BinaryFn.DIV, b.binary(BinaryFn.MUL, x, b.constant(128.0**0.5)), b.constant(128.0)
            ),
            lambda b, x: b.binary(BinaryFn.MUL, x, b.constant(128.0**-0.5)),
        ),
    ],
    ids=["silu", "rsqrt", "relu", "pow", "folded"],
)
def test_known_identities(first, second):
    assert (
        verify(pointwise(first), pointwise(second), VerifyOptions(numerics=False)).kind
        is Kind.PROVED
    )


def test_unknown_identities_are_neither_accepted_nor_refuted():
    """gelu(x) - gelu(-x) = x holds, but the verifier does not know it."""

    def both_signs(b: Builder, x: Value) -> Value:
        negative = b.unary(UnaryFn.GELU, b.unary(UnaryFn.NEG, x))
        return b.binary(BinaryFn.SUB, b.unary(UnaryFn.GELU, x), negative)

    first = pointwise(lambda b, x: b.binary(BinaryFn.MUL, x, b.constant(1.0)))
    second = pointwise(both_signs)
    verdict = verify(first, second)
    assert verdict.kind is Kind.UNKNOWN
    assert not verdict.accepted


def test_undefined_everywhere_is_unknown():
    zero = pointwise(lambda b, x: b.binary(BinaryFn.DIV, x, b.binary(BinaryFn.SUB, x, x)))
    assert verify(zero, zero).kind is Kind.UNKNOWN


def test_half_precision_accumulation_fails_the_numeric_gate():
    """The function is the same, with the sum of squares in f16: proved equal, and rejected."""
    x = graphs.tensor(4, 4096)
    results = []
    for wide in (True, False):
        b = Builder()
        y = b.cast(x, F32) if wide else x
        total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, y), (1,))
        root = b.unary(UnaryFn.SQRT, b.cast(total, F32) if not wide else total)
        results.append(KernelGraph("norm", (x,), tuple(b.ops), (root,)))
    verdict = verify(results[0], results[1], VerifyOptions(work=1e6))
    assert verdict.kind is Kind.PROVED
    assert verdict.numerics_hold is False
    assert not verdict.accepted


def test_online_maximum_survives_scores_of_1e4():
    pair = graphs.attention(2, 16, 128, 32, splits=4, steps=2)
    rng = np.random.default_rng(0)
    xs = [
        rng.standard_normal(v.shape).astype(np.float16).astype(float) * s
        for v, s in zip(pair.reference.inputs, (50.0, 50.0, 1.0))
    ]
    domain = Yardstick()
    (exact,) = evaluate_floats(pair.reference, xs, domain)
    assert domain.largest_exponent > 1e4
    (reference,) = evaluate_floats(pair.reference, xs, TypedFloat())
    for name in ("flash", "split_online"):
        (y,) = evaluate_floats(pair.candidates[name], xs, TypedFloat())
        assert np.isfinite(y).all()
        assert np.abs(y - exact).max() <= 2.0 * max(np.abs(reference - exact).max(), 2.0**-11)
    assert not np.isfinite(evaluate_floats(pair.candidates["split"], xs, TypedFloat())[0]).all()


def test_verification_reports_what_it_did():
    pair = PAIRS["attention"]
    text = str(verify(pair.reference, pair.candidates["split_online"]))
    for part in (
        "proved",
        "finite field at the real sizes: holds",
        "% of the outputs compared",
        "rounding errors: holds",
    ):
        assert part in text


def with_call(before, after, target: str = "aten.cumsum") -> KernelGraph:
    """A program around a call that stays with the framework."""
    x = graphs.tensor(4, 6, dtype=F32)
    b = Builder()
    y = before(b, x)
    result = Value(y.type)
    b.ops.append(External((y,), (result,), target, (("dim", 1),)))
    z = after(b, result)
    return KernelGraph("call", (x,), tuple(b.ops), (z,))


def test_programs_around_calls_are_compared():
    def double(b, x):
        return b.binary(BinaryFn.ADD, x, x)

    def twice(b, x):
        return b.binary(BinaryFn.MUL, x, b.constant(2.0))

    def negative(b, x):
        return b.unary(UnaryFn.NEG, x)

    reference = with_call(double, negative)
    assert verify(reference, with_call(twice, negative)).kind is Kind.PROVED
    for changed in (with_call(negative, negative), with_call(double, double)):
        assert verify(reference, changed).kind is Kind.REFUTED
    other = verify(reference, with_call(double, negative, "aten.cumprod"))
    assert other.kind is Kind.REFUTED
    assert "aten.cumprod(4x6xf32; {'dim': 1}) -> 4x6xf32" in str(other)


def test_partly_undefined_outputs_are_not_taken_for_equal():
    """0/0 in one output must not let it pass for another one."""

    def graph(order):
        x = graphs.tensor(4, 6, dtype=F32)
        b = Builder()
        zero = b.binary(BinaryFn.SUB, x, x)
        values = (b.binary(BinaryFn.DIV, x, zero), b.unary(UnaryFn.NEG, x))
        return KernelGraph("undefined", (x,), tuple(b.ops), tuple(values[i] for i in order))

    verdict = verify(graph((0, 1)), graph((1, 0)), VerifyOptions(permute=True))
    assert verdict.kind is Kind.UNKNOWN


def test_overflow_is_no_difference():
    """exp(x + c) / exp(c): equal as a function; with a large c it overflows even in float64."""

    def shifted(c):
        return pointwise(
            lambda b, x: b.binary(
                BinaryFn.DIV,
                b.unary(UnaryFn.EXP, b.binary(BinaryFn.MUL, b.constant(c), x)),
                b.unary(
                    UnaryFn.EXP,
                    b.binary(BinaryFn.SUB, b.binary(BinaryFn.MUL, b.constant(c), x), x),
                ),
            )
        )

    plain = pointwise(lambda b, x: b.unary(UnaryFn.EXP, x))
    verdict = verify(plain, shifted(2000.0))
    assert verdict.kind is Kind.PROVED
    assert verdict.numerics_hold is False


def test_useless_programs_are_not_accepted():
    """A softmax shifted by 1e30 is the same function, and 0/0 in any floating-point format."""
    x = graphs.tensor(4, 6, dtype=F32)
    results = []
    for shift in (0.0, 1e30):
        b = Builder()
        e = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, x, b.constant(shift)))
        y = b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,)))
        results.append(KernelGraph("shifted", (x,), tuple(b.ops), (y,)))
    for numerics in (True, False):
        verdict = verify(results[0], results[1], VerifyOptions(numerics=numerics))
        assert verdict.kind is Kind.PROVED
        assert not verdict.accepted


@pytest.mark.parametrize(
    ("size", "first", "second"), [(192, 2, 3), (19200, 2, 3), (4 * 96 * 97, 96, 97)]
)
def test_programs_without_a_common_index_structure(size, first, second):
    """Halves are three sixths each, and thirds two. If there are too many such blocks, only tests
    without a bound pass.
    """
    x = graphs.tensor(size, dtype=F32)

    def total(tile, parts, factor):
        (p,) = params = graphs.params_of((x,))
        b = Builder(in_block=True)
        y = b.unary(UnaryFn.EXP, b.load(p, (("i",),), (tile,)))
        y = b.binary(BinaryFn.MUL, y, b.constant(factor))
        body = BlockGraph(params, tuple(b.ops), (Output(y, (("i",),)),))
        op = graphs.launch((x,), (Axis("i", parts),), body, (x.type,))
        c = Builder()
        z = c.binary(BinaryFn.DIV, c.reduce(ReduceFn.SUM, op.result, (0,)), c.constant(factor))
        return KernelGraph("total", (x,), (op, *c.ops), (z,))

    options = VerifyOptions(numerics=False)
    one, other = total(size // first, first, 3.0), total(size // second, second, 5.0)
    verdict = verify(one, other, options)
    assert verdict.kind is (Kind.PROVED if first == 2 else Kind.UNKNOWN), verdict
    if first != 2:
        assert verdict.evidence[-1].name == "bound"
        assert not verdict.accepted


def test_bad_options():
    for bad in ({"draws": 0}, {"work": 0.0}, {"max_error_log2": 0.0}):
        with pytest.raises(BadOptions):
            VerifyOptions(**bad)
