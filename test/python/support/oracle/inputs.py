"""Inputs for the oracle, like those of models. Each element is a function of its index, so any part
of a tensor of any size can be made separately, and always has the same contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import inf, prod
from zlib import crc32

import numpy as np
from mirage.semantics.ugraph import KernelGraph, Value

from oracle.boxes import Box, Parts, sizes
from oracle.evaluator import Input
from oracle.pytorch import torch
from oracle.roles import SMALL, roles
from oracle.scalar import rounded

Array = np.ndarray

_LARGEST = {
    "f8E4M3FN": 448.0,
    "f8E5M2": 57344.0,
    "f16": 65504.0,
    "bf16": 3.3e38,
    "f32": 3.3e38,
    "f64": 1e300,
}


# ---- random numbers by index


def _mixed(x: Array) -> Array:
    """Splitmix64: 64 bits that look random, for each number."""
    with np.errstate(over="ignore"):
        x = x * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


_RADII = np.sqrt(-2.0 * np.log((np.arange(1 << 16) + 0.5) * 2.0**-16))
_ANGLES = np.cos(np.arange(1 << 16) * (2.0 * np.pi * 2.0**-16))
"""Cosines of angles: a normal number is a radius times the cosine of an angle (Box and Muller),
with 16 bits each."""


@dataclass(frozen=True)
class Place:
    """The elements of a box: their numbers, those of their rows (the last dimension is a row), and
    those of their columns."""

    shape: tuple[int, ...]
    box: Box

    @cached_property
    def numbers(self) -> Array:
        return self._along(len(self.box))

    @cached_property
    def rows(self) -> Array:
        """The number of each element's row; it has the same shape, and so has that of columns."""
        if not self.box:
            return np.zeros((), dtype=np.int64)
        return np.broadcast_to(self._along(len(self.box) - 1)[..., None], sizes(self.box))

    @cached_property
    def columns(self) -> Array:
        if not self.box:
            return np.zeros((), dtype=np.int64)
        return np.broadcast_to(np.arange(*self.box[-1]), sizes(self.box))

    @property
    def width(self) -> int:
        return self.shape[-1] if self.shape else 1

    def _along(self, rank: int) -> Array:
        """Return the numbers of the indices of the first dimensions."""
        numbers = np.zeros((), dtype=np.int64)
        for d, (a, b) in enumerate(self.box[:rank]):
            along = np.arange(a, b).reshape((-1, *(1,) * (rank - d - 1)))
            numbers = numbers + along * prod(self.shape[d + 1 : rank])
        return numbers

    def bits(self, seed: int, of: Array | None = None) -> Array:
        """Return 64 random bits for each element, or for each number in ``of``."""
        numbers = self.numbers if of is None else of
        start = _mixed(np.array([seed & (1 << 63) - 1], dtype=np.uint64))
        return _mixed(numbers.astype(np.uint64) + start.reshape(()))

    def normal(self, seed: int) -> Array:
        """Return a normal number for each element."""
        parts = self.bits(seed).reshape(-1).view(np.uint16)
        found = _RADII[parts[::4]] * _ANGLES[parts[1::4]]
        return found.reshape(sizes(self.box))


Draw = Callable[[Place, int], Array]
"""A function that gives elements at places, by a seed."""


@dataclass(frozen=True)
class Normal:
    """Normal numbers: those of one of a few draws, times ``std``."""

    std: float
    number: int = 0


def _shifted(mean: float, std: float) -> Draw:
    return lambda p, seed: mean + std * p.normal(seed)


def _constant(value: float) -> Draw:
    return lambda p, seed: np.full(p.numbers.shape, value)


def _single(p: Place, seed: int) -> Array:
    at = p.bits(seed + 1, p.rows) % np.uint64(p.width)
    return np.where(p.columns == at.astype(np.int64), 4.0, 0.0)


def _peak(p: Place, seed: int) -> Array:
    """One element far above the others, at the ends or near the middle of its row."""
    ends = np.array([0, p.width - 1, p.width // 2, max(0, p.width // 2 - 1)])
    at = ends[(p.bits(seed + 1, p.rows) % np.uint64(4)).astype(np.int64)]
    return p.normal(seed) + np.where(p.columns == at, 8.0, 0.0)


def _heavy(p: Place, seed: int) -> Array:
    return np.clip(p.normal(seed) * np.exp(1.5 * np.abs(p.normal(seed + 1))), -3e3, 3e3)


def _masked(value: float, share: float) -> Draw:
    """The first part of each row masked."""

    def draw(p: Place, seed: int) -> Array:
        return np.where(p.columns < max(1, int(share * p.width)), value, p.normal(seed))

    return draw


ROWS: dict[str, Draw] = {
    "normal": _shifted(0.0, 1.0),
    "mean 300": _shifted(300.0, 1.0),
    "constant 20.3": _constant(20.3),
    "std 1e-3": _shifted(0.0, 1e-3),
    "mean -1000": _shifted(-1000.0, 1.0),
    "zeros": _constant(0.0),
    "heavy tails": _heavy,
    "constant 5.7": _constant(5.7),
    "mean 30, std 0.1": _shifted(30.0, 0.1),
    "a single number": _single,
    "a peak": _peak,
    "large": _shifted(0.0, 2.0**9),
}
MASKS: dict[str, Draw] = {
    "half -1e4": _masked(-1e4, 0.5),
    "all but the last -1e4": _masked(-1e4, 0.99),
    "half -inf": _masked(-inf, 0.5),
    "all but the last -inf": _masked(-inf, 0.99),
    "all about -1e4": _shifted(-1e4, 10.0),
}
"""Other tensors that are added to scores."""


# ---- situations


@dataclass(frozen=True)
class Situation:
    """A set of inputs. An ``ordinary`` one has no special rows."""

    name: str
    inputs: tuple[Input, ...]
    ordinary: bool


_KEPT = 3e7
"""The number of elements of inputs that are kept."""


class Kept:
    """Parts of inputs that were made, up to a total number of elements."""

    def __init__(self, most: float = _KEPT) -> None:
        self.most, self.elements = most, 0
        self.parts: dict[Input, Parts] = {}

    def of(self, drawn: Input) -> Input:
        def part(box: Box) -> torch.Tensor:
            there = self.parts.get(drawn)
            x = None if there is None else there.find(box)
            if x is not None:
                return x
            x = drawn(box)
            self.elements += x.numel()
            if self.elements > self.most:
                self.parts.clear()
                self.elements = x.numel()
            self.parts.setdefault(drawn, Parts()).add(box, x)
            return x

        return part


@dataclass(frozen=True)
class Together:
    """Situations that are run at once. Their inputs are ``kept`` if they are tried repeatedly."""

    every: tuple[Situation, ...]
    kept: Kept | None = None

    @property
    def name(self) -> tuple[str, ...]:
        """A name that distinguishes it from others of the same program."""
        return tuple(s.name for s in self.every)

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of all situations; an input that is the same in all of them has one run."""
        found = map(_side_by_side, zip(*(s.inputs for s in self.every), strict=True))
        return tuple(found if self.kept is None else map(self.kept.of, found))


def _side_by_side(inputs: Sequence[Input]) -> Input:
    if len(set(inputs)) == 1:
        return inputs[0]

    def part(box: Box) -> torch.Tensor:
        drawn = {given: given(box) for given in dict.fromkeys(inputs)}
        return torch.cat([drawn[given] for given in inputs], 0)

    return part


def in_groups(situations: Iterable[Situation], size: int) -> Iterator[Together]:
    """Yield groups of this many situations, in their order."""
    rest = iter(situations)
    while some := tuple(islice(rest, size)):
        yield Together(some)


_DRAWS = 3
"""The number of different draws of normal numbers for each input: situations use them at different
scales."""


class Situations:
    """Inputs for one program; their contents depend on ``seed`` and on the situation's name."""

    def __init__(self, graph: KernelGraph, seed: int) -> None:
        self.graph, self.seed = graph, seed
        self._kept = Kept()
        self._usual: dict[int, Input] = {}
        self._normals: dict[tuple[int, int], Input] = {}
        self.roles = roles(graph)
        self.floats = [i for i, v in enumerate(graph.inputs) if not v.dtype.is_integer]

    def ordinary(self, number: int, factor: float = 1.0) -> Situation:
        """Return normal numbers at their usual scales, times ``factor``."""
        name = f"normal {number}, times {factor:g}"
        draws = {i: Normal(factor * self.roles[i].scale, number) for i in self.floats}
        return self._situation(name, draws, True)

    def own_scales(self, number: int) -> Situation:
        """Return inputs, each with a separate scale."""
        name = f"own scales {number}"
        rng = np.random.default_rng((self.seed, crc32(name.encode())))
        powers = {i: int(rng.integers(-12, 5)) for i in self.floats}
        draws = {i: Normal(2.0 ** powers[i], number) for i in self.floats}
        told = ", ".join(f"2^{p}" for p in powers.values())
        return self._situation(f"{name}: {told}", draws, True)

    def special(self) -> Iterator[Situation]:
        """Yield rows of all kinds in one input after the other, outliers, and unusual scales."""
        for i in self.floats:
            v, role = self.graph.inputs[i], self.roles[i]
            for power in (-14, 6, 12):
                yield self._situation(f"input {i} times 2^{power}", {i: Normal(2.0**power, 1)})
            if len(v.shape) < 2 or role.gain:
                continue
            for name, draw in (ROWS | MASKS if role.added else ROWS).items():
                if name != "normal":
                    yield self._situation(f"rows of input {i}: {name}", {i: draw})
            for factor, gain in ((3000.0, 24.0), (300.0, 1.0)):
                name = f"channel of input {i} times {factor:g}, gain {gain:g}"
                yield self._situation(name, self._outlier(i, factor, gain))
        near = [i for i in self.floats if self.roles[i].scale == 1.0 and not self.roles[i].gain]
        for name in ("mean 300", "mean -1000") if len(near) > 1 else ():
            yield self._situation(f"rows of all inputs: {name}", dict.fromkeys(near, ROWS[name]))

    def _outlier(self, i: int, factor: float, gain: float) -> dict[int, Draw]:
        width = self.graph.inputs[i].shape[-1]
        channel = crc32(repr((self.seed, i)).encode()) % width
        scale = min(1.0, 64.0 * self.roles[i].scale)

        def input_(p: Place, seed: int) -> Array:
            return p.normal(seed) * scale * np.where(p.columns == channel, factor, 1.0)

        def gains(p: Place, seed: int) -> Array:
            usual = 1.0 + 0.1 * p.normal(seed)
            return np.where(p.columns == channel, gain, usual)

        draws: dict[int, Draw] = {i: input_}
        for g in self.floats:
            if self.roles[g].gain and self.graph.inputs[g].shape[-1] == width:
                draws[g] = gains
        return draws

    def _situation(
        self, name: str, draws: Mapping[int, Draw | Normal], ordinary: bool = False
    ) -> Situation:
        inputs: list[Input] = []
        for i in range(len(self.graph.inputs)):
            if ordinary or i in draws:
                inputs.append(self._input(i, name, draws.get(i)))
            else:
                if i not in self._usual:
                    self._usual[i] = self._input(i, "", None)
                inputs.append(self._usual[i])
        return Situation(name, tuple(inputs), ordinary)

    def _input(self, i: int, name: str, draw: Draw | Normal | None) -> Input:
        v, role = self.graph.inputs[i], self.roles[i]
        seed = crc32(repr((self.seed, name, i)).encode())
        if v.dtype.is_integer:
            if role.compared:
                return self._kept.of(_compared(v, seed, role.compared))
            top = 2 if v.dtype.value == "i1" else role.rows
            return self._kept.of(_whole_numbers(v, seed, top))
        draw = draw or Normal(role.scale)
        if isinstance(draw, Normal):  # the draw is kept, not the values made from it
            return _scaled(v, self._normal(i, draw.number % _DRAWS), draw.std)
        return self._kept.of(_drawn(v, draw, seed))

    def _normal(self, i: int, number: int) -> Input:
        if (i, number) not in self._normals:
            v, seed = self.graph.inputs[i], crc32(repr((self.seed, number, i)).encode())

            def part(box: Box) -> torch.Tensor:
                numbers = Place(v.shape, box).normal(seed).astype(np.float32)
                return torch.from_numpy(numbers.reshape((1, *sizes(box))))

            self._normals[i, number] = self._kept.of(part)
        return self._normals[i, number]


def _scaled(v: Value, numbers: Input, std: float) -> Input:
    def part(box: Box) -> torch.Tensor:
        x = numbers(box) * std
        return rounded(x, v.dtype).to(torch.float64)

    return part


def _drawn(v: Value, draw: Draw, seed: int) -> Input:
    most = _LARGEST[v.dtype.value]

    def part(box: Box) -> torch.Tensor:
        x = draw(Place(v.shape, box), seed).reshape((1, *sizes(box)))
        if not np.abs(x).max(initial=0.0) <= most:
            x = np.where(np.isfinite(x), np.clip(x, -most, most), x)
        return rounded(torch.from_numpy(x), v.dtype).to(torch.float64)

    return part


def _whole_numbers(v: Value, seed: int, top: int) -> Input:
    def part(box: Box) -> torch.Tensor:
        bits = Place(v.shape, box).bits(seed).reshape((1, *sizes(box)))
        return torch.from_numpy((bits % np.uint64(top)).astype(np.float64))

    return part


def _compared(v: Value, seed: int, constants: Sequence[int]) -> Input:
    """Return positions along the last dimension, or numbers below its length of which some are
    small and some are one of the ``constants`` or beside it."""
    length = next((n for n in reversed(v.shape) if n > 1), 1)
    axis = max((d for d, n in enumerate(v.shape) if n > 1), default=0)
    beside_them = np.array([c + d for c in constants for d in (-1, 0, 1)])

    def part(box: Box) -> torch.Tensor:
        shape = (1, *sizes(box))
        if seed % 2 == 0 and length > 1:
            along = [1] * len(shape)
            along[1 + axis] = -1
            places = np.arange(*box[axis]).reshape(along)
            return torch.from_numpy(np.broadcast_to(places, shape).astype(np.float64))
        bits = Place(v.shape, box).bits(seed).reshape(shape)
        kind, number = bits % np.uint64(4), (bits >> np.uint64(2)).astype(np.int64) & 0x3FFFFFFF
        near = beside_them[number % len(beside_them)]
        small = number % SMALL
        x = np.where(kind == 0, near, np.where(kind == 1, small, number % max(length, SMALL)))
        return torch.from_numpy(x.astype(np.float64))

    return part


def beside(
    situation: Situation, graph: KernelGraph, number: int, far: float | None = None
) -> Situation:
    """Return the same inputs with each element changed by at most half a rounding; with ``far``, by
    this relative amount, and not rounded to its type."""

    def moved(v: Value, given: Input, seed: int) -> Input:
        if v.dtype.is_integer:
            return given
        half = {"f16": 2.0**-11, "bf16": 2.0**-8}.get(v.dtype.value, 2.0**-24)
        size = 1.01 * half if far is None else far

        def part(box: Box) -> torch.Tensor:
            x = given(box)
            signs = Place(v.shape, box).bits(seed).reshape((1, *sizes(box))) % np.uint64(3)
            step = torch.from_numpy(signs.astype(np.float64)) - 1.0
            near = torch.where(x.isfinite(), x * (1.0 + size * step), x)
            return near if far is not None else rounded(near, v.dtype).to(torch.float64)

        return part

    pairs = zip(graph.inputs, situation.inputs, strict=True)
    inputs = tuple(moved(v, x, 1000 * number + i) for i, (v, x) in enumerate(pairs))
    return Situation(f"{situation.name}, beside {number}", inputs, situation.ordinary)
