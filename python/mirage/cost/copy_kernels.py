"""The ops between kernels that are kernels of their own, and their cost.

Slices that only kernels read are addresses and strides, and so are the parts of a concatenation
that kernels compute for it alone; others are copied. If only another concatenation reads a copied
one, that one copies the parts. Compiled programs decide by the same rule (``mirage-view-tensors``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from math import ceil, gcd, prod

from mirage.cost.cost_report import CostReport
from mirage.cost.target import Target
from mirage.semantics.indexing.strides import START, Strides, dense, reshaped, row_alignment
from mirage.semantics.region import contiguous_start
from mirage.semantics.ugraph import (
    Boundary,
    Broadcast,
    Constant,
    Contraction,
    External,
    KernelGraph,
    Launch,
    Load,
    Op,
    Rearrangement,
    Value,
    all_ops,
)

OWN_TILES = 0.55
"""The share of the full rate of warps that multiply that a product reaches with its default tiles,
without a search (289 of 528 Tflop/s on an H200, 2048 x 4096 x 14336)."""
FEW_ROWS, FEW_COLUMNS = 16, 32
"""The most columns of a default tile if the product has at most so many rows
(``lib/Dialect/Block/Transforms/KernelsToLaunches.cpp``)."""
OWN_FACTORS = 0.6
"""The share of the rate of L2 at which tiles of few rows read their factors (2.6 to 3.3 TB/s on an
H200: 32 products of a row with 4096 x 4096, x 14336 and x 128256)."""
OWN_TURNED = 0.4
"""The share of the rate of memory at which a kernel moves elements whose last dimension becomes
another one (1.5 to 2 TB/s on an H200: keys of 32 x 4096, a factor of 4096 x 128256)."""


def is_address(op: Op) -> bool:
    """Return whether an op is a slice that compiles to an address (unless it is an output)."""
    if op.cut_at is None:
        return False
    start = contiguous_start(op.operands[0].shape, op.result.shape, op.cut_at)
    return start is not None and start * op.result.dtype.bytes % START == 0


def copies_in(graph: KernelGraph) -> frozenset[Op]:
    """Return the slices and concatenations of a graph that are copy kernels."""
    moves = [op for op in graph.ops if moves_elements(op)]
    return frozenset(moves) - _Views(graph).found() if moves else frozenset()


def moves_elements(op: Op) -> bool:
    """Return whether an op is a slice or a concatenation."""
    return op.cut_at is not None or op.joined_along is not None


class _Views:
    def __init__(self, graph: KernelGraph) -> None:
        self.graph = graph
        self.outputs = frozenset(graph.outputs)
        self.definitions = {v: op for op in graph.ops for v in op.results}
        self.readers: dict[Value, list[Op]] = {}
        self.uses = Counter(graph.outputs)
        for op in graph.ops:
            self.uses.update(op.operands)
            for v in dict.fromkeys(op.operands):
                self.readers.setdefault(v, []).append(op)

    def found(self) -> frozenset[Op]:
        """Return the slices and concatenations that are addresses."""
        found: set[Op] = set()
        for op in self.graph.ops:
            if op.cut_at is not None and op not in found:
                if is_address(op) and op.result not in self.outputs:
                    found.add(op)
                    continue
                strides = dense(op.operands[0].shape)
                views = self._views(op, op.cut_at, strides, START)
                if views is not None:
                    found.update(views)
            elif op.joined_along is not None and (
                self._is_stored(op) or self._is_written_in_parts(op, dense(op.result.shape))
            ):
                found.add(op)
        # now it is known which joins are copied: they also copy the parts of the joins that they
        # read
        return frozenset((*found, *(op for op in self.graph.ops if self._is_part(op, found))))

    def _views(
        self, op: Op, offsets: Sequence[int], strides: Strides, align: int
    ) -> list[Op] | None:
        """Return the slice and slices of it, if only kernels read them."""
        start = sum(n * step for n, step in zip(offsets, strides, strict=True))
        align = gcd(align, start * op.result.dtype.bytes)
        inner = self._read_by_kernels(op.result, strides, align)
        return None if inner is None else [op, *inner]

    def _read_by_kernels(self, value: Value, strides: Strides, align: int) -> list[Op] | None:
        if value in self.outputs:
            return None
        found: list[Op] = []
        for op in self.readers.get(value, ()):
            more: list[Op] | None = None
            if op.cut_at is not None:
                more = self._views(op, op.cut_at, strides, align)
            elif op.renames:
                other = reshaped(value.shape, strides, op.result.shape)
                if other is not None:
                    more = self._read_by_kernels(op.result, other, align)
            elif _loads(op, value, strides, align):
                more = []
            if more is None:
                return None
            found += more
        return found

    def _is_part(self, op: Op, addresses: Container[Op]) -> bool:
        """Return whether only another concatenation reads a concatenation, and so copies its
        operands."""
        if op.joined_along is None or op in addresses or self.uses[op.result] != 1:
            return False
        readers = self.readers.get(op.result, [])
        return any(
            reader.joined_along is not None
            and reader not in addresses
            and reader.result.dtype is op.result.dtype
            for reader in readers
        )

    def _is_stored(self, op: Op) -> bool:
        """Return whether kernels store the concatenated parts to a tensor that is updated."""
        readers = self.readers.get(op.result, [])
        return bool(readers) and all(reader.updates for reader in readers)

    def _is_written_in_parts(self, op: Op, steps: Strides) -> bool:
        """Return whether kernels write the parts of a concatenation to a tensor with these steps,
        including those of concatenations that only this one reads."""
        return all(
            v.dtype is op.result.dtype
            and (self._is_inner(v, steps) or self._is_written_for(v, steps))
            for v in op.operands
        )

    def _is_inner(self, part: Value, steps: Strides) -> bool:
        op = self.definitions.get(part)
        inner = op is not None and op.joined_along is not None and self.uses[part] == 1
        return inner and op is not None and self._is_written_in_parts(op, steps)

    def _is_written_for(self, part: Value, strides: Strides) -> bool:
        """Return whether a kernel computes a part for this concatenation alone, so that it may
        write it in place."""
        value = part
        while self.uses[value] == 1:
            if reshaped(part.shape, strides, value.shape) is None:
                return False
            op = self.definitions.get(value)
            if op is None or not op.renames:
                return op is not None and _is_kernel(op)
            value = op.operands[0]
        return False


def _is_kernel(op: Op) -> bool:
    """Return whether an op is a launch or becomes one; copies do not count."""
    return not (isinstance(op, Constant | Boundary) or op.renames or moves_elements(op))


def _loads(op: Op, value: Value, strides: Strides, align: int) -> bool:
    """Return whether an op is a kernel that loads tiles of an operand with these strides."""
    if not isinstance(op, Launch):
        return _is_kernel(op)
    params = {p for p, v in zip(op.body.params, op.operands, strict=True) if v is value}
    readers = [inner for inner in all_ops(op.inside) if params.intersection(inner.operands)]
    rows = row_alignment(value.shape, strides, value.dtype.bytes, align)
    tables = {inner for inner in readers if inner.names_rows is not None}
    if tables and (
        any(not params.isdisjoint(inner.operands[1:]) for inner in tables)
        or (rows, strides[1:]) != (START, dense(value.shape)[1:])
    ):
        return False
    if not all(isinstance(inner, Load) or inner in tables for inner in readers):
        return False
    return not op.schedule.warpgroups or rows == START


def copied_bytes(graph: KernelGraph) -> int:
    """Return the number of bytes that slices and concatenations copy."""
    return sum(op.result.type.bytes for op in copies_in(graph))


def is_unfused(op: Op, copies: Container[Op]) -> bool:
    """Return whether an op of a kernel graph, other than a launch, becomes a kernel of its own;
    ``copies`` are the slices and concatenations that do."""
    if op.renames or op.updates:
        return False
    if isinstance(op, Constant | Launch | External | Broadcast):
        return False
    return not moves_elements(op) or op in copies


def unfused_in(graph: KernelGraph) -> Iterator[Op]:
    """Yield the ops of a graph, other than launches, that become kernels of their own, in
    order."""
    copies = copies_in(graph)
    return (op for op in graph.ops if is_unfused(op, copies))


def unfused_report(op: Op, target: Target) -> CostReport:
    """Predict the cost of a kernel for one op: its operands are read once (for a slice or
    concatenation, the part that it keeps), its results are written once, and its products are as
    fast as fixed tiles allow, each of which reads its part of the factors. Nothing is said of what
    such a kernel hides of its start."""
    written = float(sum(v.type.bytes for v in op.results))
    read = float(sum(v.type.bytes for v in op.operands))
    if moves_elements(op):
        read = written
    chain, dram = target.latency + target.block_start, (read + written) / target.dram_bytes
    if _turns(op):
        dram /= OWN_TURNED
    half = op.operands[0].dtype.bytes == 2 if op.operands else False
    compute = product_time(op, target) / (OWN_TILES if half else 1.0)
    compute = max(compute, _read_by_tiles(op) / (OWN_FACTORS * target.l2_bytes))
    return CostReport(
        time=target.launch + max(chain, dram, compute),
        dram=dram,
        compute=compute,
        chain=chain,
        launch=target.launch,
        bytes_read=read,
        bytes_written=written,
        early=False,
    )


def _turns(op: Op) -> bool:
    """Return whether the last dimension of a result is not the last one of the operand, so that
    neighbouring elements are far apart there."""
    if not isinstance(op, Rearrangement) or op.renames:
        return False
    last, source = len(op.result.shape) - 1, op.source_dims()
    return source is not None and source.get(last) != len(op.operands[0].shape) - 1


def _read_by_tiles(op: Op) -> float:
    """Return the bytes of factors that the default tiles of few rows read; 0 for other ops. Larger
    tiles take longer to multiply than to read."""
    if not isinstance(op, Contraction) or not product_work(op) or op.result.shape[-2] > FEW_ROWS:
        return 0.0
    tiles = (
        op.result.type.size // prod(op.result.shape[-2:]) * ceil(op.result.shape[-1] / FEW_COLUMNS)
    )
    first, second = op.operands
    depth = prod(first.shape[d] for d in op.over[0])
    rows, columns = op.result.shape[-2], min(op.result.shape[-1], FEW_COLUMNS)
    return float(tiles * depth * (rows * first.dtype.bytes + columns * second.dtype.bytes))


def product_time(op: Op, target: Target) -> float:
    """Return the µs of the products that an op sums, at the full rate of warps that multiply."""
    work = product_work(op)
    half = work > 0.0 and op.operands[0].dtype.bytes == 2
    return work / (target.sms * (target.mma_half if half else target.mma_f32))


def product_work(op: Op) -> float:
    """Return the floating-point operations of the products that an op sums; 0 if there are
    none."""
    if not isinstance(op, Contraction) or not op.sums or len(op.operands) < 2:
        return 0.0
    first = op.operands[0]
    return 2.0 * op.result.type.size * prod(first.shape[d] for d in op.over[0])
