"""Memory for one kernel of an artifact, in the form that the emulator takes: operands that hold
numbers, and results that are uninitialised.

A kernel may have operands of gigabytes of which its first blocks read little. Random numbers for
all of them would cost more than running the kernel, so operands repeat a run of random numbers. The
length of the run is prime, so rows, tiles and columns all hold different numbers. The pages of
large operands repeat as well (:mod:`mirage.pipeline.checks.repeated_memory`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.emulator.launch_arguments import Uninitialised
from mirage.emulator.run_artifact import DTYPES, in_steps, span, tensor_map
from mirage.emulator.tensor_map import TensorMap
from mirage.pipeline.checks.repeated_memory import RUN, repeated
from mirage.runtime.serialization.manifest import Argument, KernelLaunch
from mirage.runtime.serialization.sizes import Size
from mirage.semantics.indexing.strides import dense
from mirage.semantics.row_updates import IndexCopy, RowPart, place_of
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Op, Value

Array = np.ndarray[Any, Any]
_RUN = 65_537
_LINE = 256  # bytes: the coarsest alignment of addresses that matters


@dataclass(frozen=True)
class KernelMemory:
    """The arrays of a kernel's operands and results, and its arguments, in the manifest's order."""

    operands: tuple[Array, ...]
    results: tuple[Uninitialised, ...]
    arguments: tuple[Array | Uninitialised | TensorMap | np.int32, ...]


@dataclass(frozen=True)
class RowStore:
    """A result, number ``result`` of a kernel, that is not written to its own memory but to the
    place that ``copy`` gives. The kernel takes the index of ``copy`` after its operands."""

    result: int
    copy: IndexCopy
    part: RowPart


class UnknownArgumentsError(ValueError):
    """The kernel's arguments do not correspond to its op's operands and results."""


def memory_for(
    op: Op,
    kernel: KernelLaunch,
    rng: np.random.Generator,
    *,
    positive: bool,
    size: Size | None = None,
    stores: Sequence[RowStore] = (),
) -> KernelMemory:
    """Make memory for ``kernel``, which computes ``op``. The numbers in operands are around 0, or
    at least 1/4; whole if the kernel writes integers, which it may compute from floats that are
    known to be whole. Results in ``stores`` are rows of a tensor. Raises
    :class:`UnknownArgumentsError`.
    """
    indices = [s.copy.operands[1] for s in stores]
    values = (*op.operands, *indices, *op.results)
    given, maps = kernel.arguments[: len(values)], kernel.arguments[len(values) :]
    sizes: list[np.int32] = []
    if size is not None and maps and maps[-1].kind == "size":
        maps, sizes = maps[:-1], [np.int32(size.value)]
    if len(given) < len(values) or any(a.map for a in given) or any(a.map is None for a in maps):
        raise UnknownArgumentsError(
            f"expected {len(values)} tensors and their maps as arguments, got "
            f"{len(kernel.arguments)} arguments"
        )
    count = len(op.operands)
    whole = any(v.dtype.is_integer and v.dtype is not DType.I1 for v in op.results)
    draw = _Draw(rng, positive=positive, whole=whole)
    held = _operands(op.operands, given[:count], draw)
    fresh = _unwritten(op.results, given[count + len(stores) :])
    handed = list(fresh)
    named: list[Array] = []
    for store in stores:
        row = int(rng.integers(0, store.copy.operands[0].shape[store.copy.dim]))
        named.append(np.full(1, row, DTYPES[store.copy.operands[1].dtype.value]))
        handed[store.result], fresh[store.result] = _row(store, op.results[store.result], row)
    passed = (*held, *named, *(f.array for f in handed))
    by_place = {_place(a): x for a, x in zip(given, passed, strict=True)}
    described: list[TensorMap] = []
    for a in maps:
        if _place(a) not in by_place or a.map is None:
            raise UnknownArgumentsError("expected maps of the kernel's own tensors, got another")
        described.append(tensor_map(by_place[_place(a)], a.map))
    arguments = (*held, *named, *handed, *described, *sizes)
    return KernelMemory(held, tuple(fresh), arguments)


def _row(store: RowStore, value: Value, row: int) -> tuple[Uninitialised, Uninitialised]:
    """Return the memory of the tensor that a result is stored to, and the part of it that is the
    result. Raises :class:`UnknownArgumentsError`."""
    tensor = store.copy.operands[0]
    place = place_of(store.part)
    if place is None:
        raise UnknownArgumentsError(f"expected a row of {tensor.type}, got {value.type}")
    flat = np.empty(tensor.type.size, DTYPES[tensor.dtype.value])
    written = np.zeros(flat.nbytes, bool)
    start = flat[row * dense(tensor.shape)[store.copy.dim] + store.part.offset :]
    steps = [n * flat.itemsize for n in place.strides]
    part = np.ndarray(place.shape, flat.dtype, start, strides=steps)
    return Uninitialised(flat, written), Uninitialised(part, written)


def _place(argument: Argument) -> tuple[str, int, int]:
    return argument.kind, argument.index, argument.offset


@dataclass
class _Run:
    """Tensors whose elements lie between each other's, or that start at the same place: their
    numbers, and the ``start`` and ``end`` of their memory in bytes."""

    numbers: list[int]
    start: int
    end: int


def _runs(values: Sequence[Value], given: Sequence[Argument]) -> list[_Run]:
    """Return the tensors in groups that share memory."""
    found: dict[tuple[str, int], list[_Run]] = {}
    order = sorted(range(len(values)), key=lambda i: given[i].offset)
    for i in order:
        v, a = values[i], given[i]
        end = a.offset + span(v.shape, a.strides) * np.dtype(DTYPES[v.dtype.value]).itemsize
        runs = found.setdefault((a.kind, a.index), [])
        last = runs[-1] if runs else None
        if last is not None and (a.offset < last.end or a.offset == last.start):
            last.numbers.append(i)
            last.end = max(last.end, end)
        else:
            runs.append(_Run([i], a.offset, end))
    return [run for runs in found.values() for run in runs]


def _operands(values: Sequence[Value], given: Sequence[Argument], draw: _Draw) -> tuple[Array, ...]:
    """Make an array for each operand."""
    arrays: dict[int, Array] = {}
    for run in _runs(values, given):
        dtype = values[run.numbers[0]].dtype
        each = np.dtype(DTYPES[dtype.value]).itemsize
        flat = _numbers((run.end - run.start) // each, dtype, run.start, draw)
        for i in run.numbers:
            start = (given[i].offset - run.start) // each
            arrays[i] = _shaped(flat[start:], values[i], given[i])
    return tuple(arrays[i] for i in range(len(values)))


def _shaped(flat: Array, value: Value, argument: Argument) -> Array:
    """Return a tensor whose elements have the layout that the kernel expects."""
    if argument.strides is None:
        return flat[: value.type.size].reshape(value.shape or (1,))
    return in_steps(flat.view(np.uint8), flat.dtype, value.shape, argument.strides)


@dataclass(frozen=True)
class _Draw:
    """The distribution of the drawn numbers: integers below 4 (any table has such rows), truth
    values that are true in three of four cases, and floats with standard deviation 1/2, or 2 if
    they are whole."""

    rng: np.random.Generator
    positive: bool
    whole: bool

    def run(self, dtype: DType) -> Array:
        if dtype.is_integer:
            return self.rng.integers(0, 4, _RUN)
        run = self.rng.standard_normal(_RUN) * 0.5
        if self.whole:
            run = np.rint(4 * run)
        least = 1.0 if self.whole else 0.25
        return np.abs(run) + least if self.positive else run


def _numbers(size: int, dtype: DType, offset: int, draw: _Draw) -> Array:
    """Make memory for ``size`` drawn numbers.

    The first number is large: lanes that are out of bounds read it and must discard it, so a lane
    that does not becomes visible."""
    run = draw.run(dtype)
    flat = _filled(size, dtype, offset, run)
    if size and not dtype.is_integer:
        flat[0] = 2.0
    return flat


def _filled(size: int, dtype: DType, offset: int, run: Array) -> Array:
    """Make memory for ``size`` elements that repeats a run; the pages of large memory are
    repeated."""
    kind = np.dtype(DTYPES[dtype.value])
    if size * kind.itemsize > 2 * RUN:
        skipped = offset % _LINE // kind.itemsize
        pages = repeated(
            _filled(RUN // kind.itemsize, dtype, 0, run).view(np.uint8),
            (size + skipped) * kind.itemsize,
        )
        if pages is not None:
            return pages.view(kind)[skipped:]
    flat = _flat(size, dtype, offset)
    filled = min(size, _RUN)
    flat[:filled] = run[:filled].astype(flat.dtype)
    while filled < size:
        more = min(filled, size - filled)
        flat[filled : filled + more] = flat[:more]
        filled += more
    return flat


def _unwritten(values: Sequence[Value], given: Sequence[Argument]) -> list[Uninitialised]:
    """Make memory for each result."""
    arrays: dict[int, Uninitialised] = {}
    for run in _runs(values, given):
        dtype = values[run.numbers[0]].dtype
        each = np.dtype(DTYPES[dtype.value]).itemsize
        flat = _flat((run.end - run.start) // each, dtype, run.start)
        written = np.zeros((flat if flat.base is None else flat.base).nbytes, bool)
        for i in run.numbers:
            start = (given[i].offset - run.start) // each
            arrays[i] = Uninitialised(_shaped(flat[start:], values[i], given[i]), written)
    return [arrays[i] for i in range(len(values))]


def _flat(size: int, dtype: DType, offset: int) -> Array:
    """Make memory for ``size`` elements that has the same offset within a cache line as the
    argument."""
    kind = np.dtype(DTYPES[dtype.value])
    skipped = offset % _LINE // kind.itemsize
    return np.empty(max(size, 1) + skipped, kind)[skipped:]


def written_elements(result: Uninitialised) -> Array:
    """Return the flat indices, sorted, of elements of which any byte was written."""
    return np.flatnonzero(result.written_bytes().any(axis=-1))


def stray_bytes(results: Sequence[Uninitialised]) -> int:
    """Return the number of bytes that were written around the results, in memory that they are
    parts of."""
    shared = {id(r.written): r.written for r in results if r.written is not None}
    every = sum(np.count_nonzero(written) for written in shared.values())
    own = sum(np.count_nonzero(r.written_bytes()) for r in results if r.written is not None)
    return int(every - own)
