"""Reciprocals as symbols: those of multiples are multiples, for sums of any length."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.domain import Planes
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.symbolic import Symbolic

F32 = DType.F32
Factor = tuple[str, int]


class _Sums:
    """Sums of `e^(x_i y_i) z_i` and single terms to multiply them with."""

    def __init__(self) -> None:
        self.domain = Symbolic(reciprocals_as_symbols=True)
        (x,), (y,), (z,) = (self.domain.inputs(i, (48,)) for i in range(3))
        self.x, self.y, self.z = x, y, z

    def exp(self, value: Planes) -> Planes:
        return self.domain.unary(UnaryFn.EXP, value, F32)

    def times(self, a: Planes, b: Planes) -> Planes:
        return self.domain.binary(BinaryFn.MUL, a, b, F32)

    def invert(self, a: Planes) -> Planes:
        return self.domain.unary(UnaryFn.RECIPROCAL, a, F32)

    def total(self, terms: int) -> Planes:
        each = self.times(self.exp(self.times((self.x,), (self.y,))), (self.z,))
        total: Planes = (each[0][0:1],)
        for i in range(1, terms):
            total = self.domain.binary(BinaryFn.ADD, total, (each[0][i : i + 1],), F32)
        return total

    def term(self, factors: list[Factor]) -> Planes:
        result: Planes = self.times((self.x[:1],), self.invert((self.x[:1],)))
        for kind, i in factors:
            value: Planes = ((self.x if kind != "y" else self.y)[i : i + 1],)
            if kind == "exp":
                value = self.exp(value)
            elif kind == "1/x":
                value = self.invert(value)
            elif kind == "root":
                value = self.domain.constant(float(i + 2) ** 0.5, F32)
                value = (value[0].reshape(1),)
            result = self.times(result, value)
        return result


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 48),
    st.lists(
        st.tuples(st.sampled_from(["x", "y", "exp", "1/x", "root"]), st.integers(0, 47)),
        max_size=4,
    ),
)
def test_reciprocals_of_multiples(terms: int, factors: list[Factor]) -> None:
    s = _Sums()
    total, factor = s.total(terms), s.term(factors)
    left = s.invert(s.times(total, factor))
    right = s.times(s.invert(total), s.invert(factor))
    assert s.domain.equal(left, right).all()


@pytest.mark.parametrize("terms", [2, 40])
def test_reciprocals_of_other_sums_differ(terms: int) -> None:
    s = _Sums()
    total = s.total(terms)
    other = s.domain.binary(BinaryFn.ADD, total, (s.x[:1],), F32)
    assert not s.domain.equal(s.invert(total), s.invert(other)).any()


# ---- long sums as symbols ------------------------------------------------------------------------


def _folding(terms: int, which: str) -> bool:
    """Return whether ``s * s * t`` is found equal to another expression, for sums of ``terms``
    terms."""
    domain = Symbolic(fold=True)
    (x,), (y,) = (domain.inputs(i, (terms,)) for i in range(2))

    def times(a: Planes, b: Planes) -> Planes:
        return domain.binary(BinaryFn.MUL, a, b, F32)

    def total(v: Planes) -> Planes:
        return domain.reduce(ReduceFn.SUM, v, (0,), F32)

    two = domain.constant(2.0, F32)
    s, t = total((x,)), total((y,))
    left = times(times(s, t), t)
    right = {
        "same": lambda: times(times(t, s), t),
        "multiple": lambda: times(times(times(two, s), t), times(t, domain.constant(0.5, F32))),
        "twice": lambda: times(times(times(two, s), t), t),
        "other": lambda: times(times(s, t), s),
        "one term less": lambda: times(times(total((x[1:],)), t), t),
        "one sign": lambda: times(
            times(domain.binary(BinaryFn.SUB, s, times(two, (x[:1],)), F32), t), t
        ),
    }[which]()
    assert domain.folded is (terms > 8)
    return bool(domain.equal(left, right).all())


@pytest.mark.parametrize("terms", [3, 40])
@pytest.mark.parametrize("which", ["same", "multiple"])
def test_long_sums_are_known_again(terms: int, which: str) -> None:
    assert _folding(terms, which)


@pytest.mark.parametrize("terms", [3, 40])
@pytest.mark.parametrize("which", ["twice", "other", "one term less", "one sign"])
def test_other_sums_are_other_symbols(terms: int, which: str) -> None:
    assert not _folding(terms, which)
