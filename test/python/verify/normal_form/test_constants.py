"""Constants are compared exactly, and are treated as equal only if the kernels are the same."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from example_programs import graphs
from example_programs.one_liners import function, kernel
from hypothesis import given
from hypothesis import strategies as st
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import Axis, Constant
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.normal_form.constants import compiled, read_alike

F16, F32, F64 = DType.F16, DType.F32, DType.F64
QUICK = VerifyOptions(seed=1, numerics=False)


def applied(*factors, fn=BinaryFn.MUL, dtype=F32):
    """``x`` times (or plus) one constant after the other."""

    def build(b, x):
        for f in factors:
            x = b.binary(fn, x, b.constant(f, dtype))
        return x

    return function(build, graphs.tensor(8, 8, dtype=dtype))


def in_kernel(*factors):
    def body(b, p):
        x = b.load(p, (("i",), ()), (4, 8))
        for f in factors:
            x = b.binary(BinaryFn.MUL, x, b.constant(f))
        return (x,)

    x = graphs.tensor(8, 8, dtype=F32)
    return kernel((x,), (Axis("i", 2),), body, [(("i",), ())], [(8, 8)])


def single(value) -> float:
    """Rounded to f32."""
    return float(np.float32(float(value)))


def kind(first, second):
    return verify(first, second, QUICK).kind


PAIRS = [(0.797, 0.3), (0.0883883, 0.7071067), (128.0**-0.25, 128.0**-0.25), (1e-3, 7.0)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("make", [applied, in_kernel])
def test_folded_exactly(make, pair):
    a, b = (Constant((), (graphs.tensor(),), v).value for v in pair)
    assert kind(applied(*pair), make(a * b)) is Kind.PROVED
    assert kind(applied(*pair), make(b, a)) is Kind.PROVED


@pytest.mark.parametrize("pair", PAIRS)
def test_folded_in_floating_point(pair):
    """A product that was rounded to f64 or to f32 compiles to the same f32 number."""
    a, b = pair
    assert kind(applied(a, b), applied(a * b)) is Kind.PROVED
    assert kind(applied(a, b), in_kernel(single(a * b))) is Kind.PROVED


def test_sums_and_quotients_are_folded_too():
    total = applied(0.12345 + 0.6789, fn=BinaryFn.ADD)
    assert kind(applied(0.12345, 0.6789, fn=BinaryFn.ADD), total) is Kind.PROVED
    assert kind(applied(0.3, 7.0), applied(single(0.3 / 7.0))) is Kind.REFUTED
    divided = function(
        lambda b, x: b.binary(
            BinaryFn.DIV, b.binary(BinaryFn.MUL, x, b.constant(0.3)), b.constant(7.0)
        ),
        graphs.tensor(8, 8, dtype=F32),
    )
    assert kind(divided, applied(single(0.3 / 7.0))) is Kind.PROVED


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.3, 0.3001),
        (1 / 4096, 1 / 4095),
        (0.3, single(0.3) + 2.0**-25),  # the next number of f32
        (1.0, 1.0 + 2.0**-23),
        (0.797 * 0.3, 0.797 * 0.3 * (1 + 1e-6)),
        (1e-6, 1.0000005e-6),
    ],
)
@pytest.mark.parametrize("make", [applied, in_kernel])
def test_different_constants_are_refuted(make, first, second):
    assert kind(applied(first), make(second)) is Kind.REFUTED
    assert kind(applied(second), make(first)) is Kind.REFUTED


def test_a_difference_that_is_amplified_is_seen():
    """(c x - x) 2^20 for two c that are one ulp of f32 apart, and for c = 1."""

    def amplified(c):
        def build(b, x):
            y = b.binary(BinaryFn.SUB, b.binary(BinaryFn.MUL, x, b.constant(c)), x)
            return b.binary(BinaryFn.MUL, y, b.constant(2.0**20))

        return function(build, graphs.tensor(8, 8, dtype=F32))

    assert kind(amplified(1.0 + 2.0**-22), amplified(1.0 + 2.0**-23)) is Kind.REFUTED
    assert kind(amplified(1.0 + 2.0**-23), amplified(1.0)) is Kind.REFUTED


def test_constants_of_f64_are_compared_in_f64():
    assert kind(applied(0.1, 0.7, dtype=F64), applied(0.07, dtype=F64)) is Kind.PROVED
    # rounded twice: another number of f64
    assert kind(applied(0.1, 0.7, dtype=F64), applied(0.1 * 0.7, dtype=F64)) is Kind.UNKNOWN
    assert kind(applied(0.1, 0.7, dtype=F64), applied(single(0.07), dtype=F64)) is Kind.REFUTED


def test_half_types_compare_what_kernels_hold_in_f32():
    assert kind(applied(0.1, 0.7, dtype=F16), applied(single(0.07), dtype=F16)) is Kind.PROVED
    rounded = float(np.float16(0.07))
    assert kind(applied(0.1, 0.7, dtype=F16), applied(rounded, dtype=F16)) is Kind.REFUTED


@given(
    st.lists(st.floats(2.0**-10, 2.0**10, width=32), min_size=1, max_size=3),
    st.floats(2.0**-10, 2.0**10, width=32),
    st.sampled_from([F16, F32, F64]),
)
def test_what_is_read_alike_compiles_to_the_same(known, value, dtype):
    """No replacement of a constant changes a kernel."""
    candidate = applied(value, dtype=dtype)
    reference = applied(*known, dtype=dtype)
    first, second, read = read_alike(reference, candidate)
    changed: dict[object, object] = {}
    for graph, other in ((reference, first), (candidate, second)):
        for before, after in zip(graph.ops, other.ops, strict=True):
            if isinstance(before, Constant):
                assert compiled(before.value, dtype) == compiled(after.value, dtype)
                assert before.result is after.result
                changed |= {} if before.value == after.value else {before.value: after.value}
    assert read == changed


def test_the_evidence_says_what_was_read():
    verdict = verify(applied(0.797, 0.3), applied(single(0.2391)), QUICK)
    (said,) = [e.text for e in verdict.evidence if e.name == "constants"]
    assert str(Fraction(2391, 10000)) in said
