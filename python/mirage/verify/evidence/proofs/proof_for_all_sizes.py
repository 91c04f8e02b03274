"""Proofs for all sizes that the maps of two programs allow, not only for the given sizes.

In the small programs the length of a segment of indices occurs in one place only: as the number of
indices that its bulk cell stands for. So the weights become symbols, one for each bulk, and the
same normal forms are compared. If they are equal, they are equal for all lengths from the number of
cells on; the sizes of dimensions, tiles, grids and loops are products and sums of lengths.

Constants are the other place where sizes enter: ``1/4096`` may be one over a dimension. Three
readings are tried, the most general one first: constants may be any numbers; a constant that equals
a size that a sum runs over, or one over it, changes with that size; all constants keep their
values.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import DType, ReduceFn
from mirage.semantics.ugraph import (
    Contraction,
    KernelGraph,
    Op,
    Value,
    all_ops,
    axis_extents,
    launches,
)
from mirage.verify.arithmetic.interned_sums import LITTLE_WORK, NoProof
from mirage.verify.arithmetic.object_arrays import objects
from mirage.verify.arithmetic.primes import is_prime
from mirage.verify.arithmetic.ratios import Ratio
from mirage.verify.arithmetic.symbolic import Symbolic
from mirage.verify.compression.digits import Digit, Structure
from mirage.verify.compression.index_relations import Slot
from mirage.verify.compression.small_program import Cells, Weights, compress
from mirage.verify.evidence.proofs.proof import NAME, compare
from mirage.verify.evidence.proofs.small_model import SmallPair
from mirage.verify.evidence.samples.real_sizes import constants_of
from mirage.verify.verdict import Evidence, FreeExtent, HoldsFor

_READINGS = ((True, False), (True, True), (False, True), (False, False))
"""Whether a constant may be any number, and whether some constants are sizes; the most general
reading first."""
_PLAIN = frozenset(Fraction(n, d) for n in (0, 1, -1, 2, -2) for d in (1, 2))


@dataclass(frozen=True)
class _Bulk:
    """The bulk cell of one segment: ``weight`` is the prime that stands for its size in the small
    programs, ``more`` the single indices beside it, ``length`` the segment's given length.
    """

    name: str
    weight: int
    more: int
    length: int


@dataclass(frozen=True)
class _Open:
    """All bulk cells, by digit and number of the segment; ``None`` for segments without a bulk."""

    bulks: Mapping[Hashable, tuple[_Bulk | None, ...]]

    def all(self) -> Iterator[_Bulk]:
        """Yield all bulk cells."""
        return (b for row in self.bulks.values() for b in row if b is not None)


def _open(
    structure: Structure, order: Sequence[Hashable], singles: Mapping[Hashable, int]
) -> _Open:
    names, weights = _names(), _primes()
    bulks: dict[Hashable, tuple[_Bulk | None, ...]] = {}
    for key in order:
        digit = structure.digits[key]
        before = singles.get(key, 1)
        more = before * 2 if digit.ordered else before
        bulks[key] = tuple(
            None
            if digit.pinned or n <= max(more, 1)
            else _Bulk(next(names), next(weights), more, n)
            for n in digit.segments
        )
    return _Open(bulks)


def _names() -> Iterator[str]:
    yield from string.ascii_lowercase
    number = 1
    while True:
        yield f"n{number}"
        number += 1


def _primes() -> Iterator[int]:
    return (n for n in range(2, 1 << 20) if is_prime(n))


class _OpenCells(Cells):
    """Cells with stand-ins for the weights of bulks."""

    def __init__(self, cells: Cells, singles: Mapping[Hashable, int], bulks: _Open) -> None:
        super().__init__(cells.structure, cells.cells)
        self._stand_ins: dict[Hashable, Weights] = {
            key: tuple(_stand_ins(digit, singles.get(key, 1), bulks.bulks[key]))
            for key, digit in cells.structure.digits.items()
        }

    def weights(self, slot: Slot) -> Weights:
        w = [1]
        for d in self.structure.digits_of(slot):
            w = [x * y for x in w for y in self._stand_ins[d]]
        return tuple(w[: len(super().weights(slot))])


def _stand_ins(digit: Digit, before: int, bulks: Sequence[_Bulk | None]) -> Iterator[int]:
    for length, bulk in zip(digit.segments, bulks, strict=True):
        if bulk is None:
            yield from [1] * length
        else:
            yield from [*[1] * before, bulk.weight, *[1] * (bulk.more - before)]


class _AnySizes(Symbolic):
    """:class:`Symbolic` with symbols for the weights; constants in ``bound`` are read as sizes."""

    def __init__(self, bulks: _Open, *, any_constant: bool, fold: bool, most_work: int) -> None:
        super().__init__(fold=fold, most_work=most_work)
        self._names = {b.weight: b.name for b in bulks.all()}
        self._any_constant = any_constant
        self.bound: dict[Fraction, Ratio] = {}  # constants that are read as sizes

    def sizes(self, weights: Weights) -> Planes:
        """Return a vector of products of lengths."""
        return (objects([self._product_of(w) for w in weights], (len(weights),)),)

    def _product_of(self, weight: int) -> Ratio:
        result = Ratio({(0, 0): 1})
        for prime, name in self._names.items():
            while weight % prime == 0:
                weight //= prime
                size = self.variable(("size", name))
                self._positives.add(self._symbols["size", name])
                result = self.times(result, size)
        assert weight == 1
        return result

    def times(self, a: Ratio, b: Ratio) -> Ratio:
        """Return the product of two numbers."""
        result = self.mul(a, b)
        assert isinstance(result, Ratio)
        return result

    def reciprocal(self, a: Ratio) -> Ratio:
        """Return one over a nonzero number."""
        result = self.invert(a)
        assert isinstance(result, Ratio)
        return result

    def total(self, weights: Sequence[Weights]) -> Ratio:
        """Return the product of sizes, each of which is a sum of products of lengths."""
        result = Ratio({(0, 0): 1})
        for w in weights:
            (size,) = self.reduce(ReduceFn.SUM, self.sizes(w), (0,), DType.F32)
            result = self.times(result, size.ravel()[0])
        return result

    def read(self, number: Fraction) -> Ratio | None:
        value = abs(number)
        sign = Ratio({(0, 0): -1 if number < 0 else 1})
        if value in _PLAIN:
            return None
        if value in self.bound:
            return self.times(sign, self.bound[value])
        if not self._any_constant:
            return None
        return self.times(sign, self.variable(("constant", value)))


def prove_for_extents(pair: SmallPair) -> tuple[Evidence, HoldsFor] | None:
    """Return the proof for the most general sizes and constants for which there is one, or None.

    ``pair`` is the small form of the two programs, which have primitive ops only. The sizes are
    those of the programs as they were read: merged dimensions have one size together.
    """
    if pair.cells is None or pair.read is None or pair.read.at_hand:
        return None
    structure = pair.cells.structure
    reference, candidate = pair.read.graphs
    graphs = (reference, candidate)
    bulks = _open(structure, _digits_in_order(structure, graphs), pair.singles)
    if not any(bulks.all()):
        return None
    cells = _OpenCells(pair.cells, pair.singles, bulks)
    small = [compress(g, cells) for g in graphs]
    general = replace(pair, reference=small[0], candidate=small[1])
    work = LITTLE_WORK  # of all readings together: the given sizes have a separate proof
    folded = False
    for (any_constant, bind), fold in itertools.product(_READINGS, (True, False)):
        if not fold and not folded:
            continue  # the same was tried already
        domain = _AnySizes(bulks, any_constant=any_constant, fold=fold, most_work=work)
        try:
            read = _bind(domain, cells, graphs) if bind else {}
            if bind and not read:
                continue
            evidence = compare(NAME, general, domain, domain.sizes)
        except NoProof:
            continue
        finally:
            work -= domain.work
            folded = fold and domain.folded
        if evidence.holds:
            sizes = _Sizes(structure, bulks)
            holds_for = HoldsFor(
                tuple(FreeExtent(b.name, b.length, b.more + 1) for b in bulks.all()),
                tuple(sizes.shape(v) for v in reference.inputs),
                tuple(sizes.axes(candidate)),
                "any" if any_constant else "given",
                tuple((str(c), sizes.product(slots)) for c, slots in read.items()),
            )
            text = f"{evidence.text}, for all {holds_for}"
            return Evidence(NAME, True, text, evidence.figures), holds_for
    return None


def _digits_in_order(
    structure: Structure, graphs: tuple[KernelGraph, KernelGraph]
) -> tuple[Hashable, ...]:
    """Return all digits, those of the inputs first."""
    slots = [structure.slot(v, d) for v in graphs[0].inputs for d in range(len(v.shape))]
    first = (d for s in slots for d in structure.digits_of(s))
    return tuple(dict.fromkeys((*first, *structure.digits)))


# ---- constants that are sizes --------------------------------------------------------------------


def _bind(
    domain: _AnySizes, cells: Cells, graphs: tuple[KernelGraph, KernelGraph]
) -> dict[Fraction, tuple[Slot, ...]]:
    """Make ``domain`` read a constant that equals a size that a sum runs over, or one over it, as
    that size. Return these constants with the slots whose sizes are multiplied.
    """
    found: dict[int, list[tuple[Slot, ...]]] = {}
    for graph in graphs:
        for op in all_ops(graph.ops):
            slots = tuple(_summed(op, cells.structure))
            found.setdefault(prod(map(cells.structure.size, slots)), []).append(slots)
    numbers = {n for g in graphs for n in constants_of(g)}
    read: dict[Fraction, tuple[Slot, ...]] = {}
    for number in sorted(map(abs, numbers - _PLAIN)):
        size = number if number >= 1 else 1 / number
        options = found.get(int(size), []) if size.denominator == 1 else []
        totals = [domain.total([cells.weights(s) for s in slots]) for slots in options]
        # Two sums have equal sizes by chance: it is unknown which one is meant.
        if totals and all(domain.same(totals[0], t) for t in totals):
            domain.bound[number] = totals[0] if number >= 1 else domain.reciprocal(totals[0])
            read[number] = options[0]
    return read


def _summed(op: Op, structure: Structure) -> Iterator[Slot]:
    if isinstance(op, Contraction) and op.sums:
        yield from (structure.slot(op.operands[0], d) for d in op.over[0])


# ---- the sizes for which a proof holds
# ------------------------------------------------------------


class _Sizes:
    """Sizes, written with the names of lengths."""

    def __init__(self, structure: Structure, bulks: _Open) -> None:
        self.structure = structure
        self.bulks = bulks

    def shape(self, value: Value) -> tuple[str, ...]:
        """Return the sizes of a tensor, as text."""
        return tuple(self.size(self.structure.slot(value, d)) for d in range(len(value.shape)))

    def axes(self, graph: KernelGraph) -> Iterator[tuple[str, str]]:
        """Yield the extents of all grid and loop axes of a program, as text."""
        for number, op in enumerate(launches(graph.ops)):
            for name in axis_extents(op):
                yield f"{number}.{name}", self.size(self.structure.axis(op, name))

    def product(self, slots: Sequence[Slot]) -> str:
        """Return the product of the slots' sizes, as text."""
        return _times([self.size(s) for s in slots])

    def size(self, slot: Slot) -> str:
        """Return the size of one slot, as text."""
        text = self._prefix(self.structure.digits_of(slot), self.structure.size(slot))
        return text if any(c.isalpha() for c in text) else str(self.structure.size(slot))

    def _prefix(self, digits: tuple[Hashable, ...], size: int) -> str:
        """Return the number of the first ``size`` indices that the digits make: as many whole
        values of the top digit as fit, and a part of the next.
        """
        if not digits:
            return "1"
        below = prod(self.structure.digits[d].radix for d in digits[1:])
        value, rest = divmod(size, below)
        terms: list[str] = []
        if value:
            lengths = [self._length(digits[0], value)]
            lengths += [self._length(d, self.structure.digits[d].radix) for d in digits[1:]]
            terms.append(_times([n for n in lengths if n != "1"]))
        if rest:
            terms.append(self._prefix(digits[1:], rest))
        return " + ".join(terms)

    def _length(self, digit: Hashable, value: int) -> str:
        """Return the number of the first ``value`` indices of a digit, which end with a segment."""
        terms: list[str] = []
        fixed = start = 0
        for bulk, length in zip(
            self.bulks.bulks[digit], self.structure.digits[digit].segments, strict=True
        ):
            if start < value:
                terms += [] if bulk is None else [bulk.name]
                fixed += length if bulk is None else 0
            start += length
        return " + ".join([*terms, *([str(fixed)] if fixed else [])])


def _times(factors: Sequence[str]) -> str:
    if len(factors) < 2:
        return "".join(factors) or "1"
    return "*".join(f"({f})" if " + " in f else f for f in factors)
