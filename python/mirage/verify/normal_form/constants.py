"""Constants that compile to the same number.

Constants are exact (:mod:`mirage.semantics.numbers`), and both programs are read literally. But a
candidate that was written down by hand, or by a tool that folds in floating point, has ``0.2391``
rounded where the reference has ``0.797 * 0.3``. A kernel holds neither: it holds the rounded
constant, in the type of the computation. So a constant of the candidate may be read as *any* number
that rounds to the same one: the kernels are the same, bit for bit, and a proof for one is a proof
for the other. The same is true of the reference. If the programs are not equal then, sums and
products of a few constants are tried. A constant of the candidate is composed of the constants of
the reference (``0.2391``) and of its functions (``0.7979 * 0.044715`` in a gelu), then of the
constants of both (``1.4427`` is one over a ``0.6931`` that also occurs). A constant of the
reference is composed of those of the candidate (a root of a scale, twice).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, islice
from math import isclose, isqrt, prod
from typing import cast

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import Number, nearest
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import (
    Constant,
    KernelGraph,
    Op,
    Structure,
    TensorType,
    Value,
    all_ops,
)
from mirage.verify.normal_form.exponents import WRITTEN
from mirage.verify.normal_form.simple_constants import (
    OfSimple,
    simple_number,
    with_functions,
)

_MOST_FACTORS = 3
_MOST_NUMBERS = 20_000  # that are tried
_ROOTS = (UnaryFn.SQRT, UnaryFn.RSQRT)
_DIGITS = 80  # binary digits of a root
_MOST_SQUARES = 16  # that are tried

Compiled = tuple[DType, tuple[float, ...]]


def compiled(value: Number, dtype: DType) -> Compiled:
    """Return the numbers that a kernel may hold for a constant of type ``dtype``. Kernels compute
    in f32, or in f64 if that is the type, and store in the type.
    """
    double = np.asarray(nearest(value))
    if dtype is DType.F64:
        return dtype, (float(double),)
    single = DType.F32.round(double)
    return dtype, (float(single), float(dtype.round(double)), float(dtype.round(single)))


def read_alike(
    reference: KernelGraph, candidate: KernelGraph
) -> tuple[KernelGraph, KernelGraph, dict[Number, Number]]:
    """Return both programs with constants read as sums and products of others if both compile to
    the same number, and the constants that were read so. Values keep their identity.

    The reference has no composite ops.
    """
    simple = {
        value: found
        for op in (*_constants(reference), *_constants(candidate))
        if (found := simple_number(value := op.value)) is not None
    }
    first, second = (_with(graph, simple) for graph in (reference, candidate))
    first, second = _with_roots(first, second)
    one, other, _ = _read_as_combinations(first, second)
    return one, other, _changed((reference, one), (candidate, other))


def with_functions_read(
    reference: KernelGraph, candidate: KernelGraph
) -> tuple[KernelGraph, KernelGraph, dict[Number, OfSimple]]:
    """Return both programs with constants written as logarithms or exponentials that compile to the
    same number, and these constants."""
    (first, some), (second, others) = (
        with_functions(graph, compiled) for graph in (reference, candidate)
    )
    return first, second, some | others


def _with_roots(reference: KernelGraph, candidate: KernelGraph) -> tuple[KernelGraph, KernelGraph]:
    """Return both programs with constants under the reference's roots read as squares, if constants
    of the candidate are then products with the root: ``eps * c`` where the reference has
    ``sqrt(v / c^2) + eps``."""
    roots = [op for op in all_ops(reference.ops) if op.function in _ROOTS]
    own = {op.value for op in _constants(reference) if isinstance(op.value, Fraction)}
    foreign = [op for op in _constants(candidate) if op.value not in own]
    if not roots or not foreign:
        return reference, candidate
    without = len(_read(foreign, own))
    for square in sorted(own)[:_MOST_SQUARES]:
        root = _root(square)
        read = {} if root is None else _read(foreign, {*own, root})
        if root is not None and len(read) > without:
            squared: dict[Number, Number] = {square: root * root}
            return _with(reference, squared), _with(candidate, read | squared)
    return reference, candidate


def _root(square: Fraction) -> Fraction | None:
    """Return a fraction whose square is about a number that has no root among the fractions."""
    if square <= 0:
        return None
    whole = square.numerator * square.denominator
    if isqrt(whole) ** 2 == whole:
        return None
    return Fraction(isqrt(whole << 2 * _DIGITS), square.denominator << _DIGITS)


def _read_as_combinations(
    reference: KernelGraph, candidate: KernelGraph
) -> tuple[KernelGraph, KernelGraph, dict[Number, Number]]:
    foreign = [
        [op for op in _constants(graph) if op.value not in {x.value for x in _constants(other)}]
        for graph, other in ((reference, candidate), (candidate, reference))
    ]
    numbers = {*(op.value for op in _constants(reference)), *_written(reference)}
    known = {value for value in numbers if isinstance(value, Fraction)}
    read = _read(foreign[1], known)
    left = [op for op in foreign[1] if op.value not in read]
    read |= _one_by_one(left, known)
    if not read:
        own = {op.value for op in _constants(candidate) if isinstance(op.value, Fraction)}
        read = _read(foreign[0], own)
        return _with(reference, read), candidate, read
    return reference, _with(candidate, read), read


def _changed(*pairs: tuple[KernelGraph, KernelGraph]) -> dict[Number, Number]:
    """Return the readings of the constants of programs; both have them in the same order."""
    return {
        old.value: new.value
        for given, read in pairs
        for old, new in zip(_constants(given), _constants(read), strict=True)
        if old.value != new.value
    }


def _constants(graph: KernelGraph) -> list[Constant]:
    return [op for op in all_ops(graph.ops) if isinstance(op, Constant)]


def _written(graph: KernelGraph) -> set[Number]:
    """Return the constants in the definitions of the functions that a program uses."""
    found: set[Number] = set()
    for fn in {op.function for op in all_ops(graph.ops) if op.function in WRITTEN}:
        b = Builder()
        WRITTEN[cast(UnaryFn, fn)](b, Value(TensorType((1,), DType.F32)))
        found.update(op.number for op in b.ops if op.number is not None)
    return found


def _one_by_one(others: Sequence[Constant], known: Iterable[Fraction]) -> dict[Number, Number]:
    """Read constants of one program as combinations of its other constants; a constant that another
    one is made of keeps its value. Constants with the most digits come first: a 1 is unlikely to be
    the rounded product of ``1.4427`` and ``0.6931``."""
    read: dict[Number, Number] = {}
    used: set[Number] = set()
    for op in sorted(others, key=_digits, reverse=True):
        if op.value in read or op.value in used:
            continue
        beside = {x.value for x in others if isinstance(x.value, Fraction)}
        beside -= {op.value, *read}
        found = _read([op], {*known, *beside})
        if found:
            read |= found
            used |= beside
    return read


def _digits(op: Constant) -> int:
    """Return the number of binary digits that a constant takes to write."""
    value = op.value
    if not isinstance(value, Fraction):
        return 0
    return value.numerator.bit_length() + value.denominator.bit_length()


def _read(others: Sequence[Constant], known: Collection[Fraction]) -> dict[Number, Number]:
    """Return the numbers as which constants are read; these are combinations of ``known``
    numbers."""
    wanted = {compiled(op.value, op.result.dtype) for op in others}
    if not wanted:
        return {}
    found: dict[Compiled, Fraction] = {}
    for value in islice(_combinations(known), _MOST_NUMBERS):
        for key in wanted:
            near = isclose(nearest(value), key[1][0], rel_tol=1e-6, abs_tol=1e-37)
            if near and compiled(value, key[0]) == key:
                found.setdefault(key, value)
    read: dict[Number, Number] = {}
    for op in others:
        value = found.get(compiled(op.value, op.result.dtype))
        if value is not None and value != op.value:
            read[op.value] = value
    return read


def _combinations(known: Collection[Fraction]) -> Iterator[Fraction]:
    """Yield sums and products of a few constants and of reciprocals, those of the fewest first."""
    numbers = sorted(known)
    signed = [*numbers, *(-n for n in numbers)]
    factors = sorted({*numbers, *(1 / n for n in numbers if n)})
    for count in range(1, _MOST_FACTORS + 1):
        for chosen in combinations_with_replacement(factors, count):
            product = prod(chosen, start=Fraction(1))
            yield product
            yield -product
        for chosen in combinations_with_replacement(signed, count):
            yield sum(chosen, Fraction(0))


def _with(graph: KernelGraph, read: Mapping[Number, Number]) -> KernelGraph:
    """Replace the constants of ``graph`` by the numbers that they are read as."""
    alike: dict[Op, Op] = {}
    for op in _constants(graph):
        value = read.get(op.value, op.value)
        if compiled(value, op.result.dtype) == compiled(op.value, op.result.dtype):
            alike[op] = replace(op, value=value)  # in another type it may compile to another number
    return replace(graph, ops=_replaced(graph.ops, alike))


def _replaced(ops: tuple[Op, ...], alike: Mapping[Op, Op]) -> tuple[Op, ...]:
    result: list[Op] = []
    for op in ops:
        if isinstance(op, Structure):
            op = op.rebuilt(_replaced(op.inside, alike), lambda v: v)
        result.append(alike.get(op, op))
    return tuple(result)
