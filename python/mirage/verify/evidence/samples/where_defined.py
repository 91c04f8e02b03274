"""The inputs for which a program is defined, so that numbers are drawn there.

The root of a variance that is an input, or the logarithm of a probability, is NaN for half of all
random inputs, and nothing is compared where the reference is NaN. So inputs are moved to where it
is defined: to their magnitudes, above one, between -1 and 1, or between 0 and 1. Trials find which
inputs to move, and where to: as few inputs as possible, as little as possible, so that most of the
reference's outputs are numbers. The choice affects only which inputs are tried.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from mirage.semantics.domain import Float64
from mirage.semantics.evaluation.evaluate import Sampled, evaluate_sampled
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.region import region_shape
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import Composite, KernelGraph
from mirage.verify.evidence.samples.integer_inputs import compared_with, draw_integers, looked_up
from mirage.verify.evidence.samples.real_sizes import restrict
from mirage.verify.evidence.samples.sampled_outputs import Sample, choose_sample

_WORK, _MOST_WORK = 2e4, 4e6
"""The number of elements that are computed to try a choice: the wanted number, and the limit."""
_MOST_INPUTS, _ROUNDS = 24, 2


class Part(enum.Enum):
    """The set of numbers that an input is moved to, from the weakest restriction to the
    strongest."""

    ALL = "any numbers"
    MAGNITUDES = "not negative"
    ABOVE_ONE = "above 1"
    UNIT = "between -1 and 1"
    SHARES = "between 0 and 1"

    def of(self, x: Array) -> Array:
        """Move numbers into this set."""
        with np.errstate(invalid="ignore"):
            match self:
                case Part.ALL:
                    return x
                case Part.MAGNITUDES:
                    return np.asarray(np.abs(x))
                case Part.ABOVE_ONE:
                    return np.asarray(1.0 + np.abs(x))
                case Part.UNIT:
                    return np.asarray(0.98 * x / (1.0 + np.abs(x)))
                case Part.SHARES:
                    return np.asarray(0.01 + 0.98 * np.abs(x) / (1.0 + np.abs(x)))


@dataclass(frozen=True)
class Where:
    """The inputs that are restricted, by their numbers, and the set of numbers that each is moved
    to."""

    parts: Mapping[int, Part] = field(default_factory=dict[int, Part])

    def restricted(self, number: int, x: Array) -> Array:
        """Move random numbers of an input to where the program is defined."""
        return self.parts[number].of(x) if number in self.parts else x

    def __str__(self) -> str:
        """Describe the restrictions, for evidence."""
        if not self.parts:
            return ""
        each = ", ".join(f"input {i} {p.value}" for i, p in sorted(self.parts.items()))
        return f"; where the reference is defined: {each}"


EVERYWHERE = Where()
_KNOWN: WeakKeyDictionary[KernelGraph, Where] = WeakKeyDictionary()


def where_defined(graph: KernelGraph) -> Where:
    """Find where ``graph`` (free of composites) is defined, according to trials."""
    found = _KNOWN.get(graph)
    if found is None:
        found = _KNOWN[graph] = _looked_for(graph)
    return found


def _looked_for(graph: KernelGraph) -> Where:
    floats = [i for i, v in enumerate(graph.inputs) if not v.dtype.is_integer]
    known = not any(isinstance(op, Composite) for op in graph.ops)
    if not floats or len(floats) > _MOST_INPUTS or not known:
        return EVERYWHERE
    sample = choose_sample((graph,), _WORK, np.random.default_rng(0))
    if sample.work > _MOST_WORK:
        return EVERYWHERE
    try:
        return _Choice(graph, sample, floats).made()
    except UnknownOp:  # nothing is known about the results of calls
        return EVERYWHERE


class _Choice:
    """Tries restrictions of the inputs of one program, on the same random numbers."""

    def __init__(self, graph: KernelGraph, sample: Sample, floats: Sequence[int]) -> None:
        self.graph, self.sample, self.floats = graph, sample, list(floats)
        self.counted: dict[frozenset[tuple[int, Part]], tuple[int, int]] = {}
        rng = np.random.default_rng(1)
        extents, rows = compared_with(graph), looked_up(graph)
        self.drawn = [
            draw_integers(rng, v, region, extents.get(v, 0), rows.get(v))
            if v.dtype.is_integer
            else rng.standard_normal(region_shape(region, v.shape))
            for v, region in zip(graph.inputs, sample.inputs, strict=True)
        ]

    def made(self) -> Where:
        """Return the weakest restrictions that give the most numbers."""
        parts = dict.fromkeys(self.floats, Part.ALL)
        best, most = self.numbers(parts)
        if best == most:
            return EVERYWHERE
        for part in Part:  # the same for all, then the best one for each
            same = dict.fromkeys(self.floats, part)
            count, _ = self.numbers(same)
            if count > best:
                parts, best = same, count
        for i in self.floats * _ROUNDS:
            if best == most:
                break
            tried = {p: self.numbers({**parts, i: p})[0] for p in Part}
            part = max(Part, key=lambda p: tried[p])
            if tried[part] > best:
                parts, best = {**parts, i: part}, tried[part]
        for i in self.floats:  # then the weakest restriction that is as good
            for part in Part:
                if part is parts[i] or self.numbers({**parts, i: part})[0] >= best:
                    parts = {**parts, i: part}
                    break
        return Where({i: p for i, p in parts.items() if p is not Part.ALL})

    def numbers(self, parts: Mapping[int, Part]) -> tuple[int, int]:
        """Return how many elements of the outputs are numbers, and how many elements there are."""
        key = frozenset(parts.items())
        if key not in self.counted:
            self.counted[key] = self._numbers(parts)
        return self.counted[key]

    def _numbers(self, parts: Mapping[int, Part]) -> tuple[int, int]:
        inputs: list[Sampled] = []
        for i, (x, v) in enumerate(zip(self.drawn, self.graph.inputs, strict=True)):
            moved = parts[i].of(x) if i in parts else x
            inputs.append(Sampled((v.dtype.round(moved),), self.sample.inputs[i]))
        found = evaluate_sampled(self.graph, Float64(), inputs, self.sample.demands[0])
        entries = zip(found, self.sample.outputs, self.graph.outputs, strict=True)
        outputs = [restrict(x, region, v)[0] for x, region, v in entries]
        return sum(int(np.isfinite(x).sum()) for x in outputs), sum(x.size for x in outputs)
