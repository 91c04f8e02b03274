"""The combine kernels found so far: equal combine programs are solved, checked and predicted
once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mirage.cost.cost_report import CostReport
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.target import Target
from mirage.search.kernel.problems.problem import Written, as_written
from mirage.semantics.signature import signature
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, Launch, Value, launches, values_in


@dataclass
class CombineKernel:
    """The launches and views for a combine program, with the values of the program that was solved;
    empty if no launches were found."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    ops: Written
    _reports: dict[tuple[Launch, frozenset[Value]], CostReport] = field(
        default_factory=dict[tuple[Launch, frozenset[Value]], CostReport]
    )

    def written_for(self, graph: KernelGraph) -> Combination:
        """Return the kernel rewritten for an equal program."""
        found = KernelGraph(graph.name, self.inputs, self.ops, self.outputs)
        names = {v: Value(v.type, v.name) for v in values_in(found.ops)}
        names.update(zip(found.inputs, graph.inputs, strict=True))
        names.update(zip(found.outputs, graph.outputs, strict=True))
        ops = as_written(rename_graph(found, names).ops)
        originals = dict(zip(launches(ops), launches(self.ops), strict=True))
        return Combination(graph, self, ops, originals)

    def report(self, launch: Launch, hot: frozenset[Value], target: Target) -> CostReport:
        """Return the cost of a launch if L2 holds the operands ``hot``."""
        key = launch, hot
        if key not in self._reports:
            self._reports[key] = report(features_of(launch, hot), target)
        return self._reports[key]


@dataclass(frozen=True)
class Combination:
    """A combine kernel rewritten for one ``program``: its launches and views, and the original of
    each launch."""

    program: KernelGraph | None = None
    kernel: CombineKernel = field(default_factory=lambda: CombineKernel((), (), ()))
    ops: Written = ()
    found: Mapping[Launch, Launch] = field(default_factory=dict[Launch, Launch])

    def report(self, launch: Launch, hot: Collection[Value], target: Target) -> CostReport:
        """Return the cost of one of its launches if L2 holds ``hot``."""
        found = self.found[launch]
        same = zip(launch.operands, found.operands, strict=True)
        own = frozenset(there for here, there in same if here in hot)
        return self.kernel.report(found, own, target)


Key = tuple[str, frozenset[int]]


def key_of(graph: KernelGraph, hot: frozenset[Value]) -> Key:
    """Return a key that is equal for combine programs that differ only in their values: the text,
    and the inputs that L2 holds."""
    return signature(graph), frozenset(graph.inputs.index(v) for v in hot)
