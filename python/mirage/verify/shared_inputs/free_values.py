"""Values inside of two programs as further inputs.

A statement that holds for any contents of a value holds for the value itself. So a value that both
programs compute alike may become an input of both (a softmax that each of them uses in its own
way). The shift that keeps the exponentials of a sum small (``m`` in ``m + log(sum(exp(x - m)))``)
cancels in the result, so it may become an input that stands for any number: its size, and whether
it is infinite, need not be understood.

An input stands for real numbers. Values that may be infinite are never replaced: those computed
from masks, logarithms or infinite numbers remain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from mirage.semantics.numbers import nearest
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.substitute import rename_graph, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Source, Structure, Value, View
from mirage.verify.normal_form.certainty import Certain
from mirage.verify.shared_inputs.guarded_maxima import guarded, with_finite_maxima

Pair = tuple[KernelGraph, KernelGraph]
Equal = Callable[[KernelGraph, KernelGraph], bool]


@dataclass(frozen=True)
class Freed:
    """Two programs with further inputs, some of which stand for values that are ``not_negative``,
    or ``positive``. ``total`` says that these values are numbers for all inputs; otherwise a mask
    may exclude the places where one of them is not defined."""

    pair: Pair
    not_negative: frozenset[int]
    positive: frozenset[int]
    total: bool


_UNSAFE = (UnaryFn.BIAS, UnaryFn.LOG, UnaryFn.LOG1P, BinaryFn.KEEP)
"""Functions of finite numbers that may be infinite."""


def with_free_values(
    first: KernelGraph, second: KernelGraph, are_equal: Equal | None = None
) -> Iterator[Freed]:
    """Yield both programs (with the same inputs, in primitive ops) with such values as further
    inputs: first the shifts of exponentials, then also the values that they share, and then only
    the shared values that are not computed from others: facts about the largest element of a row
    are known if the row is an input, but not if its largest element is. Nothing is yielded if there
    are no such values. Shifts are the same if the numbers that they replace ``are_equal``."""
    first, second = map(with_finite_maxima, (first, second))
    numbers: dict[object, int] = {}
    keys = [_keys(graph, numbers) for graph in (first, second)]
    shifts = _alike((first, second), keys, are_equal)
    if any(shifts):
        yield _freed((first, second), shifts)
    shared = [
        {v: own[v] for v in _shared(graph, own, frozenset(other.values()))}
        for graph, own, other in zip((first, second), keys, reversed(keys), strict=True)
    ]
    if any(shared):
        both = [{**a, **b} for a, b in zip(shifts, shared, strict=True)]
        yield _freed((first, second), both)
        first_ones = _first_computed((first, second), keys, shared)
        if first_ones != shared:
            yield _freed((first, second), first_ones)


def _keys(graph: KernelGraph, numbers: dict[object, int]) -> dict[Value, int]:
    """Number the values so that values computed alike have the same number."""
    found: dict[Value, int] = {}

    def number(key: object) -> int:
        return numbers.setdefault(key, len(numbers))

    for i, v in enumerate(graph.inputs):
        found[v] = number(("input", i))
    for op in graph.ops:
        own = [
            repr(getattr(op, f.name)) for f in fields(op) if f.name not in ("operands", "results")
        ]
        operands = tuple(found[v] for v in op.operands)
        for i, v in enumerate(op.results):
            alike = () if isinstance(op, Structure) else (type(op), *own, operands, i, str(v.type))
            found[v] = number(alike or object())
    return found


def _shifts(graph: KernelGraph) -> dict[Value, Value]:
    """Return the values that replace a number by zero where it is infinite, with the number."""
    makers = {v: op for op in graph.ops for v in op.results}
    found = ((op, guarded(op, makers)) for op in graph.ops)
    return {op.results[0]: m for op, m in found if m is not None}


def _alike(
    pair: Pair, keys: Sequence[Mapping[Value, int]], are_equal: Equal | None
) -> list[dict[Value, int]]:
    """Return the shifts of both programs with their keys: the last one of the second program has
    the key of the first program's last one if both replace the same number. (Earlier ones are
    those of other rows.)"""
    shifts = [_shifts(graph) for graph in pair]
    found = [{v: own[v] for v in some} for own, some in zip(keys, shifts, strict=True)]
    if are_equal is not None and all(shifts):
        (*_, one), (*_, other) = shifts
        if found[0][one] != found[1][other] and one.type == other.type:
            maxima = (
                (graph, some[v]) for graph, some, v in zip(pair, shifts, (one, other), strict=True)
            )
            if are_equal(*(without_dead_ops(replace(g, outputs=(m,))) for g, m in maxima)):
                found[1][other] = found[0][one]
    return found


def _is_infinite(op: Op) -> bool:
    return op.number is not None and math.isinf(nearest(op.number))


def _shared(graph: KernelGraph, own: Mapping[Value, int], others: frozenset[int]) -> list[Value]:
    """Return the finite float values that the other program has as well and that an op reads which
    the other program does not have."""
    finite: set[Value] = {v for v in graph.inputs if not v.dtype.is_integer}
    for op in graph.ops:
        unsafe = op.function in _UNSAFE or _is_infinite(op)
        number = op.number is not None
        if not unsafe and (number or (op.operands and finite.issuperset(op.operands))):
            finite.update(op.results)
    makers = {v: op for op in graph.ops for v in op.results}
    read = {v for op in graph.ops if not _all_shared(op, own, others) for v in op.operands}
    return [
        v
        for v in read
        if v in makers
        and own[v] in others
        and v in finite
        and not isinstance(makers[v], (Source, View))
        and makers[v].number is None
    ]


def _first_computed(
    pair: Pair, keys: Sequence[Mapping[Value, int]], shared: Sequence[Mapping[Value, int]]
) -> list[dict[Value, int]]:
    """Return the values with the given keys, in both programs, that are not computed from other
    values with such keys."""
    wanted = {key for some in shared for key in some.values()}
    later = set[int]()
    for graph, own in zip(pair, keys, strict=True):
        above: set[Value] = set()
        for op in graph.ops:
            if any(v in above or own.get(v) in wanted for v in op.operands):
                above.update(op.results)
        later |= {own[v] for v in above if own[v] in wanted}
    return [{v: key for v, key in own.items() if key in wanted - later} for own in keys]


def _all_shared(op: Op, own: Mapping[Value, int], others: frozenset[int]) -> bool:
    return all(own[v] in others for v in op.results)


def _freed(pair: Pair, chosen: Sequence[Mapping[Value, int]]) -> Freed:
    """Replace the chosen values in both programs by inputs, one input for all values computed
    alike."""
    inputs: dict[int, Value] = {}
    not_negative, positive, total = set[int](), set[int](), True
    for graph, some in zip(pair, chosen, strict=True):
        makers = {v: op for op in graph.ops for v in op.results}
        numbers = {v: op.number for v, op in makers.items() if op.number is not None}
        certain = Certain(makers, numbers)
        for value, key in some.items():
            inputs.setdefault(key, Value(value.type, "any"))
            total = total and certain.is_finite(value, total=True)
            if certain.is_positive(value):
                positive.add(key)
            elif certain.not_negative(value):
                not_negative.add(key)
    found: list[KernelGraph] = []
    for graph, some in zip(pair, chosen, strict=True):
        names = {value: inputs[key] for value, key in some.items()}
        kept = tuple(op for op in graph.ops if not names.keys() & set(op.results))
        renamed = rename_graph(replace(graph, ops=kept), names)
        given = (*graph.inputs, *inputs.values())
        found.append(without_dead_ops(replace(renamed, inputs=given)))
    numbered = list(enumerate(inputs, len(pair[0].inputs)))
    least, above = (
        frozenset(i for i, key in numbered if key in some) for some in (not_negative, positive)
    )
    return Freed((found[0], found[1]), least, above, total)
