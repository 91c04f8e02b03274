"""Parts that are left to PyTorch, because its calls are predicted to be faster than their kernels.

What replaces a part is PyTorch op by op, so this is what its kernels are compared with, and not
what a compiler would make of the part. Both are predictions, whose errors are 9 to 13 % on average
(:mod:`mirage.cost.kernel_time`, :mod:`mirage.cost.library_products`); a part is left only if they
differ by more than twice that on both sides.
"""

from __future__ import annotations

from mirage.cost.fused_ops import op_by_op
from mirage.cost.target import Target
from mirage.pipeline.result import LeftPart
from mirage.pipeline.select import ranking
from mirage.semantics.alternatives import Alternatives, original, parts_of, replaced
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.partition.calls import as_calls

MARGIN = 1.4
"""The predicted time of a part's kernels over that of PyTorch's calls from which it is left."""


def without_slower_parts(
    verified: KernelGraph, target: Target
) -> tuple[KernelGraph, tuple[LeftPart, ...]]:
    """Return the program with calls of PyTorch in place of the parts that these are predicted to be
    faster for, and those parts; the program itself if there are none."""
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


def slower(kernels: float, calls: float) -> bool:
    """Return whether kernels are expected to be slower than calls of PyTorch, given the predicted
    times of both."""
    return kernels > MARGIN * calls
