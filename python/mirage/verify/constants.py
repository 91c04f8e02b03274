"""Constants that compile to the same number.

Constants are exact (:mod:`mirage.semantics.numbers`), and both programs are read as they are. But a
candidate that was written down by hand, or by a tool that folds in floating point, has ``0.2391``
rounded where the reference has ``0.797 * 0.3``. A kernel holds neither: it holds what the constant
is rounded to, in the type of the computation. So a constant of the candidate may be read as *any*
number that is rounded to the same one: the kernels are the same, bit for bit, and a proof for one
is a proof for the other. Where the programs are not equal as they are, sums and products of few
constants of the reference are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, islice
from math import isclose, prod

import numpy as np

from mirage.semantics.numbers import Number, nearest
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import (
    Constant,
    KernelGraph,
    Op,
    Structure,
    Value,
    all_ops,
)

_MOST_FACTORS = 3
_MOST_NUMBERS = 20_000  # that are tried

Compiled = tuple[DType, tuple[float, ...]]


def compiled(value: Number, dtype: DType) -> Compiled:
    """What a kernel may hold of a constant of type ``dtype``: kernels compute in f32, or in f64
    where that is the type, and store in the type.
    """
    double = np.asarray(nearest(value))
    if dtype is DType.F64:
        return dtype, (float(double),)
    single = DType.F32.round(double)
    return dtype, (float(single), float(dtype.round(double)), float(dtype.round(single)))


def read_alike(
    reference: KernelGraph, candidate: KernelGraph
) -> tuple[KernelGraph, dict[Number, Number]]:
    """``candidate`` with constants that the reference does not have read as sums and products of
    the reference's where both compile to the same; and which were. Values keep their identity.

    The reference has no composite ops.
    """
    known = {op.number for op in all_ops(reference.ops)} - {None}
    others = [
        op for op in all_ops(candidate.ops) if isinstance(op, Constant) and op.value not in known
    ]
    wanted = {compiled(op.value, op.result.dtype) for op in others}
    if not wanted:
        return candidate, {}
    found: dict[Compiled, Fraction] = {}
    for value in islice(_combinations(reference), _MOST_NUMBERS):
        for key in wanted:
            near = isclose(nearest(value), key[1][0], rel_tol=1e-6, abs_tol=1e-37)
            if near and compiled(value, key[0]) == key:
                found.setdefault(key, value)
    alike: dict[Op, Op] = {}
    read: dict[Number, Number] = {}
    for op in others:
        value = found.get(compiled(op.value, op.result.dtype))
        if value is not None and value != op.value:
            alike[op] = replace(op, value=value)
            read[op.value] = value
    ops = _replaced(candidate.ops, alike)
    return KernelGraph(candidate.name, candidate.inputs, ops, candidate.outputs), read


def _combinations(reference: KernelGraph) -> Iterator[Fraction]:
    """Sums and products of few constants, those of the fewest first; of constants that divide
    something, their reciprocals too.
    """
    known: dict[Value, Fraction] = {}
    divisors: set[Fraction] = set()
    for op in all_ops(reference.ops):
        if isinstance(op.number, Fraction):
            known[op.result] = op.number
        elif op.function is BinaryFn.DIV and op.operands[1] in known:
            divisors.add(known[op.operands[1]])
    numbers = sorted(set(known.values()))
    signed = [*numbers, *(-n for n in numbers)]
    factors = [*numbers, *(1 / n for n in sorted(divisors) if n)]
    for count in range(1, _MOST_FACTORS + 1):
        for chosen in combinations_with_replacement(factors, count):
            product = prod(chosen, start=Fraction(1))
            yield product
            yield -product
        for chosen in combinations_with_replacement(signed, count):
            yield sum(chosen, Fraction(0))


def _replaced(ops: tuple[Op, ...], alike: Mapping[Op, Op]) -> tuple[Op, ...]:
    result: list[Op] = []
    for op in ops:
        if isinstance(op, Structure):
            op = op.rebuilt(_replaced(op.inside, alike), lambda v: v)
        result.append(alike.get(op, op))
    return tuple(result)
