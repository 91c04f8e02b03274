"""Sines and cosines as exponentials: identities that are found, and wrong ones."""

from __future__ import annotations

import pytest
from mirage.semantics.domain import Domain, Planes
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.verify.arithmetic.waves import Waves

F = DType.F64


class Written:
    """Expressions of two numbers in a domain."""

    def __init__(self, domain: Domain, numbers: list[Planes]) -> None:
        self.domain, (self.x, self.y) = domain, numbers

    def of(self, fn: UnaryFn, a: Planes) -> Planes:
        return self.domain.unary(fn, a, F)

    def sin(self, a: Planes) -> Planes:
        return self.of(UnaryFn.SIN, a)

    def cos(self, a: Planes) -> Planes:
        return self.of(UnaryFn.COS, a)

    def mul(self, *xs: Planes) -> Planes:
        first, *others = xs
        for x in others:
            first = self.domain.binary(BinaryFn.MUL, first, x, F)
        return first

    def div(self, a: Planes, b: Planes) -> Planes:
        return self.domain.binary(BinaryFn.DIV, a, b, F)

    def add(self, a: Planes, b: Planes) -> Planes:
        return self.domain.binary(BinaryFn.ADD, a, b, F)

    def number(self, value: float) -> Planes:
        return self.domain.constant(value, F)


def same(first: str, second: str) -> bool:
    domain = Waves(most_work=50_000)
    w = Written(domain, [domain.inputs(i, (1,)) for i in range(2)])
    names = {name: getattr(w, name) for name in ("x", "y", "of", "sin", "cos", "mul", "div")}
    names |= {"add": w.add, "n": w.number, "U": UnaryFn}
    a, b = (eval(text, names)[0].ravel()[0] for text in (first, second))
    return domain.same(a, b)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("sin(add(x, y))", "add(mul(sin(x), cos(y)), mul(cos(x), sin(y)))"),
        ("cos(mul(n(3.0), x))", "add(mul(n(4.0), cos(x), cos(x), cos(x)), mul(n(-3.0), cos(x)))"),
        ("add(mul(sin(x), sin(x)), mul(cos(x), cos(x)))", "n(1.0)"),
        ("cos(add(x, mul(n(-1.0), y)))", "cos(add(y, mul(n(-1.0), x)))"),
        ("div(sin(mul(n(2.0), x)), cos(x))", "mul(n(2.0), sin(x))"),
        ("of(U.ABS, mul(n(-2.0), cos(x)))", "mul(n(2.0), of(U.ABS, cos(x)))"),
        (
            "of(U.SQRT, mul(n(4.0), add(n(1.0), cos(x))))",
            "mul(n(2.0), of(U.SQRT, add(n(1.0), cos(x))))",
        ),
        ("mul(of(U.ABS, cos(x)), of(U.ABS, cos(x)))", "mul(cos(x), cos(x))"),
        ("cos(n(0.0))", "n(1.0)"),
    ],
)  # fmt: skip
def test_found(first: str, second: str) -> None:
    assert same(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("sin(add(x, y))", "add(mul(sin(x), cos(y)), mul(n(-1.0), cos(x), sin(y)))"),
        ("of(U.ABS, cos(x))", "cos(x)"),  # an exponential of i t is not positive
        ("of(U.ABS, add(n(2.0), cos(x)))", "add(n(-2.0), mul(n(-1.0), cos(x)))"),
        ("of(U.SQRT, mul(cos(x), cos(x)))", "cos(x)"),
        ("of(U.ABS, div(sin(x), cos(x)))", "div(sin(x), cos(x))"),
        ("of(U.LOG, mul(cos(x), y))", "of(U.LOG, y)"),
        ("of(U.EXP, cos(x))", "of(U.EXP, cos(mul(n(2.0), x)))"),
        ("sin(mul(n(2.0), x))", "mul(sin(x), cos(x))"),
    ],
)  # fmt: skip
def test_not_found(first: str, second: str) -> None:
    assert not same(first, second)
