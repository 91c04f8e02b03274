"""The effect of ops on the powers of the shifts that values carry.

The rules are those of homogeneous functions: products add powers, quotients subtract them,
``square`` doubles and ``sqrt`` halves them; ``abs``, ``relu``, ``neg`` and maxima keep them (the
factor is positive); ``log`` turns a factor into a summand and so ends the dependence; sums need
summands of equal power, and a shift that does not vary along what is summed; any other function
needs a power of zero. Summands that carry different shifts get a common one (:mod:`.groups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from mirage.semantics.homogeneous import POWERS
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Binary,
    Loop,
    Mask,
    Matmul,
    Movement,
    Op,
    Reduce,
    Slice,
    Unary,
    Value,
    View,
)
from mirage.transforms.shifts.alignment import viewed, widened
from mirage.transforms.shifts.conditions import Conditions
from mirage.transforms.shifts.facts import LaunchFacts, Rebase
from mirage.transforms.shifts.groups import Groups
from mirage.transforms.shifts.shifts import Align, NotHomogeneous, Shift, Term, Terms

_ONE = Fraction(1)


@dataclass
class Rules:
    """The rules of ops inside of a launch; their demands are added to ``conditions``."""

    facts: LaunchFacts
    conditions: Conditions
    groups: Groups
    constants: dict[Value, Number] = field(default_factory=dict[Value, Number])

    def terms(self, value: Value) -> Terms:
        """Return the terms of a tile, one for each shift that it depends on."""
        return self.facts.terms.get(value, {})

    def blame(self, values: Sequence[Value], reason: str) -> NotHomogeneous:
        """Return the error for an op that does not accept ``values``."""
        return NotHomogeneous(
            frozenset(e for v in values for s in self.terms(v) for e in s.exps), reason
        )

    def result(self, op: Op, loops: Sequence[Loop]) -> Terms:
        """Return the terms of the result of an op inside of ``loops``, outermost first."""
        if not any(self.terms(v) for v in op.operands):
            return {}
        if isinstance(op, Unary):
            return self._unary(op)
        if isinstance(op, Binary):
            return self._binary(op, loops)
        if isinstance(op, Matmul):
            return self._matmul(op)
        if isinstance(op, Reduce):
            return self._reduce(op)
        (x, *_) = op.operands
        if isinstance(op, Mask):
            if op.fill != 0.0:
                raise self.blame(
                    [x], f"a mask fills with {op.fill} what should scale with an exponential"
                )
            return self.terms(x)
        if isinstance(op, Slice):
            return self._slice(op, x)
        found: dict[Shift, Term] = {}
        for s, t in self.terms(x).items():
            align = viewed(op, x, t.align)
            if align is None:
                raise self.blame(op.operands, _no_rule(op))
            found[s] = t.aligned(align)
        return found

    def _unary(self, op: Unary) -> Terms:
        (x,) = op.operands
        if op.fn is UnaryFn.LOG:
            self.conditions.divisor(self.terms(x), "a logarithm")
            self.conditions.complete(self.terms(x))
            return {}
        if op.fn not in POWERS:
            raise self.blame([x], f"{op.fn.value} of a value that scales with an exponential")
        power = POWERS[op.fn]
        if power < 0:
            self.conditions.divisor(self.terms(x), op.fn.value)
        return {s: t.times(power) for s, t in self.terms(x).items()}

    def _binary(self, op: Binary, loops: Sequence[Loop]) -> Terms:
        a, b = op.operands
        if op.fn in (BinaryFn.MUL, BinaryFn.DIV):
            if op.fn is BinaryFn.DIV:
                self.conditions.divisor(self.terms(b), "a division")
            return self._multiply(op)
        if op.fn is BinaryFn.POW:
            exponent = self.constants.get(b)
            if exponent is None:
                raise self.blame([a, b], "a power of a value that scales with an exponential")
            if exponent < 0:
                self.conditions.divisor(self.terms(a), "a negative power")
            factor = Fraction(exponent)
            return {s: t.times(factor) for s, t in self.terms(a).items() if factor}
        for x, y in ((a, b), (b, a)):
            if self.constants.get(x) == 0.0:
                return self._wide(y, op.result.shape)
        return self._add(op, loops)

    def _wide(self, x: Value, shape: tuple[int, ...]) -> dict[Shift, Term]:
        """Return the terms of ``x`` after broadcasting to ``shape``."""
        return {s: t.aligned(widened(t.align, x.shape, shape)) for s, t in self.terms(x).items()}

    def _add(self, op: Binary, loops: Sequence[Loop]) -> Terms:
        """Apply the rule of sums, differences, maxima and minima of two values."""
        sides = [self._wide(v, op.result.shape) for v in op.operands]
        alone = [[s for s in sides[i] if s not in sides[1 - i]] for i in (0, 1)]
        if alone[0] and alone[1]:
            self._merge(op, sides, alone, loops)
        found: dict[Shift, Term] = {}
        for s in {**sides[0], **sides[1]}:
            powers = [t[s].power if s in t else Fraction(0) for t in sides]
            if powers[0] != powers[1]:
                raise NotHomogeneous(
                    s.exps,
                    f"{op.fn.value} of values that scale with powers {powers[0]} and {powers[1]} "
                    "of an exponential",
                )
            align = self.conditions.agree(s, sides[0][s].align, sides[1][s].align)
            # only sums of parts of one exponential have all that one of the summands has
            whole = op not in self.facts.rebased and op.fn in (BinaryFn.ADD, BinaryFn.MAX)
            lacks = [side[s].partial for side in sides]
            found[s] = Term(powers[0], align, partial=all(lacks) if whole else any(lacks))
        return found

    def _merge(
        self,
        op: Binary,
        sides: list[dict[Shift, Term]],
        alone: Sequence[Sequence[Shift]],
        loops: Sequence[Loop],
    ) -> None:
        """Form a group from exponentials of one operand and others of the other operand."""
        exps = frozenset(e for shifts in alone for s in shifts for e in s.exps)
        what = op.fn.value
        if any(len(shifts) > 1 for shifts in alone):
            raise NotHomogeneous(exps, f"{what} of products or quotients of different exponentials")
        pair = (alone[0][0], alone[1][0])
        terms = [side[s] for side, s in zip(sides, pair, strict=True)]
        powers = [t.power for t in terms]
        if powers[0] != powers[1]:
            raise NotHomogeneous(
                exps,
                f"{what} of values that scale with powers {powers[0]} and {powers[1]} of "
                "different exponentials",
            )
        if powers[0] < 0:
            raise NotHomogeneous(exps, f"{what} of reciprocals of different exponentials")
        aligned = [(s, t.align) for s, t in zip(pair, terms, strict=True)]
        whole, align = self.groups.merge(aligned, len(op.result.shape), loops)
        for number, part in enumerate(pair):
            self._rebase(op, number, sides[number], part, whole, align)

    def _rebase(
        self,
        op: Binary,
        number: int,
        terms: dict[Shift, Term],
        part: Shift,
        whole: Shift,
        align: Align,
    ) -> None:
        """Convert operand ``number``, which carries ``terms``, from a part of a merged shift to the
        whole.
        """
        power, lacks = terms[part].power, terms[part].partial
        self.conditions.complete({whole: Term(power, align)})
        if part is whole:
            return
        self.facts.rebased.setdefault(op, []).append(Rebase(number, part, whole, power, align))
        del terms[part]
        if whole in terms:
            align = self.conditions.agree(whole, align, terms[whole].align)
            lacks |= terms[whole].partial
            power += terms.pop(whole).power
        if power:
            terms[whole] = Term(power, align, partial=lacks)

    def _multiply(self, op: Binary) -> Terms:
        """Apply the rule of products and quotients. A factor of the reciprocal of a group's sum is
        first converted to the group's maximum, since it is a part of the sum.
        """
        signs = (_ONE, _ONE if op.fn is BinaryFn.MUL else -_ONE)
        sides = [self._wide(v, op.result.shape) for v in op.operands]
        for number, sign, mine in zip((0, 1), signs, sides, strict=True):
            other, flip = sides[1 - number], signs[1 - number]
            for part, whole in self.groups.parts(mine, other):
                known = part in mine and whole in other
                if known and sign > 0 and mine[part].power > 0 > other[whole].power * flip:
                    align = self.groups.through(part, whole, mine[part].align, other[whole].align)
                    self._rebase(op, number, mine, part, whole, align)
        found: dict[Shift, Term] = {}
        for s in {**sides[0], **sides[1]}:
            power = Fraction(0)
            align: Align | None = None
            for terms, sign in zip(sides, signs, strict=True):
                if s in terms:
                    power += terms[s].power * sign
                    mine = terms[s].align
                    align = mine if align is None else self.conditions.agree(s, align, mine)
            if power:
                assert align is not None
                lacks = any(s in terms and terms[s].partial for terms in sides)
                found[s] = Term(power, align, partial=lacks)
        return found

    def _matmul(self, op: Matmul) -> Terms:
        a, b = op.operands
        for x, dim in ((a, len(a.shape) - 1), (b, len(b.shape) - 2)):
            self.conditions.summed(x, self.terms(x), (dim,))
        shape = op.result.shape
        found: dict[Shift, Term] = {}
        aligned: tuple[dict[Shift, Align], dict[Shift, Align]] = ({}, {})
        for side, x in enumerate((a, b)):
            for s, t in self.terms(x).items():
                lead = widened(t.align[:-2], x.shape[:-2], shape[:-2])
                aligned[side][s] = (
                    (*lead, t.align[-2], None) if side == 0 else (*lead, None, t.align[-1])
                )
        for s in {**aligned[0], **aligned[1]}:
            power = sum((self.terms(x)[s].power for x in (a, b) if s in self.terms(x)), Fraction(0))
            aligns = [side[s] for side in aligned if s in side]
            align = aligns[0] if len(aligns) == 1 else self.conditions.agree(s, *aligns)
            if power:
                lacks = any(s in self.terms(x) and self.terms(x)[s].partial for x in (a, b))
                found[s] = Term(power, align, partial=lacks)
        return found

    def _reduce(self, op: Reduce) -> Terms:
        (x,) = op.operands
        if op.fn is ReduceFn.SUM:
            self.conditions.summed(x, self.terms(x), op.dims)
        else:
            for s, t in self.terms(x).items():
                s.constant.update(a for d in op.dims if (a := t.align[d]) is not None)
        return {
            s: t.aligned(tuple(None if d in op.dims else a for d, a in enumerate(t.align)))
            for s, t in self.terms(x).items()
        }

    def _slice(self, op: Slice, x: Value) -> Terms:
        for s, t in self.terms(x).items():
            for d, a in enumerate(t.align):
                if a is not None and op.result.shape[d] != x.shape[d]:
                    self.conditions.constant(s, a, "a slice cuts along rows of different scale")
        return self.terms(x)


def _no_rule(op: Op) -> str:
    name = type(op).__name__.lower()
    if isinstance(op, View):
        return f"{name} merges or splits dimensions of values that scale with an exponential"
    if isinstance(op, Movement):
        return f"{name} mixes exponentials of different scale"
    return f"{name} has no rule for values that scale with an exponential"
