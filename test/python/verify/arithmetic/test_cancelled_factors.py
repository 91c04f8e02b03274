"""Quotients whose common factors are cancelled."""

from __future__ import annotations

import random

from mirage.semantics.scalar import DType, UnaryFn
from mirage.verify.arithmetic.object_arrays import objects
from mirage.verify.arithmetic.ratios import Element, Ratio
from mirage.verify.arithmetic.real_identities import RealNumbers


def of(fn: UnaryFn, x: Element, domain: RealNumbers) -> Element:
    (plane,) = domain.unary(fn, (objects([x], ()),), DType.F64)
    return plane.item()


def sums(domain: RealNumbers, rng: random.Random, count: int = 3) -> list[Element]:
    """Random sums of exponentials and symbols."""
    xs = [domain.inputs(i, (1,))[0].item() for i in range(count)]
    powers = [of(UnaryFn.EXP, x, domain) for x in xs]
    terms = [*powers, *xs, Ratio({(0, 0): rng.randint(1, 9)})]
    found: list[Element] = []
    for _ in range(4):
        total: Element = Ratio({})
        for term in rng.sample(terms, 3):
            total = domain.add(total, domain.mul(term, Ratio({(0, 0): rng.randint(-5, 5) or 1})))
        found.append(total)
    return found


def test_factors_of_denominators_are_cancelled() -> None:
    for seed in range(20):
        domain = RealNumbers(most_work=100_000)
        a, b, c, d = sums(domain, random.Random(seed))
        below_b, below_bc = domain.invert(b), domain.invert(domain.mul(b, c))
        assert domain.same(domain.mul(domain.mul(a, b), below_b), a)
        quotient = domain.mul(domain.mul(a, domain.mul(b, b)), domain.mul(b, below_bc))
        assert domain.same(quotient, domain.mul(domain.mul(a, b), domain.mul(b, domain.invert(c))))
        assert terms_below(domain.mul(b, below_bc)) <= 3
        # (d / b) - (d / (b c)) is d (c - 1) / (b c)
        less = domain.negated(domain.mul(d, below_bc))
        total = domain.add(domain.mul(d, below_b), less)
        above = domain.mul(d, domain.add(c, Ratio({(0, 0): -1})))
        assert domain.same(total, domain.mul(above, below_bc))
        assert terms_below(total) <= 9


def terms_below(x: Element) -> int:
    return len(x.bottom) if isinstance(x, Ratio) and x.bottom is not None else 1


def test_what_is_no_multiple_is_no_quotient() -> None:
    domain = RealNumbers(most_work=100_000)
    a, b, *_ = sums(domain, random.Random(0))
    product = domain.mul(a, b)
    more = domain.add(product, Ratio({(0, 0): 1}))
    quotient = domain.mul(more, domain.invert(b))
    assert terms_below(quotient) == 3
    assert not domain.same(quotient, a)


def test_signs_divide_nothing_that_they_do_not() -> None:
    """``1 - s^2`` is zero for a sign ``s``, with any divisor."""
    domain = RealNumbers(most_work=100_000)
    x = domain.inputs(0, (1,))[0].item()
    one = Ratio({(0, 0): 1})
    sign = domain.mul(of(UnaryFn.ABS, x, domain), domain.invert(x))
    above, below = domain.add(sign, one), domain.add(domain.negated(sign), one)
    assert domain.same(domain.mul(above, below), Ratio({}))
