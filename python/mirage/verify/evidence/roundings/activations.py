"""Inputs like those of real models, for measuring rounding errors.

Standard normal numbers show few of the ways in which a kernel can lose its digits. Activations have
means far from 0, channels a thousand times as large as the others, rows that are constant, zero or
masked, and every tensor has a scale of its own. Each *situation* is one set of inputs; rows of a
tensor may be in different situations at once, as errors are compared row by row.

All elements are numbers of the inputs' element types. Infinities occur only where programs have
them: in masks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from zlib import crc32

import numpy as np

from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.region import region_shape
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.roundings.averaged_rows import averaged_inputs
from mirage.verify.evidence.roundings.compared_rows import joined_dims
from mirage.verify.evidence.roundings.explicit import beside
from mirage.verify.evidence.roundings.input_roles import (
    gains_of,
    may_be_masks,
    natural_scales,
    reduced_channels,
    rows_compared,
    rows_meet,
)
from mirage.verify.evidence.roundings.input_scales import within
from mirage.verify.evidence.roundings.rows_of_activations import (
    ABOUT_A_MEAN,
    Kind,
    Rng,
)
from mirage.verify.evidence.samples.integer_inputs import RUNS, compared_with, draw_integers
from mirage.verify.evidence.samples.sampled_outputs import Sample
from mirage.verify.evidence.samples.where_defined import EVERYWHERE, where_defined

_IN_SEGMENTS = 0.7
"""The share of the situations in which integers say which segment an element belongs to."""
LARGEST = {
    DType.F16: 65504.0, DType.BF16: 3.3e38, DType.F32: 3.3e38, DType.F64: 1e300,
    DType.F8E4M3: 448.0, DType.F8E5M2: 57344.0,
}  # fmt: skip


@dataclass(frozen=True)
class Situation:
    """One set of inputs, with a description for people. On ``ordinary`` inputs a program's result
    is approximately its value over the real numbers. With ``sums_off``, errors are not measured;
    the test is whether results are numbers although sums are a little off. ``again`` returns other
    inputs of the same kind, by their number, if inputs that differ by a few roundings are of
    another kind: rows about 300 with a deviation of 1 get a deviation of 9 if all elements are off
    by a few roundings of bf16. Without ``casts``, the test ignores whether a candidate leaves out a
    cast that the reference writes."""

    name: str
    inputs: list[Sampled]
    ordinary: bool = False
    sums_off: bool = False
    again: Callable[[int], list[Sampled]] | None = None
    casts: bool = True


class Activations:
    """Draws situations for the sampled part of a program's inputs.

    A situation is None if ``mine`` says that another process tries it. Inputs at their usual scale
    are drawn once, since weights do not change in a model either. The contents of a situation
    depend on the ``seed`` and on its kind, not on what was drawn before."""

    def __init__(
        self,
        graph: KernelGraph,
        sample: Sample,
        seed: int,
        contents: Mapping[int, Array] = {},
        unit: float = 1.0,
        mine: Callable[[], bool] = lambda: True,
    ) -> None:
        self.graph, self.sample, self.seed = graph, sample, seed
        self.contents = contents
        self.mine = mine
        self.where = EVERYWHERE if sample.fixed else where_defined(graph)
        self._usual: dict[int, Array] = {}
        natural = natural_scales(graph)
        types = [v.dtype for v in graph.inputs]
        self.scales = [within(unit * s, t) for s, t in zip(natural, types, strict=True)]
        self.weights = {i for i, s in enumerate(natural) if s < 1.0}
        self.gains = gains_of(graph)
        self.reduced = reduced_channels(graph)
        self.masks = may_be_masks(graph, contents)
        self.meeting = rows_meet(graph)
        self.averaged = averaged_inputs(graph, {**contents, **sample.fixed})
        outputs = zip(graph.outputs, sample.outputs, strict=True)
        together = [joined_dims(region_shape(r, v.shape)) for v, r in outputs]
        self.together = self.meeting | (rows_compared(graph, together) - self.weights)
        self.extents = compared_with(graph)
        inputs = zip(graph.inputs, sample.inputs, strict=True)
        self.shapes = [region_shape(r, v.shape) for v, r in inputs]
        read = {*graph.outputs, *(v for op in graph.ops for v in op.operands)}
        every = [
            i
            for i, v in enumerate(graph.inputs)
            if i not in sample.fixed and i not in contents and v in read and prod(self.shapes[i])
        ]
        self.free = [i for i in every if not graph.inputs[i].dtype.is_integer]
        self.integers = [i for i in every if i not in self.free]
        self._has_integers = any(v.dtype.is_integer for v in graph.inputs)

    def stream(self, *what: object) -> Rng:
        """Return the random generator for the situation that the words name."""
        return np.random.default_rng((self.seed, crc32(repr(what).encode())))

    def scaled(self, name: str, scales: Sequence[float], fresh: bool = False) -> Situation:
        """Draw normal inputs, each with its scale; new ones if the inputs drawn before had the same
        scales."""
        return self.situation(name, {}, scales, fresh)

    def magnified(self, powers: Sequence[float]) -> list[Sampled]:
        """Return the usual inputs, multiplied so that they have the sizes of :meth:`scaled` at
        those powers of two. They are not rounded to their types."""
        usual = self.situation("", {}).inputs
        found: list[Sampled] = []
        for i, (x, power) in enumerate(zip(usual, powers, strict=True)):
            factor = 2.0 ** float(power) / self.scales[i]
            given = i in self.sample.fixed or i in self.contents
            same = given or factor == 1.0
            found.append(x if same else Sampled((x.planes[0] * factor,), x.region))
        return found

    def situation(
        self,
        name: str,
        special: Mapping[int, Array],
        scales: Sequence[float] | None = None,
        fresh: bool = False,
        sums_off: bool = False,
        runs: float | None = None,
    ) -> Situation:
        """Draw normal inputs, some of them replaced. Integers are equal in ``runs`` of that share
        of a row, if ``runs`` is given."""
        if runs is None:
            runs = self._runs(name) if self._has_integers else 0.0
        inputs: list[Sampled] = []
        for i in range(len(self.graph.inputs)):
            region = self.sample.inputs[i]
            fixed = self.sample.fixed_part(i)
            if fixed is not None:
                inputs.append(Sampled((fixed.astype(np.float64),), region))
                continue
            inputs.append(Sampled((self._drawn(name, i, special, scales, fresh, runs),), region))
        return Situation(name, inputs, sums_off=sums_off)

    def _drawn(
        self,
        name: str,
        i: int,
        special: Mapping[int, Array],
        scales: Sequence[float] | None,
        fresh: bool,
        runs: float,
    ) -> Array:
        dtype = self.graph.inputs[i].dtype
        if i in self.contents:
            x = np.asarray(self.contents[i], dtype=np.float64)
            for dim, index in enumerate(self.sample.inputs[i]):
                x = x if index is None else np.take(x, index, axis=dim)
            return _representable(x, dtype)
        if dtype.is_integer and i in special:
            return special[i]
        if dtype.is_integer:
            v, rng = self.graph.inputs[i], self.stream(name, i)
            least = self.extents.get(v, 0)
            return draw_integers(rng, v, self.sample.inputs[i], least, runs=runs)
        if i in special:
            return _representable(self.where.restricted(i, special[i]), dtype)
        usual = not fresh and (scales is None or scales[i] == self.scales[i])
        if usual and i in self._usual:
            return self._usual[i]
        scale = self.scales[i] if scales is None else within(scales[i], dtype)
        rng = self.stream("usual" if usual else name, i)
        x = rng.standard_normal(self.shapes[i], dtype=np.float32) * np.float32(scale)
        found = _representable(self.where.restricted(i, x), dtype)
        if usual:
            self._usual[i] = found
        return found

    def _runs(self, name: str) -> float:
        """Draw the share of a row in which integers are equal, for all inputs of a situation; 0
        means that each integer is drawn independently."""
        rng = self.stream(name, "segments")
        return float(rng.choice(RUNS)) if rng.random() < _IN_SEGMENTS else 0.0

    def has_rows(self, i: int) -> bool:
        """Whether an input may have rows of all kinds."""
        shape = self.graph.inputs[i].shape
        some = len(shape) > 1 or prod(shape) > 1
        return some and (i not in self.gains or i in self.reduced)

    def needed(self, i: int) -> Array:
        """Return which of an input's sampled rows the compared part of the reference's outputs
        depends on. There are more rows than that because a candidate reads whole tiles."""
        found = np.ones(self.shapes[i][:-1], dtype=bool)
        for dim in range(found.ndim):
            found &= self.compared(i, dim).reshape((-1, *(1,) * (found.ndim - dim - 1)))
        return found

    def compared(self, i: int, dim: int) -> Array:
        """Return which sampled indices of one dimension the compared outputs depend on."""
        v, have = self.graph.inputs[i], self.sample.inputs[i]
        wanted, there = self.sample.demands[0].regions.get(v, have)[dim], have[dim]
        if wanted is None:
            return np.ones(self.shapes[i][dim], dtype=bool)
        places = np.arange(v.shape[dim]) if there is None else there
        return np.isin(places, wanted, kind="table")

    def of_rows(self, name: str, kinds: Mapping[int, Sequence[Kind]]) -> Situation:
        """Draw inputs whose rows each have a given kind. If other inputs of the same kind are
        requested, rows around a mean are drawn again instead of being changed."""

        def drawn(number: int) -> Mapping[int, Array]:
            return {i: self._rows_of(i, own, name, i, number) for i, own in kinds.items()}

        def again(number: int) -> list[Sampled]:
            found = beside(first.inputs, [v.dtype for v in self.graph.inputs], number)
            for i, x in drawn(number).items():
                about = np.reshape([kind in ABOUT_A_MEAN for kind in kinds[i]], x.shape[:-1])
                fresh = _representable(self.where.restricted(i, x), self.graph.inputs[i].dtype)
                both = np.where(about[..., None], fresh, found[i].planes[0])
                found[i] = Sampled((both,), found[i].region)
            return found

        first = self.situation(name, drawn(0))
        return replace(first, again=again)

    def _rows_of(self, i: int, kinds: Sequence[Kind], *what: object) -> Array:
        """Draw an input with rows of the given kinds, in the draw that ``what`` names."""
        rng, shape = self.stream(*what), self.shapes[i]
        x = np.empty((len(kinds), shape[-1]))
        for kind in dict.fromkeys(kinds):
            those = [at for at, own in enumerate(kinds) if own is kind]
            x[those] = kind[1](rng, len(those), shape[-1])
        return x.reshape(shape)


def _representable(x: Array, dtype: DType) -> Array:
    """Round to numbers of the type; finite numbers stay finite."""
    if dtype.is_integer:
        return x
    largest = LARGEST[dtype]
    return dtype.round(np.where(np.isfinite(x), np.clip(x, -largest, largest), x))
