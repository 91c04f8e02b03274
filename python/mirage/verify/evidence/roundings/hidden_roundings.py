"""Does a candidate round a value that the reference does not round, behind a rounding of the
reference?

``(x @ x.T).half() @ table`` is off by the rounding of ``half`` on most inputs, so rounding the
table to 16 bits as well makes little difference. But where the rows of ``x`` are zero except for
single numbers, ``half`` rounds nothing: the reference is as exact as f32, and the candidate is off
by a thousand times as much. Inputs that differ from such rows by a few roundings are not such rows,
so they must not count here.

So if a reference rounds something to fewer digits than an output has, each input in turn gets
numbers with all of its digits, and the others get numbers whose sums and products are exact in few
digits: signs, or a single one in each row, times a power of two. An error that is too large is
measured again in other draws of the same kind, so that it is not an accident of one draw. A
candidate that leaves out casts of the reference is more exact, and is not tested in this way: there
may be no other rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, all_ops
from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.roundings.rows_of_activations import Rng

_MOST_INPUTS = 16

Shape = tuple[int, ...]


def _signs(rng: Rng, shape: Shape) -> Array:
    return np.asarray(rng.choice((-1.0, 1.0), shape))


def _single_numbers(rng: Rng, shape: Shape) -> Array:
    if not shape:
        return _signs(rng, shape)
    at = rng.integers(shape[-1], size=(*shape[:-1], 1))
    return np.where(np.arange(shape[-1]) == at, _signs(rng, shape), 0.0)


_KINDS = (("signs", _signs), ("single numbers", _single_numbers))


def hidden_roundings(draw: Activations, reference: KernelGraph) -> Iterator[Situation | None]:
    """Yield the situations in which a candidate may round behind a rounding of the reference; None
    for those that another process tries."""
    if not _rounds(reference):
        return  # ordinary inputs show what a candidate rounds
    for i in draw.free[:_MOST_INPUTS]:
        for name, kind in _KINDS:
            yield _digits_of(draw, i, name, kind) if draw.mine() else None


def _rounds(graph: KernelGraph) -> bool:
    """Return whether a value of the program has fewer digits than an output."""
    outputs = {v.dtype for v in graph.outputs if not v.dtype.is_integer}
    values = {v.dtype for op in all_ops(graph.ops) for v in op.results if not v.dtype.is_integer}
    return any(not value.holds(output) for value in values for output in outputs)


def _digits_of(
    draw: Activations, i: int, what: str, kind: Callable[[Rng, Shape], Array]
) -> Situation:
    """Draw normal numbers for one input and, by ``kind``, numbers ``what`` for the others."""
    name = f"digits in input {i} alone, the others {what}"

    def special(again: int) -> dict[int, Array]:
        found: dict[int, Array] = {}
        for j in draw.free:
            rng = draw.stream(name, j, again)
            if j == i:
                found[j] = rng.standard_normal(draw.shapes[j]) * draw.scales[j]
            else:
                power = np.rint(np.log2(draw.scales[j])) + rng.integers(-1, 2)
                found[j] = kind(rng, draw.shapes[j]) * 2.0**power
        return found

    def inputs(again: int) -> list[Sampled]:
        return draw.situation(name, special(again)).inputs

    # a cast may be the only rounding there
    return replace(draw.situation(name, special(0)), again=inputs, casts=False)
