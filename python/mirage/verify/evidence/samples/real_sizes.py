"""The unchanged programs, run over a finite field: with their masks, tails, maps, constants and
sizes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.evaluation.evaluate import Sampled, evaluate_sampled
from mirage.semantics.numbers import as_number
from mirage.semantics.region import Region, region_shape
from mirage.semantics.scalar import Array, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Mask, Value, all_ops
from mirage.verify.arithmetic.field import FieldPair
from mirage.verify.arithmetic.primes import draw
from mirage.verify.evidence.samples.sampled_outputs import Sample

Q_BITS = 22  # p = r q + 1 below 2^25 leaves r up to 8


@dataclass(frozen=True)
class FieldDraw:
    """The result of one draw. ``equal[i][j]``: output ``i`` of the reference equals output ``j`` of
    the candidate wherever computed.
    """

    equal: tuple[tuple[bool, ...], ...]
    primes: tuple[int, int]
    undefined: int  # elements undefined on either side, in outputs that are equal elsewhere
    hopeless: bool = False  # no element of such an output is defined, and it has several


def constants_of(graph: KernelGraph) -> set[Fraction]:
    """Return all finite constants, including the fill values of masks."""
    values = (
        as_number(op.fill) if isinstance(op, Mask) else op.number for op in all_ops(graph.ops)
    )
    return {value for value in values if isinstance(value, Fraction)}


def takes_logarithms(graph: KernelGraph) -> bool:
    """Return whether the program has a ``log``."""
    return any(op.function is UnaryFn.LOG for op in all_ops(graph.ops))


def field_draw(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    rng: random.Random,
    *,
    logarithms: bool = False,
) -> FieldDraw:
    """Evaluate both programs on one random input over one random field. Graphs are normalized and
    free of composites. With ``logarithms``, ``log`` is the inverse of ``exp`` instead of a random
    function.
    """
    primes = draw(rng, Q_BITS, 1 << 25)
    domain = FieldPair(primes, rng.getrandbits(64), logarithms=logarithms)
    source = np.random.default_rng(rng.getrandbits(128))
    inputs: list[Sampled] = []
    for number, (v, r) in enumerate(zip(graphs[0].inputs, sample.inputs, strict=True)):
        fixed = sample.fixed_part(number)
        random_value = domain.random(source, region_shape(r, v.shape))
        inputs.append(Sampled(random_value if fixed is None else domain.integers(fixed), r))
    first, second = (
        evaluate_sampled(g, domain, inputs, d) for g, d in zip(graphs, sample.demands, strict=True)
    )
    undefined, hopeless = 0, False
    equal: list[tuple[bool, ...]] = []
    for i, (x, v) in enumerate(zip(first, graphs[0].outputs, strict=True)):
        row: list[bool] = []
        want = restrict(x, sample.outputs[i], v)
        for y, u in zip(second, graphs[1].outputs, strict=True):
            if u.shape != v.shape:
                row.append(False)
                continue
            got = restrict(y, sample.outputs[i], u)
            same, defined = domain.agreement(want, got)
            row.append(bool(same.all()))
            if row[-1]:
                undefined += int((~defined).sum())
                hopeless |= defined.size > 1 and not defined.any()
        equal.append(tuple(row))
    return FieldDraw(tuple(equal), (primes.p, primes.q), undefined, hopeless)


def restrict(x: Sampled, region: Region, value: Value, sets: int = 0) -> Planes:
    """Return the elements of ``region`` from a sample that contains them; arrays have ``sets``
    dimensions before their own."""
    planes = x.planes
    for dim, (want, have, size) in enumerate(zip(region, x.region, value.shape, strict=True)):
        if want is None and have is None:
            continue
        index: Array = np.arange(size) if want is None else want
        at = index if have is None else np.searchsorted(have, index)
        planes = tuple(np.take(p, at, axis=sets + dim) for p in planes)
    return planes
