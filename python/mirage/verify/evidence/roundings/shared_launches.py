"""Kernels that several candidates have in common.

Candidates of one program differ in one or two kernels; the others compute the same results from the
same inputs. Two launches do so if they consist of the same ops
(:func:`mirage.semantics.signature.signature`), have the same operands, and run at the same
positions of their grids for the same parts of tiles; that is value numbering across graphs. The
results of such a launch are computed once for the same inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from mirage.semantics.region import Demand, by_content
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Launch, Op, Value


def common_launches(
    graphs: Sequence[KernelGraph], demands: Sequence[Demand]
) -> list[Mapping[Op, int]]:
    """Number the launches of each graph that another graph has too: launches with the same results
    get equal numbers. Graphs have the same inputs."""
    numbers: dict[Hashable, int] = {}
    found: list[dict[Op, int]] = []
    for graph, demand in zip(graphs, demands, strict=True):
        known: dict[Value, int] = {
            v: numbers.setdefault(("input", i), len(numbers)) for i, v in enumerate(graph.inputs)
        }
        launches: dict[Op, int] = {}
        for op in graph.ops:
            operands = tuple(dict.fromkeys(op.operands))
            text = signature(KernelGraph("op", operands, (op,), op.results))
            launch = op if isinstance(op, Launch) else None
            steps = None if launch is None else demand.positions.get(launch, {})
            positions = tuple((a, steps[a].tobytes()) for a in sorted(steps or {}) if steps)
            wanted = None if launch is None else demand.parts.get(launch)
            parts = None if wanted is None else tuple(by_content(r) for r in wanted.values())
            key = (text, tuple(known[v] for v in operands), positions, parts)
            number = numbers.setdefault(key, len(numbers))
            for place, value in enumerate(op.results):
                known[value] = numbers.setdefault((number, place), len(numbers))
            if steps is not None:
                launches[op] = number
        found.append(launches)
    times = Counter(n for launches in found for n in set(launches.values()))
    return [{op: n for op, n in launches.items() if times[n] > 1} for launches in found]
