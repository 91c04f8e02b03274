"""Is a program defined for no inputs at all?

The logarithm of ``-x*x - 1`` is not a number for any ``x``, and a value to which infinity is added
is infinite. Such a program is a mistake, and every rewrite of it would be as correct as any other.
A program that gives a number anywhere is not such a program: a mask may empty a row, and most of
the data of a root may be negative. So inputs of many kinds and sizes are drawn until one element of
one result is a finite number, which for nearly all programs is one of the first. Ops that do not
depend on inputs (a mask that is made of constants) are not examined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluation.evaluate import EvaluationError, Sampled, evaluate_sampled
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.region import region_shape
from mirage.semantics.scalar import Array
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Value
from mirage.verify.evidence.samples.integer_inputs import (
    compared_with,
    draw_integers,
    inside,
    looked_up,
)
from mirage.verify.evidence.samples.real_sizes import restrict
from mirage.verify.evidence.samples.sampled_outputs import Sample, choose_sample
from mirage.verify.evidence.samples.where_defined import Part

_WORK, _MOST_WORK = 2e4, 4e6
"""The number of elements that are computed in a draw: the wanted number, and the limit."""
_SIZES = tuple(2.0**k for k in (0, 2, -2, 4, -4, 7, -7, 10, -10, 14, 20, 30))
"""The sizes of drawn numbers, ordinary ones first."""
_SPREAD = 16
"""The number of draws in which numbers of all sizes are mixed."""

Held = Callable[[int, Region], Array | None]
"""A function that returns the part of an input that a region selects, if the contents of the input
are known. Other numbers are tried in their place as well: a program may be checked before its
weights exist."""


def first_without_numbers(graph: KernelGraph, held: Held) -> Op | None:
    """Return the first op that depends on inputs and gives no finite number, if the program's
    results contain no finite number for any of the inputs that are drawn. Return None for programs
    that have one, and for those that cannot be decided (calls of PyTorch, tensors without elements,
    too large)."""
    graph = decompose(loaded(graph), stable=True)
    outputs = tuple(v for v in graph.outputs if v.type.size)
    if any(v.type.size == 0 for op in graph.ops for v in (*op.operands, *op.results)):
        return None
    if not outputs or any(v.dtype.is_integer for v in outputs):
        return None
    graph = replace(graph, outputs=outputs)
    if any(op.calls for op in without_dead_ops(graph).ops):
        return None
    depending = _depending(graph)
    if not depending.issuperset(outputs):
        return None
    try:
        if _has_numbers(graph, held):
            return None
        for op in without_dead_ops(graph).ops:
            results = tuple(v for v in op.results if v in depending and not v.dtype.is_integer)
            if results and not _has_numbers(replace(graph, outputs=results), held):
                return op
    except (UnknownOp, EvaluationError):  # calls, about which nothing is known; results left open
        return None
    return None


def _depending(graph: KernelGraph) -> set[Value]:
    """Return the values that are computed from inputs."""
    found = set(graph.inputs)
    for op in graph.ops:
        if not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _has_numbers(graph: KernelGraph, held: Held) -> bool:
    """Return whether some element of some output is a finite number for some of the inputs; True
    also if it would take too long to find out."""
    sample = choose_sample((graph,), _WORK, np.random.default_rng(0))
    if sample.work > _MOST_WORK:
        return True
    for inputs in _drawn(graph, sample, held):
        found = evaluate_sampled(graph, TypedFloat(), inputs, sample.demands[0])
        entries = zip(found, sample.outputs, graph.outputs, strict=True)
        if any(np.isfinite(restrict(x, region, v)[0]).any() for x, region, v in entries):
            return True
    return False


def _drawn(graph: KernelGraph, sample: Sample, held: Held) -> Iterator[list[Sampled]]:
    """Yield inputs: first normal numbers; then, with the known contents in place, numbers of all
    parts and sizes, and numbers of all sizes mixed with each other."""
    rng = np.random.default_rng(1)
    yield _inputs(graph, sample, rng, lambda shape: rng.standard_normal(shape), None)
    known = {i: held(i, region) for i, region in enumerate(sample.inputs)}
    for size in _SIZES:
        for part in Part:
            for sign in (1.0, -1.0):
                yield _inputs(
                    graph, sample, rng,
                    lambda shape, size=size, part=part, sign=sign: sign * size
                    * part.of(rng.standard_normal(shape)), known, within=sign < 0,
                )  # fmt: skip
    for _ in range(_SPREAD):
        yield _inputs(graph, sample, rng, lambda shape: _of_all_sizes(rng, shape), known)


def _of_all_sizes(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    signs = rng.choice((-1.0, 1.0), shape)
    return np.asarray(signs * 2.0 ** rng.uniform(-12.0, 24.0, shape))


def _inputs(
    graph: KernelGraph,
    sample: Sample,
    rng: np.random.Generator,
    draw: Callable[[tuple[int, ...]], Array],
    known: dict[int, Array | None] | None,
    *,
    within: bool = False,
) -> list[Sampled]:
    """Draw inputs. Integers ``within`` bounds always name something: a mean over many rows is a
    number only if no row is out of range."""
    extents, rows = compared_with(graph), inside(graph) if within else looked_up(graph)
    inputs: list[Sampled] = []
    for i, (v, region) in enumerate(zip(graph.inputs, sample.inputs, strict=True)):
        x = None if known is None else known[i]
        if x is None and v.dtype.is_integer:
            x = draw_integers(rng, v, region, extents.get(v, 0), rows.get(v))
        elif x is None:
            x = v.dtype.round(draw(region_shape(region, v.shape)))
        inputs.append(Sampled((x,), region))
    return inputs
