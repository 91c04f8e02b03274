"""Values that a block would compute twice.

A derivation names the axes of what it computes. So a product that is needed once with its rows and
once with the rows exchanged (the halves of a rotary embedding) is derived twice, and written twice:
the ops are the same, because an axis that a block has as a whole has no name in them. Sums over a
loop are merged here, too: no compiler behind this one sees that two of them are always equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import cache

from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import Op, Structure, Value

Known = dict[Value, Value]
"""The first of the values that are equal, for each other one."""


def without_repeats(ops: Iterable[Op], known: Known) -> list[Op]:
    """Return ``ops`` of a block with each value computed once. ``known`` gets the values that are
    left out; it may have some before, such as two names of one tensor."""
    first: dict[tuple[object, ...], Op] = {}
    kept: list[Op] = []
    for op in ops:
        renamed = with_operands(op, tuple([known.get(v, v) for v in op.operands]))
        if isinstance(renamed, Structure):
            inside = tuple(without_repeats(renamed.inside, known))
            kept.append(renamed.with_each_once(inside, known))
            continue
        earlier = first.setdefault(_key(renamed), renamed)
        if earlier is renamed:
            kept.append(renamed)
        else:
            known.update(zip(op.results, earlier.results, strict=True))
    return kept


def _key(op: Op) -> tuple[object, ...]:
    """What determines the results of an op; attributes as text, as 1 is equal to True."""
    attributes = [repr(getattr(op, name)) for name in _attributes(type(op))]
    return type(op), op.operands, tuple([v.type for v in op.results]), *attributes


@cache
def _attributes(kind: type[Op]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.name not in ("operands", "results"))
