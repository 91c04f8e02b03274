"""Division of programs that are too large to be searched at once, at places where little data is
passed on.

The time of a search grows faster than the program. So a program of many layers is cut into runs of
consecutive ops such that the tensors between them are as small as possible: usually the activations
between two layers, or between the halves of one, which are stored anyway. Integers and truth values
are passed on only if there is no other way, since kernels compute them as floats. The best runs are
the shortest path over the places between ops. Each run has at most a given weight. The path
minimises first the bytes (the sum of their squares) read on both sides of a cut, then the number of
runs and their unevenness, so that equal layers are cut alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from mirage.cost.compilable import FEW_ROWS
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import Contraction, Elementwise, KernelGraph, Op, Source, Value, View

_INTEGERS = 1 << 40
"""The additional bytes that a tensor of integers counts for if it is passed on."""
_KERNEL, _BEGINNING = 1 << 23, 10
"""The additional bytes that a cut counts for if the run after it begins with functions of more than
``FEW_ROWS`` rows that the run before it could compute, such as their norm; and the ops at the
beginning that count. The kernel that makes the rows can compute these as well, and another kernel
takes as long as memory needs for that many bytes. Fewer rows are normalised where they are
multiplied."""
LARGEST = 43
"""The most primitive ops, not counting views, of a part that is searched as one."""
REMAINDER = 0.25
"""A run that is not heavier than this share of the largest one is merged into a neighbour, which
may then be heavier by as much: a few separate ops could not form one kernel with the ops whose
results they read."""


def weight(op: Op) -> int:
    """Return the number of primitive ops in an op; views and numbers do not count."""
    alone = KernelGraph("op", tuple(dict.fromkeys(op.operands)), (op,), op.results)
    return sum(bool(x.operands) and not isinstance(x, View) for x in decompose(alone).ops)


def divide(
    ops: Sequence[Op],
    definitions: Mapping[Value, Op],
    largest: float = LARGEST,
    stored: Collection[Value] = (),
) -> list[list[Op]]:
    """Return runs of ``ops``, each of weight ``largest`` at most, unless it has a single op or a
    remainder was merged into it.

    ``ops`` are in an order in which they can run; ``definitions`` also has the views through which
    they read each other's results. ``stored`` are values that are written in any case.
    """
    weights = [weight(op) for op in ops]
    if sum(weights) <= largest:
        return [list(ops)]
    numbers = {v for v, op in definitions.items() if isinstance(op, Source)}
    handed = _handed_over(ops, _roots(definitions), stored, numbers)
    count = len(ops)
    # For the ops from each position on: bytes, runs, sum of squared weights, end of the first run.
    best: list[tuple[int, int, int, int]] = [(0, 0, 0, count)] * (count + 1)
    for start in reversed(range(count)):
        total, options = 0, list[tuple[int, int, int, int]]()
        for end in range(start + 1, count + 1):
            total += weights[end - 1]
            if total > largest and end > start + 1:
                break
            bytes_after, runs, squares, _ = best[end]
            wide = handed[end] ** 2  # two narrow cuts are better than a wide one
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
    """Merge remainders into a neighbour that can take them: usually the previous run, so that equal
    layers stay equal; the lightest run goes first."""
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
    ops: Sequence[Op],
    root: Callable[[Value], Value],
    stored: Collection[Value],
    numbers: Collection[Value],
) -> list[int]:
    """Return, for each place, the bytes that ops before it compute or read and ops after it read
    (again). Bytes of ``stored`` values need not be written for that, and count half. Numbers are
    not passed on: each run has its own."""
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
    for place in _in_functions_of_rows(ops, root):
        handed[place] += _KERNEL
    for value, end in last.items():
        if value in numbers:
            continue
        made = value.dtype.is_integer and value in computed
        size = value.type.bytes // (2 if value in written and value in computed else 1)
        for place in range(first[value] + 1, end + 1):
            handed[place] += size + (_INTEGERS if made else 0)
    return handed


def _in_functions_of_rows(ops: Sequence[Op], root: Callable[[Value], Value]) -> set[int]:
    """Return the places after which ops begin to change elements of several rows, or to sum them,
    although the run before could do this."""
    found: set[int] = set()
    ready: dict[Value, int] = {}  # the place from which on each value could be computed
    for i, op in enumerate(ops):
        read = [ready[v] for v in map(root, op.operands) if v in ready]
        adds = isinstance(op, Contraction) and len(op.operands) == 1 and op.sums
        if not read or not (adds or isinstance(op, Elementwise)):
            ready.update(dict.fromkeys(op.results, i + 1))
            continue
        place = max(read)
        ready.update(dict.fromkeys(op.results, place))
        widest = max((v.type for v in op.operands), key=lambda t: t.size)
        if widest.size > FEW_ROWS * max(widest.shape[-1:], default=1):
            found.update(range(max(place, i - _BEGINNING), i + 1))
    return found
