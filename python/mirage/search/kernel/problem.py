"""A kernel problem: the values to compute, and the solutions."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.cost.cost_report import CostReport
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.growth import Scales
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Contraction, Launch, Op, Reshape, Value


@dataclass(frozen=True)
class KernelProblem:
    """Compute ``outputs`` from ``leaves`` by the ops in ``definitions``.

    Several outputs have the shape of the first, or one that broadcasts to it.
    """

    outputs: tuple[Value, ...]
    leaves: tuple[Value, ...]
    definitions: dict[Value, Op]
    table: AxisTable
    combine: bool = False  # sums partial results: no matmuls, no further grid sums
    hot: frozenset[Value] = (
        frozenset()
    )  # leaves that L2 still holds, as kernels before have just written them
    scales: Scales | None = None  # of the leaves, where they are values of a larger program

    @property
    def tf32(self) -> bool:
        """Whether products of f32 factors may round them to TF32: all those of the program do."""
        products = [
            op.rounds_factors
            for op in self.definitions.values()
            if isinstance(op, Contraction)
            and len(op.operands) == 2
            and op.result.dtype is DType.F32
        ]
        return bool(products) and all(products)


@dataclass(frozen=True)
class Solution:
    """Launches (a kernel and perhaps its combine kernel) that compute a problem's outputs, with the
    views of tensors that they need; and their cost."""

    ops: tuple[Launch | Reshape, ...]
    cost: CostReport
    description: str
