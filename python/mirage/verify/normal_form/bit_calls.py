"""Calls that compute bits of whole numbers, read as arithmetic.

For all whole numbers, with as many bits of their sign as wanted, ``a | b`` is ``a + b - (a & b)``,
``a ^ b`` is ``a + b - 2 (a & b)``, and with a complement ``~b = -1 - b``, ``a & ~b`` is
``a - (a & b)``. The conjunction with a constant is a sum of remainders, one for each run of ones:
``a & 0b1100`` is ``a % 16 - a % 4``. What is left is the conjunction of two tensors, which remains
a call. It is zero if the two can have no bit in common, as far as their largest bits are known, the
first operand if both are computed alike (or the second contains the first: ``a & (a | b)``), and
otherwise written once, with its operands in an order that does not depend on the program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable, Iterator
from dataclasses import fields
from functools import reduce
from operator import and_, or_

from mirage.semantics.builder import Builder
from mirage.semantics.integer_ops import BIT_BASES
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import (
    Boundary,
    External,
    KernelGraph,
    Op,
    Structure,
    TensorType,
    Value,
    View,
)
from mirage.verify.normal_form.bit_polynomials import (
    ONES,
    Polynomial,
    added,
    both,
    is_of_bits,
    is_small,
    of_number,
    of_one,
    operands_of,
)
from mirage.verify.normal_form.empty_rows import is_identity

_SHIFTS = {"aten.__lshift__": "shift_left", "aten.__rshift__": "shift_right"}
_BITS = {**BIT_BASES, **_SHIFTS}
_SIZES = {DType.I8: 8, DType.I16: 16, DType.I32: 32, DType.I64: 64}
_AND, _OR, _XOR = "bit_and", "bit_or", "bit_xor"
BITS_OF_TWO = frozenset({_AND, _OR, _XOR})
"""Functions whose results have each bit from the bits of both operands in the same place."""


def bits_of(op: Op) -> tuple[str, External] | None:
    """Return the name of the function of bits that a call computes, and the call."""
    if not isinstance(op, External) or len(op.results) != 1 or any(op.seen_as):
        return None
    name = _BITS.get(op.target.rpartition(".")[0])
    return None if name is None else (name, op)


def has_bit_calls(*graphs: KernelGraph) -> bool:
    """Return whether programs have calls that compute bits."""
    return any(_function(op) for graph in graphs for op in graph.ops)


def without_bit_calls(graph: KernelGraph) -> KernelGraph:
    """Return an equal program (in primitive ops) with arithmetic in place of calls that compute
    bits; the same object if it has none."""
    if not has_bit_calls(graph):
        return graph
    reading = _Reading(graph)
    for op in graph.ops:
        reading.add(op)
    outputs = tuple(reading.value(v) for v in graph.outputs)
    return KernelGraph(graph.name, graph.inputs, tuple(reading.build.ops), outputs)


def _function(op: Op) -> tuple[str, External] | None:
    """Return the function of bits that a call computes, of numbers whose types have a sign, and the
    call."""
    found = bits_of(op)
    if found is None or found[0] not in BITS_OF_TWO:
        return None
    return found if all(v.dtype in _SIZES for v in (*op.operands, op.result)) else None


class _Reading:
    """A program that is written again. ``bits`` are masks of the bits that values which are never
    negative may have; ``keys`` are equal for values that are computed alike. Functions of bits are
    ``sums`` of conjunctions of written values until something else reads them."""

    def __init__(self, graph: KernelGraph) -> None:
        self.build = Builder()
        self.names: dict[Value, Value] = {}
        self.sums: dict[Value, Polynomial] = {}
        self.written: dict[Value, Polynomial] = {}
        self.makers: dict[Value, Op] = {}
        self.bits: dict[Value, int] = {}
        self.keys: dict[Value, str] = {v: f"input {i}" for i, v in enumerate(graph.inputs)}
        self.calls: dict[tuple[str, ...], Value] = {}
        self.last: Value | None = None  # what the last conjunction gave
        self.seen = 0

    def add(self, op: Op) -> None:
        """Write the next op, or note what it computes."""
        found = self._polynomial(op)
        if found is not None:
            self.sums[op.result] = found
            return
        new = with_operands(op, tuple(self.value(v) for v in op.operands))
        written = self._with_known(new)
        if written is None:
            self.build.ops.append(new)
        else:
            self.names[op.result] = written
        self._note()

    def value(self, v: Value) -> Value:
        """Return the value that is written for one of the program; it is written if it is a sum
        of conjunctions."""
        if v in self.sums:
            self.names[v] = self._whole(self.sums.pop(v), v.type)
        return self.names.get(v, v)

    def _sum_of(self, v: Value, kind: TensorType) -> Polynomial:
        """Return a value, in a larger type or shape, as a sum of conjunctions."""
        if v in self.sums and v.type == kind:
            return self.sums[v]
        x = self.value(v)
        if x.dtype is not kind.dtype:
            x = self.build.cast(x, kind.dtype)
        if x.shape != kind.shape:
            x = self.build.broadcast(x, kind.shape)
        self._note()
        return self.written.get(x) or of_one(x)

    def _polynomial(self, op: Op) -> Polynomial | None:
        """Return what a function of bits computes, or a sum or complement of such functions; None
        for other ops."""
        if len(op.results) != 1 or op.result.dtype not in _SIZES:
            return None
        kind = op.result.type
        function = _function(op)
        if function is None:
            return self._arithmetic(op)
        if len(op.operands) != 2 or any(self._number_of(v) is not None for v in op.operands):
            return None
        name, sums = function[0], [self._sum_of(v, kind) for v in op.operands]
        for i, (v, p) in enumerate(zip(op.operands, sums, strict=True)):
            if not is_of_bits(p):
                sums[i] = of_one(self.value(v))
        if not is_small(*sums):
            sums = [of_one(self._whole(p, kind)) for p in sums]
        together = self._possible(both(sums[0], sums[1]))
        if name == _AND:
            return together
        return added(added(sums[0], sums[1]), together, -2 if name == _XOR else -1)

    def _number_of(self, v: Value) -> int | None:
        """Return the number that a value of the program is everywhere, if that is known."""
        return None if v in self.sums else self._number(self.value(v))

    def _arithmetic(self, op: Op) -> Polynomial | None:
        """Return a sum of which a part is a function of bits, a complement, or a quotient or
        remainder of such sums."""
        fn, xs = op.function, op.operands
        if fn in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):
            return self._quotient(fn, op)
        if fn not in (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, UnaryFn.NEG):
            return None
        numbers = [self._number_of(v) for v in xs]
        complement = fn is BinaryFn.SUB and numbers[0] == -1
        if not complement and not any(v in self.sums for v in xs):
            return None
        if any(v.dtype is not op.result.dtype for v in xs):
            return None
        sums = [
            self._sum_of(v, op.result.type) if n is None else of_number(n)
            for v, n in zip(xs, numbers, strict=True)
        ]
        if fn is UnaryFn.NEG:
            return added({}, sums[0], -1)
        if fn is not BinaryFn.MUL:
            return added(sums[0], sums[1], 1 if fn is BinaryFn.ADD else -1)
        factor = next((n for n in numbers if n is not None), None)
        rest = next((p for p, n in zip(sums, numbers, strict=True) if n is None), None)
        return None if factor is None or rest is None else added({}, rest, factor)

    def _quotient(self, fn: BinaryFn, op: Op) -> Polynomial | None:
        """Return a quotient, rounded down, or remainder of a sum and a known number: multiples of
        the number are taken out of the sum. None if the sum has none."""
        x, n = op.operands[0], self._number_of(op.operands[1])
        p = self.sums.get(x)
        if p is None or n is None or n <= 0 or x.type != op.result.type:
            return None
        whole = {term: k // n for term, k in p.items() if k // n}
        if not whole:
            return None
        rest = {term: k % n for term, k in p.items() if k % n}
        found: Polynomial = {}
        if rest:
            number = self.build.constant(n, x.dtype)
            part = self.build.binary(fn, self._whole(rest, x.type), number)
            self._note()
            found = of_one(part)
        return found if fn is BinaryFn.REMAINDER else added(found, whole)

    def _possible(self, p: Polynomial) -> Polynomial:
        """Return a sum without conjunctions of values that have no bit in common."""
        return {term: n for term, n in p.items() if not self._is_zero(term)}

    def _is_zero(self, term: Collection[Hashable]) -> bool:
        known = [self.bits[v] for v in term if isinstance(v, Value) and v in self.bits]
        return bool(known) and reduce(and_, known) == 0

    def _whole(self, p: Polynomial, kind: TensorType) -> Value:
        """Write a sum of conjunctions."""
        terms: list[tuple[list[str], list[Value], int]] = []
        for term, n in p.items():
            values = sorted((v for v in term if isinstance(v, Value)), key=self.keys.__getitem__)
            terms.append(([self.keys[v] for v in values], values, n))
        terms.sort(key=lambda t: (len(t[0]), t[0]))
        found: Value | None = None
        for _, values, n in terms:
            if not values:
                part, n = self.build.constant(-n, kind.dtype), 1
            else:
                v = reduce(lambda a, b: self._call(a, b, kind), values)
                part = v if abs(n) == 1 else self._times(v, abs(n))
            if found is None:
                found = part if n > 0 else self.build.unary(UnaryFn.NEG, part)
            else:
                found = self.build.binary(BinaryFn.ADD if n > 0 else BinaryFn.SUB, found, part)
        if found is None:
            found = self.build.constant(0, kind.dtype)
        if found.shape != kind.shape:
            found = self.build.broadcast(found, kind.shape)
        self._note()
        known = [self.bits.get(v) for v in operands_of(p) if isinstance(v, Value)]
        if ONES not in p and is_of_bits(p) and None not in known:
            self.bits[found] = reduce(or_, (n for n in known if n is not None), 0)
        self.written[found] = p
        return found

    def _times(self, v: Value, n: int) -> Value:
        return self.build.binary(BinaryFn.MUL, v, self.build.constant(n, v.dtype))

    def _note(self) -> None:
        """Note what is known of the values that have been written."""
        for op in self.build.ops[self.seen :]:
            text = self._text(op)
            for i, v in enumerate(op.results):
                self.keys[v] = hashlib.sha256(f"{text} {v.type} {i}".encode()).hexdigest()
                self.makers[v] = op
                bits = self._bits(op, v)
                if bits is not None and (v.dtype is DType.I1 or _fits(bits, v.dtype)):
                    self.bits[v] = bits
        self.seen = len(self.build.ops)

    def _text(self, op: Op) -> str:
        """Return texts that are equal for ops that compute the same; calls may be random."""
        if isinstance(op, (Structure, Boundary)) and op.results[:1] != (self.last,):
            return f"op {len(self.makers)}"
        about = [getattr(op, f.name) for f in fields(op) if f.name not in ("operands", "results")]
        return f"{type(op).__name__} {about} {[self.keys[v] for v in op.operands]}"

    def _bits(self, op: Op, v: Value) -> int | None:
        """Return the bits that a result may have; None if it may be negative."""
        if v in self.bits:
            return self.bits[v]
        if v.dtype is DType.I1:
            return 1
        if op.number is not None:
            number = op.number
            return int(number) if number >= 0 and number == int(number) else None
        first = self._of(op.operands[0]) if op.operands else None
        if first is not None and (isinstance(op, View) or is_identity(op)):
            return first
        if len(op.operands) != 2 or not v.dtype.is_integer:
            return None
        number, second = self._number(op.operands[1]), self._of(op.operands[1])
        if op.function is BinaryFn.REMAINDER and number is not None and number > 0:
            return (1 << (number - 1).bit_length()) - 1
        if first is None or second is None:
            return None
        power = number is not None and number > 0 and number & (number - 1) == 0
        if op.function is BinaryFn.MUL and power and number is not None:
            return first * number
        if op.function is BinaryFn.FLOOR_DIV and power and number is not None:
            return first // number
        if op.function is BinaryFn.ADD:
            return first | second if not first & second else _below(first + second)
        return None

    def _of(self, v: Value) -> int | None:
        return 1 if v.dtype is DType.I1 else self.bits.get(v)

    def _number(self, v: Value) -> int | None:
        """Return the whole number that a value is everywhere, if that is known."""
        op = self.makers.get(v)
        number = None if op is None else op.number
        return int(number) if number is not None and number == int(number) else None

    def _with_known(self, op: Op) -> Value | None:
        """Write the conjunction, disjunction or difference of a value and a known number; None for
        other ops."""
        function = _function(op)
        if function is None:
            return None
        name, call = function
        kind = op.result.type
        operands = [
            v if v.dtype is kind.dtype else self.build.cast(v, kind.dtype) for v in op.operands
        ]
        given = dict(call.arguments).get("other")
        if isinstance(given, int):
            operands.append(self.build.constant(given, kind.dtype))
        self._note()
        if len(operands) != 2 or any(v.shape not in ((), kind.shape) for v in operands):
            return None
        for x, y in (operands, operands[::-1]):
            number = self._number(y)
            if number is not None and x.shape == kind.shape and _fits(number, kind.dtype, 1):
                return self._of_number(name, x, number, y)
        return None

    def _of_number(self, name: str, x: Value, number: int, y: Value) -> Value:
        """Write a function of bits of ``x`` and of a ``number``, which is ``y``."""
        common = self._with_number(x, number)
        if name == _AND:
            return common or self._sum(BinaryFn.MUL, x, self.build.constant(0, x.dtype))
        whole = self._sum(BinaryFn.ADD, x, y)
        if common is None:
            return whole
        if name == _XOR:
            common = self._sum(BinaryFn.MUL, common, self.build.constant(2, x.dtype))
        return self._sum(BinaryFn.SUB, whole, common)

    def _sum(self, fn: BinaryFn, a: Value, b: Value) -> Value:
        found = self.build.binary(fn, a, b)
        self._note()
        return found

    def _call(self, x: Value, y: Value, kind: TensorType) -> Value:
        key = self.keys[x], self.keys[y], str(kind)
        if key not in self.calls:
            self.last = Value(kind)
            call = External((x, y), (self.last,), "aten.bitwise_and.Tensor", (), ())
            self.build.ops.append(call)
            known = [self.bits[v] for v in (x, y) if v in self.bits]
            if known:
                self.bits[self.last] = min(known)
            self.calls[key] = self.last
            self._note()
        return self.calls[key]

    def _with_number(self, x: Value, number: int) -> Value | None:
        """Write ``x & number``."""
        known = self.bits.get(x)
        if known is not None:
            number &= known
            if number == known:
                return x
        if number < 0:
            rest = self._with_number(x, ~number)
            return x if rest is None else self._sum(BinaryFn.SUB, x, rest)
        found: Value | None = None
        for low, high in _runs(number):
            part = self._remainder(x, high)
            if low:
                part = self._sum(BinaryFn.SUB, part, self._remainder(x, low))
            found = part if found is None else self._sum(BinaryFn.ADD, found, part)
            self.bits[found] = number & ((1 << high) - 1)
        return found

    def _remainder(self, x: Value, digits: int) -> Value:
        return self._sum(BinaryFn.REMAINDER, x, self.build.constant(1 << digits, x.dtype))


def _fits(bits: int, dtype: DType, spare: int = 0) -> bool:
    """Return whether a type has the numbers with these bits, with some to ``spare``."""
    size = _SIZES.get(dtype)
    return size is not None and (bits if bits >= 0 else ~bits) < 1 << size - 1 - spare


def _below(number: int) -> int:
    return (1 << number.bit_length()) - 1


def _runs(number: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of ones of a number, as the first digit and the one after the last."""
    low = 0
    while number >> low:
        if not number >> low & 1:
            low += 1
            continue
        high = low
        while number >> high & 1:
            high += 1
        yield low, high
        low = high
