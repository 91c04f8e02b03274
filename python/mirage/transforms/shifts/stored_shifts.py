"""Partial results: the shifts that a launch must store in addition to its results."""

from __future__ import annotations

from collections.abc import Mapping

from mirage.semantics.ugraph import Launch, Value
from mirage.transforms.shifts.coverage import Coverage
from mirage.transforms.shifts.facts import StoredShift
from mirage.transforms.shifts.shifts import NotHomogeneous, TensorShift, TensorTerms, Term, Terms


def stored_shifts(
    launch: Launch, terms: Mapping[Value, Terms], coverage: Coverage
) -> tuple[list[StoredShift], dict[Value, TensorTerms]]:
    """Return the shifts to store, and how each result depends on them.

    Raises :class:`NotHomogeneous` if several blocks store parts that share a maximum."""
    grid = {axis.name for axis in launch.grid}
    stored: list[StoredShift] = []
    results: dict[Value, TensorTerms] = {}
    known: dict[tuple[object, ...], StoredShift] = {}
    for output, result in zip(launch.body.outputs, launch.results, strict=True):
        found: dict[TensorShift, Term] = {}
        for s, t in terms.get(output.value, {}).items():
            dims: list[int] = []
            where: list[int] = []  # dimensions of the stored tensor that the new one keeps
            for d, (tile, a) in enumerate(zip(output.value.shape, t.align, strict=True)):
                axes = output.map[d]
                varies = a is not None and s.result_shape[a] > 1
                if varies or (tile == 1 and axes):
                    dims.append(a if varies and a is not None else -1)
                    where.append(d)
            kept = frozenset(axis for d in where for axis in output.map[d])
            if (s.axes & grid) - kept:
                raise NotHomogeneous(
                    s.exps,
                    "blocks that write parts of the same row would need a common maximum",
                )
            shape = tuple(result.shape[d] for d in where)
            tile_map = tuple(output.map[d] for d in where)
            key = (s, tuple(dims), shape, tile_map)
            if key not in known:
                seen = coverage.seen(s, dims, shape, tile_map)
                tensor = TensorShift(shape, s.exps, seen)
                known[key] = StoredShift(s, tuple(dims), shape, tile_map, tensor)
                stored.append(known[key])
            align = tuple(where.index(d) if d in where else None for d in range(len(result.shape)))
            partial = t.partial or any(a is not None and s.partial(a) for a in t.align)
            found[known[key].tensor] = Term(t.power, align, partial=partial)
        if found:
            results[result] = found
    return stored, results
