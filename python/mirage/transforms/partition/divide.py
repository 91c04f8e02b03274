"""Cuts what is too large to be searched at once, where little is handed over.

The time of a search grows faster than the program. A program of many layers is therefore cut into
runs of consecutive ops whose tensors between them are as small as possible: as a rule the
activations between two layers, or between the halves of one, which are stored anyway. Integers and
truth values are handed over where there is no other way only: kernels compute them as floats. Which
runs those are is the shortest path over the places between ops: each run at most so heavy, as few
bytes as possible (their squares are added up) read on both sides of a cut, then as few runs and as
even ones as possible, so that equal layers are cut alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph, Op, Value, View

_INTEGERS = 1 << 40
"""Bytes that a tensor of integers counts for, besides its own, where it is handed over."""
LARGEST = 43
"""Primitive ops, views apart, of a part that is searched as one."""
REMAINDER = 0.25
"""A run that is no heavier than this share of the largest one goes to a neighbour, which may be as
much heavier then: no kernel of a few ops by themselves could be one with what they read."""


def weight(op: Op) -> int:
    """How many primitive ops an op stands for; views and numbers count nothing."""
    alone = KernelGraph("op", tuple(dict.fromkeys(op.operands)), (op,), op.results)
    return sum(bool(x.operands) and not isinstance(x, View) for x in decompose(alone).ops)


def divide(
    ops: Sequence[Op],
    definitions: Mapping[Value, Op],
    largest: float = LARGEST,
    stored: Collection[Value] = (),
) -> list[list[Op]]:
    """Runs of ``ops``, each of weight ``largest`` at most where it has more than one op and no
    remainder has joined it.

    ``ops`` are in an order in which they can run; ``definitions`` has also the views that they read
    what others of them compute through. ``stored`` are values that are written in any case.
    """
    weights = [weight(op) for op in ops]
    if sum(weights) <= largest:
        return [list(ops)]
    handed = _handed_over(ops, _roots(definitions), stored)
    count = len(ops)
    # Of what follows each place: bytes, runs, the sum of squares of weights, the end of the first.
    best: list[tuple[int, int, int, int]] = [(0, 0, 0, count)] * (count + 1)
    for start in reversed(range(count)):
        total, options = 0, list[tuple[int, int, int, int]]()
        for end in range(start + 1, count + 1):
            total += weights[end - 1]
            if total > largest and end > start + 1:
                break
            bytes_after, runs, squares, _ = best[end]
            wide = handed[end] ** 2  # rather two narrow cuts than a wide one
            options.append((wide + bytes_after, runs + 1, squares + total**2, end))
        best[start] = min(options)
    found: list[list[Op]] = []
    start = 0
    while start < count:
        end = best[start][3]
        found.append(list(ops[start:end]))
        start = end
    return _joined(found, largest)


def _joined(runs: list[list[Op]], largest: float) -> list[list[Op]]:
    """Runs without remainders that a neighbour can take: the one before, as a rule, so that equal
    layers stay equal; the lightest goes first."""
    weights = [sum(map(weight, run)) for run in runs]
    while True:
        pairs = [
            (other > at, weights[at], at, other)
            for at in range(len(weights))
            for other in (at - 1, at + 1)
            if weights[at] <= REMAINDER * largest and 0 <= other < len(weights)
            if weights[at] + weights[other] <= (1 + REMAINDER) * largest
        ]
        if not pairs:
            return runs
        _, _, at, other = min(pairs)
        first = min(at, other)
        runs = [*runs[:first], [*runs[first], *runs[first + 1]], *runs[first + 2 :]]
        weights = [*weights[:first], weights[at] + weights[other], *weights[first + 2 :]]


def _roots(definitions: Mapping[Value, Op]) -> Callable[[Value], Value]:
    def root(value: Value) -> Value:
        while isinstance(op := definitions.get(value), View):
            value = op.operands[0]
        return value

    return root


def _handed_over(
    ops: Sequence[Op], root: Callable[[Value], Value], stored: Collection[Value] = ()
) -> list[int]:
    """Bytes that ops before each place compute or read, and ops after it read (again). Those of
    ``stored`` need not be written for that, and count half."""
    written = set(map(root, stored))
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    computed = {v for op in ops for v in op.results}
    for i, op in enumerate(ops):
        for value in map(root, op.operands):
            first.setdefault(value, i)
            last[value] = i
        first.update(dict.fromkeys(op.results, i))
    handed = [0] * (len(ops) + 1)
    for value, end in last.items():
        made = value.dtype.is_integer and value in computed
        size = value.type.bytes // (2 if value in written and value in computed else 1)
        for place in range(first[value] + 1, end + 1):
            handed[place] += size + (_INTEGERS if made else 0)
    return handed
