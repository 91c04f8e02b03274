"""Parts that are left to PyTorch, because its calls are predicted to be faster than their kernels,
and single products of parts for which nothing was found in time.

A part is replaced by PyTorch's ops, one by one, so its kernels are compared with these and not with
the result of another compiler. Both are predictions, whose errors are 9 to 13 % on average
(:mod:`mirage.cost.kernel_time`, :mod:`mirage.cost.library_products`); a part is left only if they
differ by more than twice that on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from mirage.cost.copy_kernels import product_work, unfused_in, unfused_report
from mirage.cost.fused_ops import op_by_op
from mirage.cost.library_products import library_product
from mirage.cost.target import Target
from mirage.pipeline.result import LeftPart
from mirage.pipeline.select import ranking
from mirage.semantics.alternatives import Alternatives, original, parts_of, replaced
from mirage.semantics.ugraph import KernelGraph, Op, Rearrangement, Value, View
from mirage.transforms.partition.calls import as_calls

MARGIN = 1.4
"""The ratio of the predicted time of a part's kernels to that of PyTorch's calls from which on the
part is left."""


def without_slower_parts(
    verified: KernelGraph, target: Target
) -> tuple[KernelGraph, tuple[LeftPart, ...]]:
    """Return the program with the parts for which PyTorch is predicted to be faster replaced by its
    calls, and those parts; the program itself if there are none."""
    left: dict[Alternatives, LeftPart] = {}
    different = dict.fromkeys(map(original, parts_of(verified)))
    for number, part in enumerate(different):
        places = sum(original(p) is part for p in parts_of(verified))
        order = ranking(part, target)
        calls = op_by_op(part.programs[0], target).time
        if order and slower(order[0][0], calls):
            left[part] = LeftPart(number, places, order[0][0], calls)
    if not left:
        return verified, ()
    graph = replaced(verified, lambda p: as_calls(p.programs[0]) if original(p) in left else None)
    return graph, tuple(left.values())


def without_slow_products(
    verified: KernelGraph, parts: Collection[Alternatives], target: Target
) -> tuple[KernelGraph, tuple[LeftPart, ...]]:
    """Return the program with calls of PyTorch in place of single products of some ``parts``, where
    kernels of fixed tiles are predicted to be slower, and, for each of these parts, what was left
    to PyTorch."""
    left: dict[Alternatives, LeftPart] = {}
    places = Counter(map(original, parts_of(verified)))
    for number, part in enumerate(places):
        if part not in parts:
            continue
        slow = _SlowProducts(part.programs[1], target)
        if slow.products:
            count = len(slow.products)
            left[part] = LeftPart(number, places[part], slow.kernels, slow.calls, count)
    if not left:
        return verified, ()

    def called(part: Alternatives) -> KernelGraph | None:
        if original(part) not in left:
            return None
        program = part.programs[1]
        return as_calls(program, _SlowProducts(program, target).left)

    return replaced(verified, called), tuple(left.values())


class _SlowProducts:
    """The products of a program that PyTorch computes faster than kernels of single ops, and the
    predicted µs of both. ``left`` are these, and views that only they read, which PyTorch does not
    copy."""

    def __init__(self, program: KernelGraph, target: Target) -> None:
        self.products: set[Op] = set()
        self.kernels = self.calls = 0.0
        views = _views(program)
        for op in unfused_in(program):
            if not product_work(op):
                continue
            copied = (
                v for v in views.get(op, ()) if isinstance(v, Rearrangement) and not v.renames
            )
            kernels = sum(unfused_report(x, target).time for x in (op, *copied))
            calls = library_product(op, target).time
            if slower(kernels, calls):
                self.products.add(op)
                self.kernels += kernels
                self.calls += calls
        self.left = self.products.union(v for op in self.products for v in views.get(op, ()))


def _views(program: KernelGraph) -> dict[Op, list[Op]]:
    """Return, for each op, the views that only it reads, directly or through other views."""
    readers: dict[Value, set[Op]] = {}
    for op in program.ops:
        for v in op.operands:
            readers.setdefault(v, set()).add(op)
    end: dict[Op, Op] = {}
    for op in reversed(program.ops):
        if isinstance(op, View) and op.result not in program.outputs:
            reading = readers.get(op.result, set[Op]())
            if len(reading) == 1:
                (reader,) = reading
                end[op] = end.get(reader, reader)
    found: dict[Op, list[Op]] = {}
    for view, op in end.items():
        found.setdefault(op, []).append(view)
    return found


def slower(kernels: float, calls: float) -> bool:
    """Return whether kernels are expected to be slower than calls of PyTorch, given the predicted
    times of both."""
    return kernels > MARGIN * calls
