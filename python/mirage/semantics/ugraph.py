"""µGraphs as plain data: kernel graphs over device tensors, block graphs over tiles.

This is the form in which the search, the verifier, the interpreter and the cost model see a
program. It mirrors the `kernel` and `block` dialects one to one (``mirage.mlir_io``
converts both ways) and imports nothing of MLIR.

A program is SSA: a :class:`Value` is identified by the object itself, every :class:`Op` lists its
operands and owns its results, and a graph lists its ops in an order in which every value is
defined before it is used. The same op classes serve both levels: in a kernel graph a value is a
device tensor, in a block graph it is the tile that one thread block holds.

This module defines the graphs; it re-exports their ops from ``tensor_ops`` and ``movements`` (both
levels), ``kernel_ops`` and ``block_ops``.

**Shapes.** Reductions keep the reduced dimension with size 1. Binary ops broadcast as NumPy does.
Matmul contracts ``[..., m, k] x [..., k, n]``, leading dimensions broadcast.

**Launches.** A :class:`Launch` is a kernel defined by a block graph. Its grid axes have names and
extents; loops inside the block graph have an axis name too. A :data:`TileMap` gives for each tensor
dimension the axes that split it, outermost first: ``((), ("k",))`` keeps dimension 0 whole and cuts
dimension 1 into as many parts as axis ``k`` has steps. With parts ``p = prod(extents)`` and tile
size ``t``, part number ``i`` (mixed radix over the axes) covers the indices ``[i*t, (i+1)*t)`` that
lie inside the tensor; ``t * p >= size`` must hold. Loads fill the elements outside with zeros,
stores drop them, and :class:`Mask` overwrites them with a value of choice before a reduction. An
axis that a tensor's map does not name leaves the tensor whole along it (a load is replicated; for
stores every grid axis must be named).

**Steps.** A loop may skip steps depending on the block's position along grid axes (:class:`Steps`).

**Types in block graphs.** Loads have the tensor's element type; elementwise ops, reductions,
accumulators and matmuls produce f32 (f64 if an operand is); :class:`Cast` converts explicitly;
stores convert to the result tensor's type.

Source of the model: Wu et al., "Mirage: A Multi-Level Superoptimizer for Tensor Programs",
OSDI'25, section 2 (imap, omap, fmap are one :data:`TileMap` here).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from mirage.semantics.ops.block_ops import AccumulateFn as AccumulateFn
from mirage.semantics.ops.block_ops import Accumulator as Accumulator
from mirage.semantics.ops.block_ops import Axis as Axis
from mirage.semantics.ops.block_ops import Load as Load
from mirage.semantics.ops.block_ops import Loop as Loop
from mirage.semantics.ops.block_ops import Mask as Mask
from mirage.semantics.ops.block_ops import RunningMax as RunningMax
from mirage.semantics.ops.block_ops import TileMap as TileMap
from mirage.semantics.ops.cumulation import Cumulate as Cumulate
from mirage.semantics.ops.kernel_ops import Composite as Composite
from mirage.semantics.ops.kernel_ops import External as External
from mirage.semantics.ops.kernel_ops import LayerNorm as LayerNorm
from mirage.semantics.ops.kernel_ops import RmsNorm as RmsNorm
from mirage.semantics.ops.kernel_ops import Softmax as Softmax
from mirage.semantics.ops.kinds import Boundary as Boundary
from mirage.semantics.ops.kinds import Contraction as Contraction
from mirage.semantics.ops.kinds import Cumulation as Cumulation
from mirage.semantics.ops.kinds import Elementwise as Elementwise
from mirage.semantics.ops.kinds import Movement as Movement
from mirage.semantics.ops.kinds import Rearrangement as Rearrangement
from mirage.semantics.ops.kinds import Scan as Scan
from mirage.semantics.ops.kinds import Source as Source
from mirage.semantics.ops.kinds import Structure as Structure
from mirage.semantics.ops.kinds import View as View
from mirage.semantics.ops.kinds import Zeros as Zeros
from mirage.semantics.ops.kinds import all_ops as all_ops
from mirage.semantics.ops.kinds import values_in as values_in
from mirage.semantics.ops.movements import Broadcast as Broadcast
from mirage.semantics.ops.movements import Concat as Concat
from mirage.semantics.ops.movements import Reshape as Reshape
from mirage.semantics.ops.movements import Slice as Slice
from mirage.semantics.ops.movements import Transpose as Transpose
from mirage.semantics.ops.op import Op as Op
from mirage.semantics.ops.op import TensorType as TensorType
from mirage.semantics.ops.op import UnknownOp as UnknownOp
from mirage.semantics.ops.op import Value as Value
from mirage.semantics.ops.op import no_rule as no_rule
from mirage.semantics.ops.op import unknown as unknown
from mirage.semantics.ops.taken_steps import ExtremeFn as ExtremeFn
from mirage.semantics.ops.taken_steps import Reading as Reading
from mirage.semantics.ops.taken_steps import StepNumber as StepNumber
from mirage.semantics.ops.taken_steps import Steps as Steps
from mirage.semantics.ops.tensor_ops import Binary as Binary
from mirage.semantics.ops.tensor_ops import Cast as Cast
from mirage.semantics.ops.tensor_ops import Constant as Constant
from mirage.semantics.ops.tensor_ops import Matmul as Matmul
from mirage.semantics.ops.tensor_ops import Reduce as Reduce
from mirage.semantics.ops.tensor_ops import Unary as Unary


@dataclass(frozen=True)
class Schedule:
    """How a block executes its graph: the number of warps that compute, and the stages of the copy
    pipeline.

    With ``warpgroups``, groups of four warps multiply tiles in shared memory, which one more warp
    keeps filled by the tensor memory accelerator; otherwise each warp multiplies tiles in its
    registers. ``resident`` is the largest number of blocks that are started, each of which computes
    several positions of the grid one after the other; 0 means one block for each position.
    ``cluster`` is the number of blocks that run together: with ``warpgroups``, neighbours along a
    grid axis, which each copy a part of the tiles that they share; otherwise, blocks that share the
    work of one position of the grid.
    """

    warps: int = 4
    stages: int = 2
    warpgroups: bool = False
    resident: int = 0
    cluster: int = 1

    @property
    def block_warps(self) -> int:
        """The number of warps in a block, including the one that only copies."""
        return self.warps + (1 if self.warpgroups else 0)


@dataclass(frozen=True, eq=False)
class BlockGraph:
    """The program of one thread block: ``params`` are the launch's operands (device tensors),
    ``outputs`` are stored tiles.
    """

    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, eq=False)
class Output:
    """A tile and its map in the launch's result with the same number."""

    value: Value
    map: TileMap


@dataclass(frozen=True, eq=False)
class Launch(Structure):
    """A kernel defined by a block graph, run once for each point of the grid."""

    grid: tuple[Axis, ...]
    body: BlockGraph
    schedule: Schedule = Schedule()

    in_block: ClassVar[bool] = False

    @property
    def inside(self) -> tuple[Op, ...]:
        return self.body.ops

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """All loops of the kernel, each before the loops inside of it."""
        return tuple(op for op in all_ops(self.inside) if isinstance(op, Loop))

    @property
    def defines(self) -> tuple[Value, ...]:
        return self.body.params

    @property
    def ends(self) -> tuple[Value, ...]:
        return tuple(output.value for output in self.body.outputs)

    def rebuilt(self, inside: tuple[Op, ...], new: Callable[[Value], Value]) -> Launch:
        params = tuple(map(new, self.body.params))
        outputs = tuple(Output(new(o.value), o.map) for o in self.body.outputs)
        return replace(self, body=BlockGraph(params, inside, outputs))


@dataclass(frozen=True, eq=False)
class KernelGraph:
    """A tensor program."""

    name: str
    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Value, ...]


def launches(ops: Iterable[Op]) -> Iterator[Launch]:
    """Yield the kernels among the ops of a kernel graph, in order."""
    return (op for op in ops if isinstance(op, Launch))


def loops(launch: Launch) -> Iterator[Loop]:
    """Yield all loops of a kernel, each before the loops inside of it."""
    return iter(launch.loops)


def axis_extents(launch: Launch) -> dict[str, int]:
    """Return the extent of every grid and loop axis of a launch."""
    axes = (*launch.grid, *(loop.axis for loop in loops(launch)))
    return {axis.name: axis.extent for axis in axes}
