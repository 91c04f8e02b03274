"""The pairs of axes for which a loop inside a loop may be worthwhile.

Consider a sum over ``b`` whose summand contains a sum over ``a`` that depends on ``b`` (the rows of
a second matmul that are functions of a first one). It can be computed with ``a`` whole in a tile,
or with a loop over ``a`` at each step of the loop over ``b``. The latter is better if ``a`` is too
long for a tile, and only if not too many blocks need the inner results, since each block computes
them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf, prod

from mirage.cost.compilable import MAX_COLUMNS
from mirage.cost.target import Target
from mirage.search.algebra.atoms import Fn2Atom, InAtom, MaxAtom
from mirage.search.algebra.normal_form import NormalForms
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.loop_nests.problem_axes import Analysis
from mirage.search.kernel.problems.merges import below

LONG = 128
"""The extent up to which axes are kept whole in a tile."""
UNFUSED = 2.0
"""The time that two kernels are assumed to take, as a multiple of the time for their bytes and
products."""


@dataclass(frozen=True)
class _Sum:
    """A sum or maximum: its axis, the axes on which the summand depends, and those over which the
    summand has sums."""

    axis: str
    free: frozenset[str]
    bound: frozenset[str]

    def inside(self, outer: str) -> bool:
        """Return whether it can be computed at each step of a loop over ``outer``."""
        return outer != self.axis and outer in self.free and outer not in self.bound


def nested_types(analysis: Analysis, target: Target, best: float) -> list[FrameType]:
    """Return the frame types with two nested loops that may be faster than ``best`` (µs of the best
    frame with one loop; infinite if there is none) and than two kernels.
    """
    algebra, polys = analysis.normal_forms(FrameType(None, None), False)
    use = analysis.use
    pairs: dict[tuple[str, str], list[_Sum]] = {}
    for outer, inner in _pairs(algebra, polys):
        both = (outer, inner.axis)
        if all(a in use.reduced and use.sizes[a] > LONG for a in both):
            pairs.setdefault(both, []).append(inner)
    out: list[FrameType] = []
    for (b, a), sums in pairs.items():
        least, apart = _bounds(analysis, algebra, sums, target)
        if least < min(best, apart):
            out.extend(FrameType(b, split, inner=a) for split in (None, b))
    return out


def _pairs(algebra: NormalForms, polys: tuple[int, ...]) -> Iterator[tuple[str, _Sum]]:
    """Yield the axes of sums, with the sums inside of their summands that depend on the axis."""
    every, atoms = below(algebra, polys)
    for poly in every:
        for (factors, bound), _ in algebra.polys[poly]:
            for axis in sorted(a for a, _ in bound):
                parts = [x for x in factors if (axis, "L") in algebra.atom_free[x]]
                for x in parts:
                    yield from ((axis, s) for s in _inside(algebra, x) if s.inside(axis))
                for other in sorted(a for a, _ in bound if a != axis):  # a chain of products
                    shared = [x for x in factors if (other, "L") in algebra.atom_free[x]]
                    inner = _sum(algebra, other, shared)
                    if inner.inside(axis) and set(parts) - set(shared):
                        yield axis, inner
    for atom in atoms:
        if isinstance(atom, MaxAtom):
            for axis in sorted({a for a, _ in atom.bound}):
                yield from ((axis, s) for s in _sums(algebra, atom.arg) if s.inside(axis))


def _sum(algebra: NormalForms, axis: str, atoms: list[int]) -> _Sum:
    free = frozenset(a for x in atoms for a, _ in algebra.atom_free[x])
    return _Sum(axis, free, frozenset(a for x in atoms for a, _ in algebra.atom_bound[x]))


def _inside(algebra: NormalForms, atom: int) -> Iterator[_Sum]:
    match algebra.atoms[atom]:
        case InAtom():
            return
        case Fn2Atom(_, a, b):
            yield from _sums(algebra, a)
            yield from _sums(algebra, b)
        case other:
            yield from _sums(algebra, other.arg)


def _sums(algebra: NormalForms, poly: int) -> Iterator[_Sum]:
    for inner in below(algebra, (poly,))[0]:
        for (factors, bound), _ in algebra.polys[inner]:
            for axis in sorted({a for a, _ in bound}):
                parts = [x for x in factors if (axis, "L") in algebra.atom_free[x]]
                yield _sum(algebra, axis, parts)


def _bounds(
    analysis: Analysis, algebra: NormalForms, sums: list[_Sum], target: Target
) -> tuple[float, float]:
    """Return the least µs of a nest, and (roughly) the most µs of two kernels, one of which stores
    the inner sums.

    A block computes the inner sums for all elements that it stores. So along axes of the outputs
    that the inner sums do not have, they are computed once for each tile.
    """
    use, tensors = analysis.use, analysis.problem.leaves
    sizes, rate = use.sizes, target.mma_half * target.sms
    least, work, stored = inf, 0.0, 0.0
    reads = {a.tensor: a.dims for a in algebra.atoms if isinstance(a, InAtom)}
    size = sum(tensors[i].type.bytes for i in reads)
    for s in set(sums):
        again = prod(ceil(sizes[a] / MAX_COLUMNS) for a in use.free if a not in s.free)
        flops = 2.0 * prod(sizes[a] for a in s.free)
        bytes_ = sum(
            tensors[i].type.bytes for i, dims in reads.items() if any(s.axis in dim for dim in dims)
        )
        least = min(least, max(again * flops / rate, again * bytes_ / target.l2_bytes))
        work += flops / rate
        stored += 2.0 * prod(sizes[a] for a in s.free if a != s.axis)
    fixed = target.launch + target.latency
    moved = (size + 2.0 * stored) / target.dram_bytes
    least = max(least, size / target.dram_bytes) + target.launch
    return least, UNFUSED * (work + moved) + 3.0 * fixed
