"""Is a program defined for no inputs at all?

The logarithm of ``-x*x - 1`` is no number for any ``x``, and what a constant of infinity is added
to is infinite. Such a program is a mistake, of which every rewrite would be as right as any other.
A program that has a number anywhere is none: a row that a mask empties, or a root of data most of
which is negative. So inputs of many kinds and sizes are drawn until one element of one result is a
finite number, which for nearly all programs is one of the first; what says something of no inputs
(a mask that is made of constants) is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluation.evaluate import EvaluationError, Sampled, evaluate_sampled
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.region import region_shape
from mirage.semantics.scalar import Array
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import External, KernelGraph, Op, Value
from mirage.verify.evidence.samples.integer_inputs import compared_with, draw_integers, looked_up
from mirage.verify.evidence.samples.real_sizes import restrict
from mirage.verify.evidence.samples.sampled_outputs import Sample, choose_sample
from mirage.verify.evidence.samples.where_defined import Part

_WORK, _MOST_WORK = 2e4, 4e6
"""Elements that are computed in a draw: how many are wanted, and how many there may be."""
_SIZES = tuple(2.0**k for k in (0, 2, -2, 4, -4, 7, -7, 10, -10, 14, 20, 30))
"""The sizes of drawn numbers, ordinary ones first."""
_SPREAD = 16
"""Draws of numbers of all sizes beside each other."""

Held = Callable[[int, Region], Array | None]
"""The part of an input that a region says, where it is known what the input holds. Other numbers
are drawn in its place as well: a program may be asked for before its weights are there."""


def first_without_numbers(graph: KernelGraph, held: Held) -> Op | None:
    """Return the first op that depends on inputs and gives no finite number, for a program whose
    results have none for any inputs that are drawn. None for programs that have one, and for
    those that cannot be told (calls of PyTorch, too large)."""
    graph = decompose(graph, stable=True)
    outputs = tuple(v for v in graph.outputs if v.type.size)
    if not outputs or any(v.dtype.is_integer for v in outputs):
        return None
    graph = replace(graph, outputs=outputs)
    if any(isinstance(op, External) for op in without_dead_ops(graph).ops):
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
    except (UnknownOp, EvaluationError):  # calls, of which nothing is known; results left open
        return None
    return None


def _depending(graph: KernelGraph) -> set[Value]:
    """The values that are made of inputs."""
    found = set(graph.inputs)
    for op in graph.ops:
        if not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _has_numbers(graph: KernelGraph, held: Held) -> bool:
    """Whether some element of some output is a finite number, for some of the inputs; so it is said
    where that would take too long to find out."""
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
    """Inputs: normal numbers; then, with what is held in its place, numbers of all parts and sizes,
    and those of all sizes beside each other."""
    rng = np.random.default_rng(1)
    yield _inputs(graph, sample, rng, lambda shape: rng.standard_normal(shape), None)
    known = {i: held(i, region) for i, region in enumerate(sample.inputs)}
    for size in _SIZES:
        for part in Part:
            for sign in (1.0, -1.0):
                yield _inputs(
                    graph, sample, rng,
                    lambda shape, size=size, part=part, sign=sign: sign * size
                    * part.of(rng.standard_normal(shape)), known, inside=sign < 0,
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
    inside: bool = False,
) -> list[Sampled]:
    """Draw inputs. With ``inside``, integers that are compared with others (targets with classes)
    are below the largest of these: a mean over many rows is a number only if no row is beyond."""
    extents, rows = compared_with(graph), looked_up(graph)
    inputs: list[Sampled] = []
    for i, (v, region) in enumerate(zip(graph.inputs, sample.inputs, strict=True)):
        x = None if known is None else known[i]
        if x is None and v.dtype.is_integer:
            below = rows.get(v)
            if inside and below is None and v in extents:
                below = max(extents[v] - 1, 1)
            x = draw_integers(rng, v, region, extents.get(v, 0), below)
        elif x is None:
            x = v.dtype.round(draw(region_shape(region, v.shape)))
        inputs.append(Sampled((x,), region))
    return inputs
