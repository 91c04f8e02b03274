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
from collections.abc import Iterator
from dataclasses import fields

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
from mirage.verify.normal_form.empty_rows import is_identity

_SHIFTS = {"aten.__lshift__": "shift_left", "aten.__rshift__": "shift_right"}
_BITS = {**BIT_BASES, **_SHIFTS}
_SIZES = {DType.I8: 8, DType.I16: 16, DType.I32: 32, DType.I64: 64}
_AND, _OR, _XOR = "bit_and", "bit_or", "bit_xor"


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
    outputs = tuple(reading.names.get(v, v) for v in graph.outputs)
    return KernelGraph(graph.name, graph.inputs, tuple(reading.build.ops), outputs)


def _function(op: Op) -> tuple[str, External] | None:
    """Return the function of bits that a call computes, of numbers whose types have a sign, and the
    call."""
    found = bits_of(op)
    if found is None or found[0] not in (_AND, _OR, _XOR):
        return None
    return found if all(v.dtype in _SIZES for v in (*op.operands, op.result)) else None


class _Reading:
    """A program that is written again. ``bits`` are masks of the bits that values which are never
    negative may have; ``keys`` are equal for values that are computed alike."""

    def __init__(self, graph: KernelGraph) -> None:
        self.build = Builder()
        self.names: dict[Value, Value] = {}
        self.makers: dict[Value, Op] = {}
        self.bits: dict[Value, int] = {}
        self.keys: dict[Value, str] = {v: f"input {i}" for i, v in enumerate(graph.inputs)}
        self.calls: dict[tuple[str, ...], Value] = {}
        self.made: dict[Value, tuple[str, Value, Value]] = {}
        self.last: Value | None = None  # what the last conjunction gave
        self.seen = 0

    def add(self, op: Op) -> None:
        """Write the next op, or what it computes."""
        new = with_operands(op, tuple(self.names.get(v, v) for v in op.operands))
        written = self._written(new)
        if written is None:
            self.build.ops.append(new)
        else:
            self.names[op.result] = written
        self._note()

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

    def _written(self, op: Op) -> Value | None:
        """Write what a call computes; None if the op is no such call or stays as it is."""
        function = _function(op)
        if function is None:
            return None
        name, call = function
        wide = op.result.dtype
        operands = [v if v.dtype is wide else self.build.cast(v, wide) for v in op.operands]
        given = dict(call.arguments).get("other")
        if isinstance(given, int):
            operands.append(self.build.constant(given, wide))
        self._note()
        if len(operands) != 2 or any(v.shape not in ((), op.result.shape) for v in operands):
            return None
        found = self._of_two(name, operands[0], operands[1], op.result.type)
        self.made.setdefault(found, (name, operands[0], operands[1]))
        return found

    def _of_two(self, name: str, a: Value, b: Value, kind: TensorType) -> Value:
        both = self._both(a, b, kind)
        if name == _AND and both is not None:
            return both
        whole = self._sum(BinaryFn.ADD, a, b)
        if name == _AND:
            return self._sum(BinaryFn.MUL, whole, self.build.constant(0, kind.dtype))
        if both is None:
            return whole
        if name == _XOR:
            both = self._sum(BinaryFn.MUL, both, self.build.constant(2, kind.dtype))
        return self._sum(BinaryFn.SUB, whole, both)

    def _sum(self, fn: BinaryFn, a: Value, b: Value) -> Value:
        found = self.build.binary(fn, a, b)
        self._note()
        return found

    def _both(self, a: Value, b: Value, kind: TensorType) -> Value | None:
        """Write ``a & b``; None for zero."""
        for x, y in ((a, b), (b, a)):
            number = self._number(y)
            if number is not None and x.shape == kind.shape and _fits(number, kind.dtype, 1):
                return self._with_number(x, number)
        first, second = self.bits.get(a), self.bits.get(b)
        if first is not None and second is not None and not first & second:
            return None
        if self.keys[a] == self.keys[b]:
            return a
        for x, y in ((a, b), (b, a)):
            inside = self._complement(y)
            if inside is not None and inside.shape == x.shape == kind.shape:
                both = self._both(x, inside, kind)
                return x if both is None else self._sum(BinaryFn.SUB, x, both)
            if y in self.made and x.shape == y.shape:
                name, p, q = self.made[y]
                if self.keys[x] in (self.keys[p], self.keys[q]):
                    return self._within(name, x, y, p, q, kind)
        return self._call(a, b, kind) if self.keys[a] <= self.keys[b] else self._call(b, a, kind)

    def _within(
        self, name: str, x: Value, y: Value, a: Value, b: Value, kind: TensorType
    ) -> Value | None:
        """Write ``x & y``, where ``y`` is a function of ``a`` and ``b``, one of which is ``x``."""
        if name != _XOR:
            return x if name == _OR else y
        both = self._both(a, b, kind)
        return x if both is None else self._sum(BinaryFn.SUB, x, both)

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

    def _complement(self, v: Value) -> Value | None:
        """Return the number whose complement ``v`` is: ``v = -1 - x`` or ``-x - 1``."""
        op = self.makers.get(v)
        if op is None or op.function not in (BinaryFn.SUB, BinaryFn.ADD):
            return None
        a, b = op.operands
        if op.function is BinaryFn.SUB and self._number(a) == -1:
            return b
        inside = self.makers.get(a)
        if inside is None or inside.function is not UnaryFn.NEG:
            return None
        one = 1 if op.function is BinaryFn.SUB else -1
        return inside.operands[0] if self._number(b) == one else None


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
