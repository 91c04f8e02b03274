"""Parts that keep their own ops: the number of their kernels, and calls of PyTorch in their place.

A kernel of one op is compiled in milliseconds, but a large program has thousands of them. A call
needs no compilation, so there is always time for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mirage.cost.copy_kernels import unfused_in
from mirage.pipeline.parts.part_data import OWN_OPS
from mirage.semantics.alternatives import Alternatives, parts_of, replaced
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.partition.calls import as_calls


def keeps_own_ops(part: Alternatives) -> bool:
    """Return whether a part has no candidate."""
    return part.verdicts == (OWN_OPS,)


def without_kernels(verified: KernelGraph) -> KernelGraph:
    """Return the program with calls of PyTorch for the parts that keep their own ops; the program
    itself if there are none."""
    if not any(map(keeps_own_ops, parts_of(verified))):
        return verified
    return replaced(verified, lambda p: as_calls(p.programs[0]) if keeps_own_ops(p) else None)


def different_kernels(verified: KernelGraph) -> int:
    """Return the number of different kernels to compile for the parts that keep their own ops."""
    parts = (p.programs[1] for p in parts_of(verified) if keeps_own_ops(p))
    return len({text for program in parts for text in _kernels(program)})


def kernels_of(graph: KernelGraph) -> int:
    """Return the number of different kernels to compile if each op of a program is one."""
    return len(set(_kernels(graph)))


def _kernels(graph: KernelGraph) -> Iterator[str]:
    """Yield a text for each op that becomes a kernel; equal kernels have equal texts."""
    for op in unfused_in(graph):
        inputs = tuple(dict.fromkeys(op.operands))
        yield signature(KernelGraph("op", inputs, (op,), op.results))
