"""Shares that are divided again: ``(e / s) / sum(e / s)`` is ``e / sum(e)``, if ``s`` is positive.

The gates of experts, and probabilities that a filter reduces to the largest ones, are often divided
by the sum of the rest. As long as the first divisor remains, the second one differs from that of a
program that masks the scores, and neither its sign nor the reference shows that it is not zero.
Here the first divisor is moved out of masks, products and sums, and cancelled. This reads a program
as the same function, defined at the same inputs, because the divisor is certainly positive.
"""

from __future__ import annotations

from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn, ReduceFn
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import Contraction, KernelGraph, Op, Value, launches
from mirage.verify.normal_form.reading import Reading, read_again

CANCELLED = "divisors that shares have in common are cancelled"


def without_common_divisors(graph: KernelGraph) -> KernelGraph | None:
    """Return a program of primitive ops in which divisors that are certainly positive are
    cancelled; None if there are none."""
    written = decompose(graph)
    if any(launches(written.ops)):
        return None
    cancelled: list[Value] = []

    def cancel(reading: Reading, op: Op) -> Value | None:
        found = _cancelled(reading, op)
        if found is not None:
            cancelled.append(found)
        return found

    read = read_again(written, {}, {}, (cancel, _masked, _multiplied, _summed))
    return without_dead_ops(read) if cancelled else None


def _share(reading: Reading, x: Value) -> tuple[Value, Value] | None:
    """Return the numerator of a quotient, which has the quotient's shape, and its divisor, if this
    is certainly positive."""
    op = reading.makers.get(x)
    if op is None or op.function is not BinaryFn.DIV or op.operands[0].shape != x.shape:
        return None
    numerator, divisor = op.operands
    return (numerator, divisor) if reading.certain.is_positive(divisor) else None


def _masked(reading: Reading, op: Op) -> Value | None:
    """Return how to write a share that a mask keeps; None for other ops."""
    if op.function is not BinaryFn.KEEP or op.operands[1].shape != op.results[0].shape:
        return None
    mask, x = op.operands
    if (share := _share(reading, x)) is None:
        return None
    top, divisor = share
    kept = reading.write(lambda b: b.binary(BinaryFn.KEEP, mask, top))
    return reading.write(lambda b: b.binary(BinaryFn.DIV, kept, divisor))


def _multiplied(reading: Reading, op: Op) -> Value | None:
    """Return how to write a share that is multiplied by something; None for other ops."""
    if op.function is not BinaryFn.MUL:
        return None
    for x, factor in (op.operands, op.operands[::-1]):
        share = _share(reading, x) if x.shape == op.results[0].shape else None
        if share is not None and share[0] is not factor:
            top, divisor = share
            product = reading.write(lambda b, t=top, f=factor: b.binary(BinaryFn.MUL, t, f))
            return reading.write(lambda b, p=product, d=divisor: b.binary(BinaryFn.DIV, p, d))
    return None


def _summed(reading: Reading, op: Op) -> Value | None:
    """Return how to write a sum of shares that have one divisor; None for other ops."""
    if not isinstance(op, Contraction) or op.function is not ReduceFn.SUM:
        return None
    (x,), (dims,) = op.operands, op.over
    share = _share(reading, x)
    if share is None or len(share[1].shape) != len(x.shape):
        return None
    top, divisor = share
    if any(divisor.shape[d] != 1 for d in dims):
        return None
    total = reading.write(lambda b: b.reduce(ReduceFn.SUM, top, dims))
    return reading.write(lambda b: b.binary(BinaryFn.DIV, total, divisor))


def _cancelled(reading: Reading, op: Op) -> Value | None:
    """Return how to write a quotient of two shares with the same divisor; None for other ops."""
    if op.function is not BinaryFn.DIV:
        return None
    first, second = (_share(reading, v) for v in op.operands)
    if first is None or second is None or first[1] is not second[1]:
        return None
    return reading.write(lambda b: b.binary(BinaryFn.DIV, first[0], second[0]))
