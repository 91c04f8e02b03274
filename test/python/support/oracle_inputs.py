"""Inputs for the oracle, as models have them. Each element is a function of its index, so that any
part of a tensor of any size can be made by itself, and always holds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf, prod
from zlib import crc32

import numpy as np
from mirage.semantics.positions import Gather, TileGather
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    KernelGraph,
    Launch,
    Matmul,
    Op,
    Reshape,
    Slice,
    Transpose,
    Value,
    all_ops,
)
from oracle import Input
from oracle_boxes import Box, cut, inside, sizes
from oracle_scalar import rounded
from oracle_torch import torch

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
    """Splitmix64: 64 bits that look random, of each number."""
    with np.errstate(over="ignore"):
        x = x * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class Place:
    """The elements of a box: their numbers, those of their rows (what the last dimension holds) and
    of their columns."""

    numbers: Array
    rows: Array
    columns: Array
    width: int

    @staticmethod
    def of(shape: Sequence[int], box: Box) -> Place:
        numbers = np.zeros((), dtype=np.int64)
        for d, (a, b) in enumerate(box):
            along = np.arange(a, b).reshape((-1, *(1,) * (len(box) - d - 1)))
            numbers = numbers + along * prod(shape[d + 1 :])
        width = shape[-1] if shape else 1
        return Place(numbers, numbers // width, numbers % width, width)

    def bits(self, seed: int, of: Array | None = None) -> Array:
        """64 random bits for each element, or for each number ``of``."""
        numbers = self.numbers if of is None else of
        with np.errstate(over="ignore"):
            start = np.uint64(seed & (1 << 63) - 1) * np.uint64(0xD1B54A32D192ED03)
        return _mixed(_mixed(numbers.astype(np.uint64) + start) + np.uint64(1))

    def normal(self, seed: int) -> Array:
        """A normal number for each element."""
        bits = self.bits(seed)
        first = ((bits >> np.uint64(32)).astype(np.float64) + 0.5) * 2.0**-32
        second = (bits & np.uint64(0xFFFFFFFF)).astype(np.float64) * (2.0 * np.pi * 2.0**-32)
        return np.sqrt(-2.0 * np.log(first)) * np.cos(second)


Draw = Callable[[Place, int], Array]
"""Elements at places, by a seed."""


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
"""What else is added to scores."""


# ---- what inputs are for


@dataclass(frozen=True)
class Role:
    """What a program does with an input: the scale at which its products stay about as large as
    what goes into them, whether it has one number for each channel, whether it is only added, and
    how many rows it may choose among."""

    scale: float
    gain: bool
    added: bool
    rows: int


_MOVES = (Reshape, Transpose, Broadcast, Slice, Cast)


def roles(graph: KernelGraph) -> list[Role]:
    """What each input is for."""
    moved: dict[Value, set[Value]] = {v: {v} for v in graph.inputs}
    users: dict[Value, list[tuple[Op, int]]] = {v: [] for v in graph.inputs}
    for op in graph.ops:
        sources = [moved.get(v, set[Value]()) for v in op.operands]
        if isinstance(op, _MOVES):
            moved[op.result] = sources[0]
            continue
        for place, found in enumerate(sources):
            for v in found:
                users[v].append((op, place))
    return [_role(v, users[v], graph) for v in graph.inputs]


_SMALL = 8
"""Whole numbers that name no rows are below."""


def _role(v: Value, users: Sequence[tuple[Op, int]], graph: KernelGraph) -> Role:
    scale, tables = 1.0, list[int]()
    for op, place in users:
        if isinstance(op, Matmul) and place == 1:
            scale = min(scale, op.operands[1].shape[-2] ** -0.5)
        if isinstance(op, Gather) and place == 1:
            tables.append(op.operands[0].shape[0])
        if isinstance(op, Launch):
            inner = [x for x in all_ops(op.body.ops) if isinstance(x, TileGather)]
            tables += [x.operands[0].shape[0] for x in inner]
    channels = bool(v.shape) and v.shape[-1] > 1 and v.type.size == v.shape[-1]
    added = bool(users) and all(isinstance(op, Binary) and op.fn.value == "add" for op, _ in users)
    return Role(scale, channels, added, min(tables, default=_SMALL))


# ---- situations


@dataclass(frozen=True)
class Situation:
    """A set of inputs. What is ``ordinary`` has no special row."""

    name: str
    inputs: tuple[Input, ...]
    ordinary: bool


@dataclass(frozen=True)
class Together:
    """Situations whose runs are side by side."""

    every: tuple[Situation, ...]

    @property
    def name(self) -> tuple[str, ...]:
        """What tells it from others of the same program."""
        return tuple(s.name for s in self.every)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Those of all situations; an input that is the same in all of them has one run."""
        return tuple(map(_side_by_side, zip(*(s.inputs for s in self.every), strict=True)))


def _side_by_side(inputs: Sequence[Input]) -> Input:
    if len(set(inputs)) == 1:
        return inputs[0]

    def part(box: Box) -> torch.Tensor:
        drawn = {given: given(box) for given in dict.fromkeys(inputs)}
        return torch.cat([drawn[given] for given in inputs], 0)

    return part


def in_groups(situations: Iterable[Situation], size: int) -> Iterator[Together]:
    """So many side by side, in their order."""
    rest = iter(situations)
    while some := tuple(islice(rest, size)):
        yield Together(some)


_KEPT = 3e7
"""Elements of inputs that are kept."""


class _Kept:
    """Parts of inputs that were drawn, up to a number of elements of all of them."""

    def __init__(self) -> None:
        self.elements = 0
        self.parts: dict[Input, list[tuple[Box, torch.Tensor]]] = {}

    def of(self, drawn: Input) -> Input:
        def part(box: Box) -> torch.Tensor:
            for known, x in self.parts.get(drawn, ()):
                if inside(box, known):
                    return cut(x, box, known)
            x = drawn(box)
            self.elements += prod(sizes(box))
            if self.elements > _KEPT:
                self.parts.clear()
                self.elements = prod(sizes(box))
            self.parts.setdefault(drawn, []).append((box, x))
            return x

        return part


class Situations:
    """Inputs for one program; what they hold depends on ``seed`` and on the situation's name."""

    def __init__(self, graph: KernelGraph, seed: int) -> None:
        self.graph, self.seed = graph, seed
        self._kept = _Kept()
        self._usual: dict[int, Input] = {}
        self.roles = roles(graph)
        self.floats = [i for i, v in enumerate(graph.inputs) if not v.dtype.is_integer]

    def ordinary(self, number: int, factor: float = 1.0) -> Situation:
        """Normal numbers at their usual scales, times ``factor``."""
        name = f"normal {number}, times {factor:g}"
        draws = {i: _shifted(0.0, factor * self.roles[i].scale) for i in self.floats}
        return self._situation(name, draws, True)

    def own_scales(self, number: int) -> Situation:
        """Each input at a scale of its own."""
        name = f"own scales {number}"
        rng = np.random.default_rng((self.seed, crc32(name.encode())))
        powers = {i: int(rng.integers(-12, 5)) for i in self.floats}
        draws = {i: _shifted(0.0, 2.0 ** powers[i]) for i in self.floats}
        told = ", ".join(f"2^{p}" for p in powers.values())
        return self._situation(f"{name}: {told}", draws, True)

    def special(self) -> Iterator[Situation]:
        """Rows of all kinds in one input after the other, outliers, and scales far from usual."""
        for i in self.floats:
            v, role = self.graph.inputs[i], self.roles[i]
            for power in (-14, 6, 12):
                yield self._situation(f"input {i} times 2^{power}", {i: _shifted(0.0, 2.0**power)})
            if len(v.shape) < 2 or role.gain:
                continue
            for name, draw in (ROWS | MASKS if role.added else ROWS).items():
                if name != "normal":
                    yield self._situation(f"rows of input {i}: {name}", {i: draw})
            for factor, gain in ((3000.0, 24.0), (300.0, 1.0)):
                name = f"channel of input {i} times {factor:g}, gain {gain:g}"
                yield self._situation(name, self._outlier(i, factor, gain))

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

    def _situation(self, name: str, draws: dict[int, Draw], ordinary: bool = False) -> Situation:
        inputs: list[Input] = []
        for i in range(len(self.graph.inputs)):
            if ordinary or i in draws:
                inputs.append(self._input(i, name, draws.get(i)))
            else:
                if i not in self._usual:
                    self._usual[i] = self._input(i, "", None)
                inputs.append(self._usual[i])
        return Situation(name, tuple(inputs), ordinary)

    def _input(self, i: int, name: str, draw: Draw | None) -> Input:
        v, role = self.graph.inputs[i], self.roles[i]
        seed = crc32(repr((self.seed, name, i)).encode())
        if v.dtype.is_integer:
            top = 2 if v.dtype.value == "i1" else role.rows
            return self._kept.of(_whole_numbers(v, seed, top))
        return self._kept.of(_drawn(v, draw or _shifted(0.0, role.scale), seed))


def _drawn(v: Value, draw: Draw, seed: int) -> Input:
    most = _LARGEST[v.dtype.value]

    def part(box: Box) -> torch.Tensor:
        x = draw(Place.of(v.shape, box), seed).reshape((1, *sizes(box)))
        x = np.where(np.isfinite(x), np.clip(x, -most, most), x)
        return rounded(torch.from_numpy(x), v.dtype).to(torch.float64)

    return part


def _whole_numbers(v: Value, seed: int, top: int) -> Input:
    def part(box: Box) -> torch.Tensor:
        bits = Place.of(v.shape, box).bits(seed).reshape((1, *sizes(box)))
        return torch.from_numpy((bits % np.uint64(top)).astype(np.float64))

    return part


def beside(situation: Situation, graph: KernelGraph, number: int) -> Situation:
    """The same inputs, each element at most one half rounding away."""

    def moved(v: Value, given: Input, seed: int) -> Input:
        if v.dtype.is_integer:
            return given
        size = {"f16": 2.0**-11, "bf16": 2.0**-8}.get(v.dtype.value, 2.0**-24)

        def part(box: Box) -> torch.Tensor:
            x = given(box)
            signs = Place.of(v.shape, box).bits(seed).reshape((1, *sizes(box))) % np.uint64(3)
            step = torch.from_numpy(signs.astype(np.float64)) - 1.0
            near = torch.where(x.isfinite(), x * (1.0 + 1.01 * size * step), x)
            return rounded(near, v.dtype).to(torch.float64)

        return part

    pairs = zip(graph.inputs, situation.inputs, strict=True)
    inputs = tuple(moved(v, x, 1000 * number + i) for i, (v, x) in enumerate(pairs))
    return Situation(f"{situation.name}, beside {number}", inputs, situation.ordinary)
