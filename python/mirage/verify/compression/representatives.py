"""The elements of two small programs' outputs that have to be compared.

No op distinguishes the indices of a segment of a digit, so if an output's index runs through a
digit, one index of each segment stands for all. It may be a single index: if terms of the
comparison depend on at most ``v`` indices, the output's index is one of them. So the first cell of
each segment is enough, and values that only other rows need are not computed.

This holds if the output's index runs through the digit once (a diagonal is not like the rest), if
no slice pins it, and if no sum depends on the order of its indices. The argument is in
``docs/verification.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from mirage.semantics.region import Region
from mirage.semantics.ugraph import Value
from mirage.verify.compression.small_program import Cells


def representatives(outputs: Sequence[Value], cells: Cells) -> tuple[Region, ...]:
    """Return, for each output of the real program, the elements of the small program's output to
    compare."""
    return tuple(_of_output(v, cells) for v in outputs)


def _of_output(value: Value, cells: Cells) -> Region:
    slots = [cells.structure.slot(value, d) for d in range(len(value.shape))]
    digits = [cells.structure.digits_of(s) for s in slots]
    uses = Counter(d for names in digits for d in names)
    region: Region = ()
    for slot, names in zip(slots, digits, strict=True):
        count = cells.size(slot)
        chosen = np.zeros(1, dtype=np.int64)
        for d in names:
            firsts = _firsts(d, cells) if uses[d] == 1 else list(range(len(cells.cells[d])))
            chosen = np.add.outer(chosen * len(cells.cells[d]), np.array(firsts)).ravel()
        chosen = chosen[chosen < count]
        region = (*region, None if len(chosen) == count else chosen)
    return region


def _firsts(name: Hashable, cells: Cells) -> list[int]:
    """Return the first cell of each segment, or all cells if these are not interchangeable."""
    digit = cells.structure.digits[name]
    sizes = cells.cells[name]
    if digit.pinned or digit.ordered:
        return list(range(len(sizes)))
    starts = {sum(digit.segments[:i]) for i in range(len(digit.segments))}
    result: list[int] = []
    before = 0
    for number, size in enumerate(sizes):
        if before in starts:
            result.append(number)
        before += size
    return result
