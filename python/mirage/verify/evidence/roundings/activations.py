"""Inputs like those of real models, for measuring rounding errors.

Standard normal numbers show few of the ways in which a kernel can lose its digits. Activations have
means far from 0, channels a thousand times as large as the others, rows that are constant, zero or
masked, and every tensor has a scale of its own. Each *situation* is one set of inputs; rows of a
tensor may be in different situations at once, as errors are compared row by row.

All elements are numbers of the inputs' element types. Infinities stand only where programs have
them, in masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod
from zlib import crc32

import numpy as np

from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.region import region_shape
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph
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
from mirage.verify.evidence.roundings.input_scales import HIGHEST, LOWEST, box_of, within
from mirage.verify.evidence.roundings.not_numbers import never_read, read_by
from mirage.verify.evidence.roundings.rows_of_activations import (
    ABOUT_A_MEAN,
    BOTH_SIGNS,
    GAINS,
    MASKS,
    OUTLIERS,
    ROWS,
    Kind,
    Rng,
)
from mirage.verify.evidence.samples.integer_inputs import RUNS, compared_with, draw_integers
from mirage.verify.evidence.samples.sampled_outputs import Sample
from mirage.verify.evidence.samples.where_defined import EVERYWHERE, where_defined

_MANY = 0.125
"""The share of the elements of an input that are NaN where there are many."""
_IN_SEGMENTS = 0.7
"""The share of the situations in which integers say which segment an element belongs to."""
LARGEST = {
    DType.F16: 65504.0, DType.BF16: 3.3e38, DType.F32: 3.3e38, DType.F64: 1e300,
    DType.F8E4M3: 448.0, DType.F8E5M2: 57344.0,
}  # fmt: skip


@dataclass(frozen=True)
class Situation:
    """One set of inputs, with a description for people. On ``ordinary`` inputs a program computes
    approximately what it means over the real numbers. With ``sums_off``, errors are not measured;
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


# ---- drawing


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
        self._reduced = reduced_channels(graph)
        self.masks = may_be_masks(graph, contents)
        self.meeting = rows_meet(graph)
        outputs = zip(graph.outputs, sample.outputs, strict=True)
        together = [joined_dims(region_shape(r, v.shape)) for v, r in outputs]
        self._together = self.meeting | (rows_compared(graph, together) - self.weights)
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
        runs = self._runs(name) if runs is None else runs
        inputs: list[Sampled] = []
        for i in range(len(self.graph.inputs)):
            region = self.sample.inputs[i]
            fixed = self.sample.fixed_part(i)
            if fixed is not None:
                inputs.append(Sampled((fixed.astype(np.float64),), region))
                continue
            inputs.append(Sampled((self._drawn(name, i, special, scales, fresh, runs),), region))
        return Situation(name, inputs, sums_off=sums_off)

    def segments(self) -> Iterator[Situation | None]:
        """Yield situations in which integers say which of a few segments an element belongs to, the
        same ones in all inputs."""
        if any(self.graph.inputs[i].dtype is not DType.I1 for i in self.integers):
            for runs in RUNS:
                name = f"integers equal in runs of {runs:g} of a row"
                yield self.situation(name, {}, runs=runs) if self.mine() else None

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

    # ---- kinds of situations

    def expected(self) -> int:
        """The number of situations of the kinds below, except those of :meth:`own_scales`."""
        found = (1 + len(RUNS)) * len(self.integers)  # at most
        for i in self.free:
            found += 3 + 1 + 3  # scales, zeros, NaN
            if self.has_rows(i):
                every = len(ROWS) + (len(MASKS) if i in self.masks else 0)
                needed = max(1, int(self._needed(i).sum()))
                found += ceil(every / min(every, needed)) + len(OUTLIERS)
                found += len(ROWS) if i in self._together else 0
        return found

    def has_rows(self, i: int) -> bool:
        """Whether an input may have rows of all kinds."""
        shape = self.graph.inputs[i].shape
        some = len(shape) > 1 or prod(shape) > 1
        return some and (i not in self.gains or i in self._reduced)

    def _needed(self, i: int) -> Array:
        """Return which of an input's sampled rows the compared part of the reference's outputs
        depends on. There are more rows than that because a candidate reads whole tiles."""
        found = np.ones(self.shapes[i][:-1], dtype=bool)
        for dim in range(found.ndim):
            found &= self._compared(i, dim).reshape((-1, *(1,) * (found.ndim - dim - 1)))
        return found

    def _compared(self, i: int, dim: int) -> Array:
        """Return which sampled indices of one dimension the compared outputs depend on."""
        v, have = self.graph.inputs[i], self.sample.inputs[i]
        wanted, there = self.sample.demands[0].regions.get(v, have)[dim], have[dim]
        if wanted is None:
            return np.ones(self.shapes[i][dim], dtype=bool)
        places = np.arange(v.shape[dim]) if there is None else there
        return np.isin(places, wanted, kind="table")

    def rows(self) -> Iterator[Situation | None]:
        """Yield situations with rows of all kinds in one input, for each input in turn."""
        for i in self.free:
            if not self.has_rows(i):
                continue
            needed = self._needed(i).reshape(-1)
            # those that matter first, so that each of them is of another kind
            numbers = np.where(needed, needed.cumsum() - 1, (~needed).cumsum() - 1)
            every = (*MASKS, *ROWS) if i in self.masks else ROWS
            together = max(1, min(int(needed.sum()), len(every)))
            for first in range(0, len(every), together):
                if not self.mine():
                    yield None
                    continue
                kinds = [every[k] for k in (first + numbers) % len(every)]
                names = ", ".join(every[(first + k) % len(every)][0] for k in range(together))
                yield self.of_rows(f"rows of input {i}: {names}", {i: kinds})

    def of_rows(self, name: str, kinds: Mapping[int, Sequence[Kind]]) -> Situation:
        """Draw inputs whose rows each have a given kind. If other inputs of the same kind are
        requested, rows about a mean are drawn again rather than changed."""

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

    def alike(self) -> Iterator[Situation | None]:
        """Yield situations in which all rows are of one kind, if a program or an error measure
        combines several rows: a mean far from 0 has no effect next to rows of other kinds, and an
        error that is small relative to the errors of another row would be lost."""
        inputs = [i for i in sorted(self._together.intersection(self.free)) if self.has_rows(i)]
        kinds = sorted(ROWS, key=lambda kind: kind[0] not in BOTH_SIGNS)
        for kind in kinds:
            for i in inputs:
                if not self.mine():
                    yield None
                    continue
                every = {i: [kind] * prod(self.shapes[i][:-1])}
                yield self.of_rows(f"all rows of input {i}: {kind[0]}", every)

    def unlike(self) -> Iterator[Situation | None]:
        """Yield situations with a mean far above 0 in one part of a dimension and far below 0 in
        the rest, where rows are combined: a value near the mean of one group is far from the mean
        of the next."""
        high, low = (dict(ROWS)[name] for name in BOTH_SIGNS)
        for i in sorted(self.meeting.intersection(self.free)):
            shape = self.shapes[i]
            for dim in range(len(shape) - 1 if self.has_rows(i) else 0):
                for what, part in self._parts(i, dim):
                    if not self.mine():
                        yield None
                        continue
                    rng = self.stream("unlike", i, dim, what)
                    rows = prod(shape[:-1])
                    both = [kind(rng, rows, shape[-1]).reshape(shape) for kind in (high, low)]
                    place = part.reshape((-1, *(1,) * (len(shape) - dim - 1)))
                    name = f"input {i}: mean 300 in {what} of dimension {dim}, -1000 in the rest"
                    yield self.situation(name, {i: np.where(place, *both)})

    def _parts(self, i: int, dim: int) -> Iterator[tuple[str, Array]]:
        """Yield parts of an input's dimension that are neither empty nor all of the sampled
        indices."""
        size, index = self.graph.inputs[i].shape[dim], self.sample.inputs[i][dim]
        index = np.arange(size) if index is None else index
        parts = {
            "what is compared": self._compared(i, dim),
            "one half": 2 * index < size,
            "the first": index == 0,
        }
        for what, part in parts.items():
            if part.any() and not part.all():
                yield what, part

    def outliers(self) -> Iterator[Situation | None]:
        """Yield situations with one channel far larger than the others, where the gain is large
        too."""
        for i in self.free:
            shape = self.shapes[i]
            if not self.has_rows(i):
                continue
            for factor, gain in zip(OUTLIERS, GAINS, strict=True):
                if not self.mine():
                    yield None
                    continue
                rng = self.stream("outliers", i, factor)
                channel = int(rng.integers(shape[-1]))
                x = rng.standard_normal(shape) * min(1.0, self.scales[i] * 64)
                x[..., channel] *= factor
                special = {i: x}
                for g in self.gains:
                    if self.shapes[g][-1] == shape[-1] and g in self.free:
                        special[g] = 1.0 + 0.1 * rng.standard_normal(self.shapes[g])
                        special[g][..., channel] = gain
                yield self.situation(
                    f"channel of input {i} times {factor:g}, gain {gain:g}", special
                )

    def zeros(self) -> Iterator[Situation | None]:
        """Yield situations with rows and columns of zeros."""
        for i in self.free:
            yield self.zeroed(i) if self.mine() else None

    def zeroed(self, i: int) -> Situation:
        """Draw zeros for some rows and columns of one input, among those that are compared."""
        shape = self.shapes[i]
        rng = self.stream("zeros", i)
        x = rng.standard_normal(shape) * self.scales[i]
        for dim in range(len(shape)):
            at: list[slice | int] = [slice(None)] * len(shape)
            (needed,) = np.nonzero(self._compared(i, dim))
            at[dim] = int(rng.choice(needed)) if len(needed) else int(rng.integers(shape[dim]))
            x[tuple(at)] = 0.0
        return self.situation(f"rows and columns of zeros in input {i}", {i: x})

    def not_numbers(self) -> Iterator[Situation | None]:
        """Yield situations with NaN in what the program never reads, and with one or many for each
        input in turn: one reaches few results, many meet every mask."""
        read = read_by(self.graph)
        for i in self.free:
            unread = never_read(self.graph.inputs[i], self.sample.inputs[i], read)
            if unread.any():
                yield self.unread(i, unread) if self.mine() else None
        for many, i in product((False, True), self.free):
            if not self.mine():
                yield None
                continue
            rng = self.stream("not numbers", i)
            x = np.array(rng.standard_normal(self.shapes[i]) * self.scales[i])
            x[tuple(int(rng.integers(n)) for n in self.shapes[i])] = np.nan
            if many:
                x[rng.random(self.shapes[i]) < _MANY] = np.nan
            yield self.situation(f"{'many NaN' if many else 'a NaN'} in input {i}", {i: x})

    def unread(self, i: int, unread: Array) -> Situation:
        """Draw numbers for what the program reads of an input."""
        rng = self.stream("unread", i)
        x = np.array(rng.standard_normal(self.shapes[i]) * self.scales[i])
        x[unread] = np.nan
        return self.situation(f"NaN in input {i} where nothing reads it", {i: x})

    def own_scales(self, count: int) -> Iterator[Situation | None]:
        """Yield situations in which every input has a random scale of its own."""
        for number in range(count):
            if not self.mine():
                yield None
                continue
            rng = self.stream("own scales", number)
            powers = rng.integers(LOWEST, HIGHEST + 1, len(self.scales))
            keep = rng.random(len(self.scales)) < 0.4
            scales = [
                s if k else within(2.0 ** float(p), v.dtype)
                for s, k, p, v in zip(self.scales, keep, powers, self.graph.inputs, strict=True)
            ]
            yield self.scaled(by_powers(scales), scales)

    def single_scales(self) -> Iterator[Situation | None]:
        """Yield situations with one input at either end of the scales and the others as usual."""
        boxes = {i: box_of(self.graph.inputs[i].dtype) for i in self.free}
        for power in range(3):
            for i, (low, high) in boxes.items():
                yield self.single_scale(i, (high, low, high - 6)[power]) if self.mine() else None

    def single_scale(self, i: int, power: int) -> Situation:
        """Draw one input at a scale of ``2**power``, or the next one that its type has, the others
        as usual."""
        scales = list(self.scales)
        scales[i] = within(2.0**power, self.graph.inputs[i].dtype)
        return self.scaled(by_powers(scales), scales)


def by_powers(scales: Sequence[float]) -> str:
    return "inputs times 2^" + ", ".join(f"{np.log2(s):.3g}" for s in scales)


def _representable(x: Array, dtype: DType) -> Array:
    """Round to numbers of the type; finite numbers stay finite."""
    if dtype.is_integer:
        return x
    largest = LARGEST[dtype]
    return dtype.round(np.where(np.isfinite(x), np.clip(x, -largest, largest), x))
